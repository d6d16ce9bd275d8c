//! Bugs that are planted to see whether the invariants find them.

use leasehold_proto::quorum;

/// One thing done wrong: planted in the real attempt of a client, or by changing what goes into the
/// real machines and what comes out of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The token is one of the granted values, and nothing is committed.
    NaiveMaximum,
    /// A commit counts although lease or counter are not what they were.
    CommitWithoutCompare,
    /// The majority is that of the nodes that a client happens to be connected to.
    MajorityOfConnected,
    /// The client allows nothing for clocks of different rates.
    NoDrift,
    /// Validity counts from the reply.
    BoundFromTheReply,
    /// Replies to an earlier renewal count for a later one.
    LateRepliesAccepted,
    /// A node that has forgotten votes at once.
    NoAdmission,
    /// A node that has forgotten asks the others before it waits.
    RecoveryBeforeWaiting,
    /// It asks too few of the others.
    RecoveryFromTooFew,
    /// A single node that lost its data starts at the clock of the client that admits it.
    FloorOfAClient,
    /// A release does not compare the owner.
    ReleaseComparesNothing,
    /// The lease gets its end by a second request.
    SetThenExpire,
    /// The lock has the time in its value, and is taken over by replacing that.
    TimestampInTheValue,
    /// A renewal that finds nothing makes the lease anew, and counts.
    RenewalRecreates,
    /// A renewal does not compare the owner.
    RenewalByExpire,
    /// `quorum init` takes a node that does not answer for an empty one, and admits without a wait.
    InitSkipsSilent,
    /// `forget` removes the record of a lock that is held.
    ForgetIgnoresHolder,
    /// `forget` removes a record whose tokens are above the server's clock.
    CleanUpIgnoresTop,
}

impl Bug {
    /// The bug as it is planted in the attempts of clients.
    pub(super) fn of_attempt(self) -> Option<quorum::Bug> {
        Some(match self {
            Self::NoDrift => quorum::Bug::NoDrift,
            Self::BoundFromTheReply => quorum::Bug::BoundFromTheReply,
            Self::LateRepliesAccepted => quorum::Bug::LateRepliesAccepted,
            _ => return None,
        })
    }
}
