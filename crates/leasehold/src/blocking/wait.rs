//! Waits for a future on the current thread, where blocking that thread is allowed.

use std::pin::pin;
use std::sync::Arc;
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
/// `Runtime::block_on`, it never panics.
pub(super) fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let _entered = runtime.enter();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
