//! Asks all servers at once, and waits until their answers decide.

use std::time::Duration;

use leasehold_core::clock::Clock;
use tokio::sync::mpsc;

/// Makes all calls, and waits until the answers so far decide, all are there, or the time is up. The other calls go on: what
/// they send must not depend on who waits.
pub(super) async fn gather<T, F>(
    calls: impl IntoIterator<Item = F>,
    clock: &Clock,
    limit: Duration,
    mut decide: impl FnMut(&[Option<T>]) -> bool,
) -> Vec<Option<T>>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (said, mut heard) = mpsc::unbounded_channel();
    let mut answers = Vec::new();
    for (at, call) in calls.into_iter().enumerate() {
        answers.push(None);
        let said = said.clone();
        tokio::spawn(async move { said.send((at, call.await)).ok() });
    }
    drop(said);
    let mut time_is_up = std::pin::pin!(clock.sleep(limit));
    while !decide(&answers) {
        tokio::select! {
            biased;
            answer = heard.recv() => match answer {
                Some((at, answer)) => answers[at] = Some(answer),
                None => break,
            },
            () = &mut time_is_up => break,
        }
    }
    answers
}
