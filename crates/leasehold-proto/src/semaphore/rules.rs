//! The bugs that the model checker plants in the record.

/// A planted bug: one rule that the record does not keep.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A permit fits if enough slots below the limit are free; the slots above a lowered limit do
    /// not count.
    OnlyFreeSlotsCount,
    /// An offer that expired is granted again without a check of the limit.
    LateOfferIgnoresLimit,
    /// A change of the limit does not compare the version.
    LimitIgnoresVersion,
    /// A waiter that sends no more requests stays in the queue.
    WaitersNeverLapse,
    /// A waiter that fits passes the first waiter if that one does not fit.
    SmallPassesFirst,
    /// When a waiter leaves the queue, no other waiter is served.
    LeavingServesNone,
    /// After a change of the limit, no waiter is served.
    NewLimitServesNone,
    /// A permit that expires without a confirmation keeps its slots.
    OffersAreNotReaped,
    /// A grant does not raise the tokens of its slots.
    SlotTokensNotRaised,
    /// The record does not refuse a suspect attempt.
    TombstoneIgnored,
    /// A slot above a lowered limit is dropped when its permit ends.
    SlotsAboveLimitAreDropped,
}
