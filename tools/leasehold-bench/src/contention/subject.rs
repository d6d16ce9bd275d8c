//! Whose lock the processes of `contention` want.

use std::process::Command;

use crate::Result;
#[cfg(feature = "servers")]
use crate::peers::Built;
use crate::talk::Talk;

/// Whose lock is wanted.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Leasehold,
    #[cfg(feature = "servers")]
    Peer(Built),
}

impl Subject {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            #[cfg(feature = "servers")]
            Self::Peer(built) => built.subject,
        }
    }

    #[cfg(feature = "servers")]
    pub(super) fn lock(&self) -> &'static str {
        match self {
            Self::Leasehold => "lock",
            Self::Peer(built) => built.lock,
        }
    }

    #[cfg(not(feature = "servers"))]
    pub(super) fn lock(&self) -> &'static str {
        "lock"
    }

    pub(super) fn start(&self, words: &[String], again: &[&str]) -> Result<Talk> {
        match self {
            Self::Leasehold => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(again).arg("contender").args(words);
                Talk::start("a process of leasehold", command)
            }
            #[cfg(feature = "servers")]
            Self::Peer(built) => built.start(words),
        }
    }
}
