//! The faults that chaos injects into servers, clients and the network.

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
    /// A server is started again without its data; in a database the tables are dropped
    Empty,
    /// A server is started again with an older copy of its data
    Older,
    /// A member of an ensemble, or a node of a quorum, is replaced by another one without data
    Replace,
    /// An operator makes a replica the master
    Failover,
    /// The reply to one request is lost, and its connection silent from then on
    LoseReply,
    /// One request arrives twice
    Duplicate,
    /// One request arrives late
    Delay,
    /// Nothing gets through to a server, or back from it
    Cut,
    /// Nothing gets from the other servers to one of them, or back from it
    CutPeers,
    /// A server gets all requests late
    Slow,
    /// All connections to a server are reset
    Reset,
    /// A server accepts no further connections, and those of clients are reset
    Connections,
    /// Writes to the files of a server, or of a store in files, fail
    Full,
    /// What a newer program has written is in the place of a record or a version
    Newer,
    /// The user of the clients has another password, no login, or no rights
    Password,
    /// A server has another certificate of the same authority
    Certificate,
    /// A server has a certificate of an authority that clients do not know
    Authority,
    /// The clock of one server jumps ahead by more than the ttl
    Clock,
    /// The clock of one server is set back by more than the ttl
    ClockBack,
    /// The clock of one server jumps ahead by more than the time for which records are kept
    ClockHours,
    /// The clock of a client is set ahead or back, by half an hour at most
    ClientClock,
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
            Self::Empty => "data lost",
            Self::Older => "server restarted with older data",
            Self::Replace => "server replaced by an empty one",
            Self::Failover => "replica made the master by hand",
            Self::LoseReply => "a reply lost",
            Self::Duplicate => "a request twice",
            Self::Delay => "a request late",
            Self::Cut => "one direction cut",
            Self::CutPeers => "the same between servers",
            Self::Slow => "server slow",
            Self::Reset => "connections reset",
            Self::Connections => "connection limit reached",
            Self::Full => "disk full",
            Self::Newer => "a record of a newer version",
            Self::Password => "password or rights of the user changed",
            Self::Certificate => "certificate renewed",
            Self::Authority => "certificate of an unknown authority",
            Self::Clock => "a server's clock jumps ahead",
            Self::ClockBack => "a server's clock is set back",
            Self::ClockHours => "a server's clock jumps ahead two hours",
            Self::ClientClock => "a client's clock is set",
        }
    }

    /// Whether it lasts until it is healed.
    pub(crate) fn lasts(self) -> bool {
        matches!(
            self,
            Self::Pause
                | Self::Stop
                | Self::Cut
                | Self::CutPeers
                | Self::Slow
                | Self::Connections
                | Self::Full
                | Self::Newer
                | Self::Password
                | Self::Authority
        )
    }

    /// Whether the server that it happens to may have ended, or answers no other one, until it is healed.
    pub(crate) fn silences(self) -> bool {
        matches!(self, Self::Stop | Self::CutPeers | Self::Full)
    }

    /// Whether it happens to a client.
    pub(crate) fn is_of_client(self) -> bool {
        matches!(self, Self::Pause | Self::Kill | Self::ClientClock)
    }

    /// Whether a server may lose what it has granted. Then its clock alone keeps later tokens above earlier ones.
    pub(crate) fn loses_data(self) -> bool {
        matches!(self, Self::Truncate | Self::Empty | Self::Older | Self::Replace)
    }

    /// Whether a server's clock is set.
    pub(crate) fn sets_clock(self) -> bool {
        matches!(self, Self::Clock | Self::ClockBack | Self::ClockHours)
    }

    /// Whether leases may end before their time, because a clock says so.
    pub(crate) fn ends_leases(self) -> bool {
        matches!(self, Self::Clock | Self::ClockHours)
    }

    /// Whether the server that it happens to is another process afterwards.
    pub(crate) fn restarts(self) -> bool {
        matches!(self, Self::Restart | Self::Truncate | Self::Empty | Self::Older | Self::Replace)
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
