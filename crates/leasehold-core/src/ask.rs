//! What somebody who wants a lock asks of the engine.

use leasehold_proto::AttemptId;

use crate::backend::{Ask, Mode};
use crate::line::{Pursuit, Wish};
use crate::{Name, pass};

/// An attempt that nobody knows of yet.
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

/// What is asked of the engine; `many` tokens where the lease may be passed on in this process.
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
