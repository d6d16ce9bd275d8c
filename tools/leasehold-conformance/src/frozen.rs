//! Runs a client while its clock is stopped, so that none of its time limits can end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

/// How often the condition is checked, a millisecond apart.
const CHECKS: usize = 20_000;

/// Runs `run` until `seen` holds, and returns whether it did. None of the time limits of `run` ends meanwhile:
/// what is seen does not follow a wait.
///
/// The runtime has one thread and a paused clock (`tokio::time::pause`). A paused clock moves on only while no
/// blocking task runs, and one does.
pub async fn before_any_time_limit(run: impl Future, seen: impl Fn() -> bool) -> bool {
    let (stop, stopped) = mpsc::channel::<()>();
    let blocking = tokio::task::spawn_blocking(move || stopped.recv());
    let mut run = pin!(run);
    let mut is_done = false;
    let mut was_seen = seen();
    for _ in 0..CHECKS {
        if was_seen || is_done {
            break;
        }
        is_done = poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx).is_ready())).await;
        std::thread::sleep(Duration::from_millis(1));
        tokio::task::yield_now().await;
        was_seen = seen();
    }
    drop(stop);
    let _ = blocking.await;
    was_seen
}
