//! Bugs that are planted to see whether the model finds them.

/// One thing done wrong. Those of the server are made by changing what goes into the real record
/// and what comes out of it; those of the client are planted in its real machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Hole 1: a rotation keeps the attempt id.
    RotateKeepsTheAttempt,
    /// Hole 2: the validity of a push counts from its receipt.
    PushCountsFromReceipt,
    /// Hole 3: giving up frees offers only, not a full grant that is under way.
    GivingUpFreesOffersOnly,
    /// Hole 4: a late acquire is refused by the last owner in the record alone.
    RefusedByTheRecordAlone,
    /// Hole 5: a repeated release returns that the lease was lost.
    ReleaseAskedAgainIsLost,
    /// Hole 6: only the head of the queue has a timer, and it learns of its place by a push.
    OnlyTheHeadHasATimer,
    /// Hole 7: unused tokens are given back whenever the attempt is the owner, in the words of
    /// whichever lease of it (seen with [`RotateKeepsTheAttempt`](Self::RotateKeepsTheAttempt),
    /// which it was found with: attempts with one lease each have one block).
    TokensGivenBackWheneverOwner,
    /// Hole 8: a release passes the lease on only when the base is equal too.
    ReleaseComparesTheBase,
    /// A release does not compare the attempt.
    ReleaseIgnoresTheAttempt,
    /// A renewal brings a lease back when the lock is free.
    RenewalRevives,
    /// An acquire is not refused though its attempt was ended.
    TombstoneIgnored,
    /// The lease is handed to a waiter that cannot be reached.
    UnreachableIsNotSkipped,
    /// Validity counts from the answer instead of from the request.
    ValidityCountsFromTheAnswer,
    /// A waiter that becomes the first because the previous one acquired the lease by asking is not
    /// notified.
    DirectGrantTellsNobody,
    /// A waiter that becomes the first because the previous one has left is not notified.
    LeavingTellsNobody,
    /// An ask whose answer never came does not make the attempt suspect.
    NeverSuspect,
    /// An exchange whose answer was not heard does not make what it asked for suspect.
    ExchangeIsNotSuspect,
    /// A task that inherits an attempt forgets that a request of it is still on its way.
    InheritedIsNotSuspect,
    /// A push is believed though a later answer said that its attempt waits.
    EarlierPushIsBelieved,
    /// An end without an answer is not repeated.
    EndIsSentOnce,
    /// In the client: after an exchange that the server refused, the end is not sent alone.
    RefusedExchangeEndsNothing,
    /// The tokens of those to whom a lease was passed on inside a process are given back.
    PassedTokensGivenBack,
    /// A lease whose deadline has passed is passed on inside the process.
    LostLeaseIsPassedOn,
    /// The message that another client waits is forgotten if it arrives before the grant.
    WantedBeforeGrantIsForgotten,
    /// The answer to an ask does not say that others wait.
    GrantHidesWaiters,
    /// A client keeps its lease though it knows that another client waits.
    WantedLeaseIsCached,
    /// A client renews a lease that no task holds, and no answer tells it that others wait: neither the
    /// answer to the renewal, nor a message when the first in line asks again.
    CachedLeaseIsRenewedBlindly,
    /// A task takes a cached lease after its release was sent.
    CachedLeaseIsTakenAfterItsEnd,
    /// A task takes a cached lease whose deadline has passed.
    CachedDeadlineIsIgnored,
    /// `init` on a store that is set up makes the tables anew.
    InitMakesAnew,
    /// A clean-up checks that the lock is free, but not that the clock is above its tokens.
    CleanUpIgnoresTop,
    /// A clean-up removes the attempts that must still be refused.
    CleanUpIgnoresEnded,
    /// A forced release ends the current lease, whatever token it names.
    ForceIgnoresToken,
    /// The first lease of a new record does not count those before it as unknown.
    BlankRecordKnowsTheEnds,
    /// A step that has removed as many dead waiters as it may is the last one that removes any.
    RestIsNeverRemoved,
    /// An ask that leaves dead waiters is answered "wait", and not "ask again".
    CapTellsNobody,
    /// A grant reserves a whole block, however far tokens are ahead of the clock.
    BlocksWithoutBound,
}
