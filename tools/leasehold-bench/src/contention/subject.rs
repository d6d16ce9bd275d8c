//! Whose locks the processes of a benchmark want.

use std::process::Command;

use crate::Result;
#[cfg(feature = "servers")]
use crate::peers::Built;
use crate::talk::Talk;

/// Whose lock is wanted.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Leasehold,
    #[cfg(feature = "servers")]
    Peer(Built),
}

impl Subject {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            #[cfg(feature = "servers")]
            Self::Peer(built) => built.subject,
        }
    }

    #[cfg(feature = "servers")]
    pub(crate) fn lock(&self) -> &'static str {
        match self {
            Self::Leasehold => "lock",
            Self::Peer(built) => built.lock,
        }
    }

    #[cfg(not(feature = "servers"))]
    pub(crate) fn lock(&self) -> &'static str {
        "lock"
    }

    /// Starts one of the processes; ours is this program, called with `kind` and the words.
    pub(crate) fn start(&self, kind: &str, words: &[String], again: &[&str]) -> Result<Talk> {
        let who = match self {
            Self::Leasehold => "a process of leasehold",
            #[cfg(feature = "servers")]
            Self::Peer(built) => built.subject,
        };
        Talk::start(who, self.command(kind, words, again)?)
    }

    /// How such a process is called.
    pub(crate) fn command(&self, kind: &str, words: &[String], again: &[&str]) -> Result<Command> {
        match self {
            Self::Leasehold => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(again).arg(kind).args(words);
                Ok(command)
            }
            #[cfg(feature = "servers")]
            Self::Peer(built) => built.command(words),
        }
    }
}
