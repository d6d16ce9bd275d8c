//! Bugs that are planted to see whether the model finds them.

use leasehold_proto::quorum;

/// One thing done wrong: planted in the real attempt of a client, or by changing what goes into the
/// real machines and what comes out of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The token is the m-th smallest of the values that were granted, and nothing is committed.
    NaiveMaximum,
    /// A commit sets the counter without looking at lease or counter.
    CommitWithoutCompare,
    /// The majority is that of the nodes that a client happens to be connected to.
    MajorityOfConnected,
    /// A node that has forgotten votes at once.
    NoAdmission,
    /// A node that has forgotten recovers the counters, but does not wait.
    RecoveryWithoutWaiting,
    /// It waits, but does not recover.
    WaitingWithoutRecovery,
    /// It asks the others before the wait instead of after it.
    RecoveryBeforeWaiting,
    /// It asks one of the others only.
    RecoveryFromTooFew,
    /// Validity counts from the reply.
    BoundFromTheReply,
    /// Replies to an earlier renewal count for a later one.
    LateRepliesAccepted,
    /// A release does not compare the attempt.
    ReleaseComparesNothing,
    /// A first start goes on without nodes that do not answer, and does not look at the votes of
    /// the others then.
    InitSkipsTheSilent,
    /// A first start looks at no votes.
    InitSkipsVoters,
    /// What is recovered counts for locks alone that the node does not know.
    RecoveryForUnknownLocks,
    /// `forget` removes the record of a lock that is held.
    ForgetIgnoresHolders,
    /// `forget` removes with the record what the node knows of its tokens.
    ForgetDropsTokens,
}

impl Bug {
    /// The bug as it is planted in the attempts of clients.
    pub(super) fn of_attempt(self) -> Option<quorum::Bug> {
        Some(match self {
            Self::BoundFromTheReply => quorum::Bug::BoundFromTheReply,
            Self::LateRepliesAccepted => quorum::Bug::LateRepliesAccepted,
            _ => return None,
        })
    }
}
