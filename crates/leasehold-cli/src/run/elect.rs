//! `leasehold elect`: runs a command while this candidate leads, and campaigns again after a loss.

use std::time::Duration;

use tokio::time::sleep;

use super::options::RunOptions;
use super::wait::ending_signal;
use super::{Done, ended_by, hold};
use crate::failure::{Failure, code};
use crate::lang::text;
use crate::output::Voice;
use crate::signals::Signals;
use crate::store::Store;

/// The pause after a campaign in which the store could not be used.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Leads, and campaigns again each time the leadership was lost, until the command ends by itself or
/// a signal ends it.
pub(super) async fn lead(
    store: &Store,
    options: &RunOptions,
    signals: &mut Signals,
    voice: Voice,
) -> Result<Done, Failure> {
    let mut has_led = false;
    let mut cut_off = false;
    loop {
        match hold(store, options, signals, voice).await {
            Ok(done) if done.was_lost => {
                (has_led, cut_off) = (true, false);
                voice.note(&text!("campaigning for {} again", "重新竞选 {}", options.name));
            }
            // At the start it is probably a wrong store; later the store may come back.
            Err(failure) if has_led && failure.code == code::UNAVAILABLE => {
                if !cut_off {
                    voice.warn(&text!("{}; retrying", "{}；正在重试", failure.told()));
                }
                cut_off = true;
                tokio::select! {
                    () = sleep(TRY_AGAIN) => {}
                    signal = ending_signal(signals) => return Ok(ended_by(signal).into()),
                }
            }
            done => return done,
        }
    }
}
