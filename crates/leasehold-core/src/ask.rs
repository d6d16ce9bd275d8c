//! Builds the requests that a local waiter sends to the engine.

use leasehold_proto::AttemptId;

use crate::backend::{Ask, Mode};
use crate::line::{Pursuit, Wish};
use crate::{Name, pass};

/// Creates an attempt that is not sent yet.
pub(crate) fn pursuit(
    name: &Name,
    wish: &Wish,
    attempt: AttemptId,
    wait: bool,
    many: bool,
) -> Pursuit {
    Pursuit {
        ask: ask(name, wish, attempt, wait, many),
        unanswered: false,
        in_exchange: false,
        known: false,
        ask_at: None,
        silence: None,
    }
}

/// Builds the request to the engine, for `many` tokens if the lease may be handed off in this
/// process.
pub(crate) fn ask(name: &Name, wish: &Wish, attempt: AttemptId, wait: bool, many: bool) -> Ask {
    Ask {
        name: name.clone(),
        attempt,
        mode: Mode::Exclusive,
        ttl: wish.terms.ttl,
        wait,
        fair: wish.fair,
        tokens: if many { pass::BLOCK } else { 1 },
        origin: wish.origin.clone(),
    }
}
