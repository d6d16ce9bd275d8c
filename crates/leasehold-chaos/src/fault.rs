//! What can be done to servers, clients and the network, and which promise bears it.

use std::fmt;

use clap::ValueEnum;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Fault {
    /// A client is stopped (SIGSTOP) for longer than the ttl
    Pause,
    /// A client is killed (kill -9), and another started
    Kill,
    /// A server is stopped (SIGSTOP)
    Stop,
    /// A server is killed (kill -9) and started again with its data
    Restart,
    /// The same, and the end of its append-only file is lost
    Truncate,
    /// The same without its data
    Empty,
    /// The reply to one request is lost, and its connection silent from then on
    LoseReply,
    /// One request arrives twice
    Duplicate,
    /// One request arrives late
    Delay,
    /// Nothing gets through to a server, or back from it
    Cut,
    /// A server is slow
    Slow,
    /// The clock of one server jumps ahead by more than the ttl
    Clock,
}

impl Fault {
    /// As it is written on the command line and in tables.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// In a few words.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Pause => "client stopped beyond the ttl",
            Self::Kill => "client killed (-9)",
            Self::Stop => "server stopped",
            Self::Restart => "server killed (-9), restarted with its data",
            Self::Truncate => "the same, end of its file lost",
            Self::Empty => "the same, without its data",
            Self::LoseReply => "a reply lost",
            Self::Duplicate => "a request twice",
            Self::Delay => "a request late",
            Self::Cut => "one direction cut",
            Self::Slow => "server slow",
            Self::Clock => "a server's clock jumps ahead",
        }
    }

    /// Whether one holder at a time is promised in spite of it. Where it is not, those who got the
    /// lock before may overlap with those who get it after; tokens keep their order all the same.
    pub(crate) fn keeps_exclusion(self, admission: bool) -> bool {
        match self {
            Self::Truncate | Self::Empty => admission,
            Self::Clock => false,
            _ => true,
        }
    }

    /// Whether the server that it happens to is another process afterwards.
    pub(crate) fn restarts(self) -> bool {
        matches!(self, Self::Restart | Self::Truncate | Self::Empty)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// A fault that has been injected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Injected {
    pub(crate) fault: Fault,
    pub(crate) from: u64,
    /// The same where it is done at once.
    pub(crate) until: u64,
}
