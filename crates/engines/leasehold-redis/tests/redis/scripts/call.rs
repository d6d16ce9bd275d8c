//! Chooses which steps go to the server in one call.

use leasehold_sim::script::Op;

use super::steps::{Step, kind};

/// Groups the steps into calls.
pub(super) fn calls(steps: &[Step]) -> impl Iterator<Item = &[Step]> {
    steps.chunk_by(|one, next| {
        let single = matches!(next.op, Op::Force(..)) || kind(&next.op) == 0;
        next.joined && !single && kind(&one.op) == kind(&next.op)
    })
}
