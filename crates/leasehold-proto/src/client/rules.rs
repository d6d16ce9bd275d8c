//! The rules that the machines keep, and the bugs that a model plants in them.

/// The rules as they are meant. The machines take them as a type parameter, so that a model can
/// plant bugs; this one costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sound;

/// Says which rule is broken on purpose.
#[doc(hidden)]
pub trait Rules: Copy {
    fn breaks(self, bug: Bug) -> bool;
}

/// A rule that is not kept.
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
    /// A pushed lease is believed though a later answer said that the attempt waits.
    EarlierPushIsBelieved,
    /// Tokens that successors in the process have used are given back.
    PassedTokensGivenBack,
    /// A lease that is lost, or about to be lost, is passed on inside the process.
    LostLeaseIsPassedOn,
    /// An end without an answer is not repeated.
    EndIsSentOnce,
}

impl Rules for Sound {
    #[inline]
    fn breaks(self, _: Bug) -> bool {
        false
    }
}

impl Rules for Option<Bug> {
    fn breaks(self, bug: Bug) -> bool {
        self == Some(bug)
    }
}
