//! The set-ups that are compared: which nodes there are, what they keep, and what a client believes.

use std::fmt;

/// A way to have locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setup {
    /// `SET key value NX PX ttl` and `DEL` on one Redis, without a check of the clock or the owner.
    PlainSet,
    /// Leasehold on one Redis.
    Single,
    /// The same with `?admission=strict`.
    SingleStrict,
    /// Leasehold on a Redis with a replica that takes over.
    Replicated,
    /// The published Redlock on five nodes: no tokens, and nodes that forget vote at once.
    RedlockPlain,
    /// Leasehold's Redlock with tokens, but without admission.
    RedlockTokens,
    /// Leasehold's Redlock: tokens and admission.
    Redlock,
    /// Redisson's `RedissonRedLock` on five nodes: a watchdog that renews, and neither validity nor a look at
    /// the client's clock; no tokens, and nodes that forget vote at once.
    RedissonRedlock,
    /// A model of the ZooKeeper recipe: a lock for as long as the session lives.
    ZooKeeper,
    /// A model of the etcd recipe: a lease that is kept alive.
    Etcd,
    /// A model of a table with owner and expiry in a durable SQL database.
    SqlLease,
}

/// Until when a client takes itself for the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// Until the lease's deadline by its own clock.
    Deadline,
    /// Until the service has told it otherwise.
    Told,
    /// Until it has finished.
    Finished,
}

/// What a node knows after it was started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing.
    Nothing,
    /// What its replica had heard of.
    Replica,
    /// Everything: it writes to disk, or to a quorum of its own, before it answers.
    Everything,
}

impl Setup {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 11] = [
        Self::PlainSet,
        Self::Single,
        Self::SingleStrict,
        Self::Replicated,
        Self::RedlockPlain,
        Self::RedlockTokens,
        Self::Redlock,
        Self::RedissonRedlock,
        Self::ZooKeeper,
        Self::Etcd,
        Self::SqlLease,
    ];

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlainSet => "plain-set",
            Self::Single => "single",
            Self::SingleStrict => "single-strict",
            Self::Replicated => "replicated",
            Self::RedlockPlain => "redlock-plain",
            Self::RedlockTokens => "redlock-tokens",
            Self::Redlock => "redlock",
            Self::RedissonRedlock => "redisson-redlock",
            Self::ZooKeeper => "zookeeper",
            Self::Etcd => "etcd",
            Self::SqlLease => "sql",
        }
    }

    /// In a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::PlainSet => "SET NX PX and DEL by hand on one Redis, no token, no deadline",
            Self::Single => "Leasehold on one Redis",
            Self::SingleStrict => "Leasehold on one Redis with ?admission=strict",
            Self::Replicated => "Leasehold on one Redis whose replica takes over",
            Self::RedlockPlain => {
                "the published Redlock on five nodes, no token, no delayed restart"
            }
            Self::RedlockTokens => {
                "Leasehold's Redlock with tokens; admission is left out to compare (it cannot be switched off)"
            }
            Self::Redlock => "Leasehold's Redlock with tokens and admission",
            Self::RedissonRedlock => {
                "RedissonRedLock on five nodes: a watchdog, no validity, no token, no delayed restart"
            }
            Self::ZooKeeper => {
                "model of the usual ZooKeeper recipe (session, zxid), without a look at its own clock"
            }
            Self::Etcd => {
                "model of the usual etcd recipe (lease, revision), without a look at its own clock"
            }
            Self::SqlLease => "model of a lease table in a durable SQL database",
        }
    }

    /// How many nodes a client asks. A group that agrees by itself is one.
    pub fn nodes(self) -> usize {
        match self {
            Self::RedlockPlain | Self::RedlockTokens | Self::Redlock | Self::RedissonRedlock => 5,
            _ => 1,
        }
    }

    /// Whether a holder has a token.
    pub fn tokens(self) -> bool {
        !matches!(self, Self::PlainSet | Self::RedlockPlain | Self::RedissonRedlock)
    }

    /// Whether a node that may have forgotten has to wait.
    pub fn admission(self) -> bool {
        matches!(self, Self::SingleStrict | Self::Redlock)
    }

    /// Until when a client believes.
    pub fn belief(self) -> Belief {
        match self {
            Self::PlainSet | Self::RedissonRedlock => Belief::Finished,
            Self::ZooKeeper | Self::Etcd => Belief::Told,
            _ => Belief::Deadline,
        }
    }

    /// What is left after a restart.
    pub fn memory(self) -> Memory {
        match self {
            Self::ZooKeeper | Self::Etcd | Self::SqlLease => Memory::Everything,
            Self::Replicated => Memory::Replica,
            _ => Memory::Nothing,
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
