//! What is on its way between clients and server.

use std::time::Duration;

use leasehold_proto::client::ConversionRequest;
use leasehold_proto::handoff::{ReleaseRequest, Verdict};
use leasehold_proto::read_write::Converted;
use leasehold_proto::{AttemptId, Token, TokenBlock};

use super::ids::{OPERATOR, attempt};

/// What an attempt acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// The lock, to read.
    Read,
    /// The lock, to write.
    Write,
    /// So many slots of a semaphore.
    Slots(u32),
}

/// A message in flight. Two equal ones are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// A client's request.
    Request {
        /// Which client.
        from: u8,
        /// By its clock, where the answer's meaning depends on it.
        sent: u8,
        /// The client does not wait for the answer any more.
        late: bool,
        /// What it wants.
        call: Call,
    },
    /// The server's answer.
    Reply {
        /// To which client.
        to: u8,
        /// The attempt that the client waits for an answer about.
        attempt: AttemptId,
        /// When the request was sent.
        sent: u8,
        /// The server's time, where the client uses it.
        at: u8,
        /// What it says.
        answer: Answer,
    },
    /// What the server says unasked.
    Push {
        /// To which client.
        to: u8,
        /// About which attempt.
        attempt: AttemptId,
        /// The server's time, where the client uses it.
        at: u8,
        /// What it says.
        push: Push,
    },
}

/// What a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// Acquire, waiting. The limit is the one that the client expects.
    Acquire(AttemptId, Want, u32),
    /// Renew the lease that starts with this token.
    Renew(AttemptId, Token),
    /// End an attempt, whose permit has this first slot.
    End(ReleaseRequest, Option<u32>),
    /// Downgrade or upgrade.
    Convert(ConversionRequest),
    /// Change the limit with this version.
    SetLimit(u64, u32),
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The attempt holds. `wanted`: others wait.
    Granted {
        /// Its tokens.
        tokens: TokenBlock,
        /// The slots of a permit.
        slots: Vec<u32>,
        /// Others wait for its end.
        wanted: bool,
    },
    /// The attempt waits.
    Queued(Option<Duration>),
    /// The limit is another one.
    Invalid,
    /// The attempt has ended, or no token is left.
    Over,
    /// The lease goes on, and whether others wait; or it is lost.
    Renewed(Option<bool>),
    /// The attempt has ended.
    Ended(Verdict),
    /// To a downgrade or an upgrade.
    Converted(Converted),
    /// The limit was changed, or the version is another one.
    Limit(bool),
}

/// What the server pushes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Push {
    /// To a waiter: it holds.
    Granted {
        /// Its tokens.
        tokens: TokenBlock,
        /// The slots of a permit.
        slots: Vec<u32>,
        /// How long the offer lasts.
        offer: Duration,
        /// Others wait for its end.
        wanted: bool,
    },
    /// To the first waiter: ask again after this time.
    Next(Duration),
    /// To a waiter: it needs more slots than the limit.
    Refused,
    /// To a holder: others wait.
    Wanted,
}

impl Call {
    /// The attempt that the client waits for an answer about.
    pub fn attempt(&self) -> AttemptId {
        match self {
            Self::Acquire(attempt, ..) | Self::Renew(attempt, _) => *attempt,
            Self::End(release, _) => release.attempt,
            Self::Convert(request) => request.next,
            Self::SetLimit(..) => attempt(OPERATOR, 0),
        }
    }
}
