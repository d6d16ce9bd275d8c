//! Lets the model checker plant bugs in the machines; the library runs them without bugs.

/// All rules are kept: there is no planted bug. The library runs the machines with this type, which
/// has no size and costs nothing. The model checker uses another type, which plants a bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sound;

/// Says which rule is broken on purpose: which bug of the kind `B` is planted.
#[doc(hidden)]
pub trait Rules<B = Bug>: Copy {
    fn breaks(self, bug: B) -> bool;
}

/// A planted bug: one rule that a machine does not keep.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A request without an answer does not make the attempt suspect.
    NeverSuspect,
    /// An exchange without an answer does not make the attempt that it asks for suspect.
    ExchangeIsNotSuspect,
    /// A task that inherits an attempt forgets that a request of it is still on its way.
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
    /// An end without an answer is not repeated.
    EndIsSentOnce,
    /// After an exchange that the engine refused, the end is not sent alone.
    RefusedExchangeEndsNothing,
}

impl<B> Rules<B> for Sound {
    #[inline]
    fn breaks(self, _: B) -> bool {
        false
    }
}

impl<B: Copy + PartialEq> Rules<B> for Option<B> {
    fn breaks(self, bug: B) -> bool {
        self == Some(bug)
    }
}
