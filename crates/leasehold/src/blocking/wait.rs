//! Waits for a future on the current thread, where blocking that thread is allowed.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::runtime::Runtime;
use tokio::task::coop::cooperative;

/// More than the number of steps that tokio gives a task before it must yield (128).
const STEPS: u32 = 256;

/// Returns true inside an async task, or a future under `block_on`. Returns false inside
/// `spawn_blocking`, `block_in_place` and `unconstrained`.
///
/// Tokio has no function for this. It limits the steps of an async task, and of nothing else.
pub(super) fn in_async_task() -> bool {
    let mut context = Context::from_waker(Waker::noop());
    !has_steps(STEPS, &mut context)
}

/// Returns true if so many more steps are left. It uses none: each step that ends without progress is
/// given back.
fn has_steps(steps: u32, context: &mut Context<'_>) -> bool {
    if steps == 0 {
        return true;
    }
    let mut has = false;
    let mut step = pin!(cooperative(std::future::poll_fn(|context| {
        has = has_steps(steps - 1, context);
        Poll::<()>::Pending
    })));
    let _ = step.as_mut().poll(context);
    has
}

/// Waits for a future, which uses the timers and connections of `runtime`. Unlike
/// `Runtime::block_on`, it does not panic inside a runtime.
pub(super) fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let _entered = runtime.enter();
    let unpark = Arc::new(Unpark::here());
    let waker = Waker::from(unpark.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => unpark.wait(),
        }
    }
}

/// Wakes a thread. The flag keeps the wake-up if code inside the future parks the thread too.
struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Unpark {
    fn here() -> Self {
        Self { thread: std::thread::current(), woken: AtomicBool::new(false) }
    }

    fn wait(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_kept_while_the_future_parks_the_thread_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut polls = 0;
        let future = std::future::poll_fn(|context| {
            polls += 1;
            if polls == 2 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            // As a full channel of a logger does: it uses up the permission to go on.
            std::thread::park();
            Poll::Pending
        });
        block_on(&runtime, future);
        assert_eq!(polls, 2);
    }

    #[test]
    fn only_async_tasks_are_detected() {
        let multi = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let current = || tokio::runtime::Builder::new_current_thread().build();
        assert!(!in_async_task(), "outside a runtime");
        for runtime in [multi().unwrap(), current().unwrap()] {
            runtime.block_on(async {
                assert!(in_async_task(), "under block_on");
                // The search gives back what it uses.
                assert!((0..1_000).all(|_| in_async_task()));
                assert!(tokio::task::coop::has_budget_remaining());
                assert!(tokio::spawn(async { in_async_task() }).await.unwrap(), "in a task");
                assert!(!tokio::task::spawn_blocking(in_async_task).await.unwrap());
            });
        }
        let inside = async { tokio::task::block_in_place(in_async_task) };
        let runtime = multi().unwrap();
        assert!(!runtime.block_on(async { tokio::spawn(inside).await.unwrap() }));
    }
}
