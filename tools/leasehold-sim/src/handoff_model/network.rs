//! What is on its way between clients and server.

use leasehold_proto::AttemptId;
use leasehold_proto::handoff::{Answer, Push, ReleaseRequest};

/// A message in flight. Two equal ones are one: a second copy would change nothing that delivering
/// the first without removing it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// A client's call.
    Request {
        /// Which client.
        from: u8,
        /// By its clock, where the answer's meaning depends on it.
        sent: u8,
        /// What it wants.
        call: Call,
    },
    /// The server's answer.
    Reply {
        /// To which client.
        to: u8,
        /// When the request was sent.
        sent: u8,
        /// The server's time, where the client uses it.
        at: u8,
        /// What it says.
        answer: Answered,
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
    /// Acquire, waiting.
    Acquire(AttemptId),
    /// Renew the lease that starts with this token.
    Renew(AttemptId, u64),
    /// End an attempt.
    Release(ReleaseRequest),
    /// End one and ask for another.
    Rotate(ReleaseRequest, AttemptId),
}

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answered {
    /// To acquire, or to the second half of a rotation.
    Acquired(AttemptId, Answer),
    /// To an exchange for another task: which attempt it ended, and the answer for the other task.
    Exchanged(AttemptId, AttemptId, Answer),
    /// To an exchange that the server refuses: neither half was carried out.
    Refused(AttemptId, AttemptId),
    /// To a renewal: whether others wait; `None` if the lease does not go on.
    Renewed(AttemptId, u64, Option<bool>),
    /// To a release.
    Ended(AttemptId),
}

impl Message {
    /// The client at the other end.
    pub fn client(&self) -> u8 {
        match *self {
            Self::Request { from, .. } => from,
            Self::Reply { to, .. } | Self::Push { to, .. } => to,
        }
    }

    /// True when it may still do something to or for this attempt.
    pub fn concerns(&self, attempt: AttemptId) -> bool {
        match *self {
            Self::Request { call, .. } => match call {
                Call::Acquire(asked) => asked == attempt,
                Call::Renew(renewed, _) => renewed == attempt,
                Call::Release(release) => release.attempt == attempt,
                Call::Rotate(release, next) => release.attempt == attempt || next == attempt,
            },
            Self::Reply { answer, .. } => match answer {
                Answered::Acquired(asked, _) => asked == attempt,
                Answered::Exchanged(ended, asked, _) | Answered::Refused(ended, asked) => {
                    ended == attempt || asked == attempt
                }
                Answered::Renewed(renewed, ..) => renewed == attempt,
                Answered::Ended(ended) => ended == attempt,
            },
            Self::Push { attempt: pushed, .. } => pushed == attempt,
        }
    }
}
