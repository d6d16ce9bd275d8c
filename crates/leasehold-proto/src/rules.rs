//! Lets the model checker plant bugs in the machines; the library runs them without bugs.

/// Breaks no rule. The library runs the machines with this type, which has no size and costs
/// nothing; the model checker uses another type, which plants a bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sound;

/// Selects the rule that a test breaks on purpose. `B` names the rules of one machine.
#[doc(hidden)]
pub trait Breaks<B>: Copy {
    fn breaks(self, bug: B) -> bool;
}

impl<B> Breaks<B> for Sound {
    #[inline]
    fn breaks(self, _: B) -> bool {
        false
    }
}

impl<B: Copy + PartialEq> Breaks<B> for Option<B> {
    fn breaks(self, bug: B) -> bool {
        self == Some(bug)
    }
}
