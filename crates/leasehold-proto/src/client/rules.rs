//! The rules of the client that the model checker can break.

use crate::rules::Breaks;
pub use crate::rules::Sound;

/// Selects the rule that a test breaks on purpose. `B` is the type of the bugs that can be planted.
#[doc(hidden)]
pub trait Rules<B = Bug>: Breaks<B> {}

impl<B, R: Breaks<B>> Rules<B> for R {}

/// A planted bug: one rule that a machine does not keep.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A request without an answer does not make the attempt suspect.
    NeverSuspect,
    /// An exchange without an answer does not make its new attempt suspect.
    ExchangeIsNotSuspect,
    /// A task that inherits an attempt forgets that a request of it may still arrive.
    InheritedIsNotSuspect,
    /// The validity of a lease counts from the answer instead of from the request.
    ValidityCountsFromTheAnswer,
    /// The validity of a pushed lease counts from its receipt.
    PushCountsFromReceipt,
    /// A pushed lease is used although a later answer said that the attempt waits.
    EarlierPushIsBelieved,
    /// The engine gets tokens back that later holders in the process have used.
    PassedTokensGivenBack,
    /// A lease that is lost, or about to be lost, is passed on inside the process.
    LostLeaseIsPassedOn,
    /// A release without an answer is not repeated.
    EndIsSentOnce,
    /// After an exchange that the engine refused, the release is not sent alone.
    RefusedExchangeEndsNothing,
    /// A task joins a read lease while another task upgrades it.
    JoinsDuringUpgrade,
    /// A message that another client waits is forgotten if it arrives before the grant.
    WantedBeforeGrantIsForgotten,
    /// A client keeps a lease though it knows that another client waits.
    WantedLeaseIsCached,
    /// A task takes a cached lease whose deadline has passed.
    CachedDeadlineIsIgnored,
    /// After a downgrade of a lost lease the client ends no attempt.
    LostDowngradeEndsNothing,
}
