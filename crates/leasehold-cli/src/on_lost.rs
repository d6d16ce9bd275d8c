//! `--on-lost`: what happens to the command of `leasehold run`.

use serde::Deserialize;

/// What happens to the command when its lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnLost {
    /// TERM, then KILL, all before another holder can get the lock; exit code 76
    #[default]
    Kill,
    /// Print a warning to stderr, and let it continue
    Warn,
    /// Let it continue
    Ignore,
}
