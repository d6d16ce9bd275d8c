//! The rules of an attempt that the model checker and the simulator can break.

use crate::rules::Breaks;

/// Says which rule is broken on purpose: which bug is planted.
#[doc(hidden)]
pub trait Rules: Breaks<Bug> {}

impl<R: Breaks<Bug>> Rules for R {}

/// A planted bug: one rule that an attempt does not keep.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The client allows nothing for clocks of different rates.
    NoDrift,
    /// Validity counts from the reply.
    BoundFromTheReply,
    /// Replies to an earlier round count for a later one.
    LateRepliesAccepted,
}
