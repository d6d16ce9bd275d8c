//! Runs work until a signal ends it, and reports progress.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::cli::Pace;
use crate::failure::Failure;
use crate::lang::{text, told};
use crate::output::{self, Voice};
use crate::run::LAST_WORDS;

/// The progress of the work, as it is shown.
pub(super) trait Progress: PartialEq {
    /// Returns it as an object.
    fn json(&self) -> serde_json::Value;
    /// Returns it as a line.
    fn line(&self) -> String;
    /// Returns the current problem.
    fn problem(&self) -> Option<&str>;
}

/// Runs `work` until TERM or INT, or until the reader of stdout has gone; `work` gets the token
/// that ends it.
pub(super) async fn run<P: Progress, W: Future<Output = ()>>(
    pace: &Pace,
    voice: Voice,
    stats: impl Fn() -> P,
    work: impl FnOnce(oneshot::Receiver<()>) -> W,
) -> Result<u8, Failure> {
    let cannot = |error| Failure::own(format!("cannot catch signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let (stop, stopped) = oneshot::channel();
    let telling = async {
        let mut last = None;
        loop {
            tokio::time::sleep(pace.interval).await;
            let stats = stats();
            // Programs read JSON, and need to see that the work is alive.
            let is_news = pace.json || last.as_ref() != Some(&stats);
            if is_news && !tell(&stats, pace.json, voice).await? {
                return Ok::<_, Failure>(());
            }
            last = Some(stats);
        }
    };
    let ending = async {
        let told = tokio::select! {
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
            done = telling => done,
        };
        let _ = stop.send(());
        told
    };
    let (told, ()) = tokio::join!(ending, work(stopped));
    told?;
    tell_last(&stats(), pace.json, voice).await?;
    Ok(0)
}

/// Reports progress. Returns false if the reader has gone.
async fn tell(stats: &impl Progress, json: bool, voice: Voice) -> Result<bool, Failure> {
    if json {
        return output::answer_part(format_args!("{}\n", crate::sanitize::json(&stats.json())))
            .await;
    }
    match stats.problem() {
        Some(problem) => {
            let problem = told(problem);
            voice.warn(&text!("{}; {}; retrying", "{}；{}；正在重试", stats.line(), problem));
        }
        None => voice.note(&stats.line()),
    }
    Ok(true)
}

/// Reports the final progress, unless the reader has gone.
pub(super) async fn tell_last(
    stats: &impl Progress,
    json: bool,
    voice: Voice,
) -> Result<(), Failure> {
    let told = tokio::time::timeout(LAST_WORDS, tell(stats, json, voice)).await;
    told.map_or(Ok(()), |told| told.map(drop))
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
