//! The requests that are sent for local waiters, and how the engine's replies are read.

use leasehold_proto::client::{Granted, HeldTokens, PendingAttempt, Reply, Sound};
use leasehold_proto::{AttemptId, TokenBlock};

use crate::backend::{AcquireRequest, Answer, Grant, Mode, Term};
use crate::local_queue::{EngineRequest, Wish};
use crate::{Error, ErrorKind, Name, Result};

/// How many tokens one grant reserves for a local queue: enough for one quantum at 800,000
/// hand-offs a second.
const BLOCK: u32 = 16_384;
const _: () = assert!(BLOCK <= leasehold_proto::handoff::TOKEN_LEAD, "blocks would be cut");

/// Creates an attempt that is not sent yet.
pub(crate) fn engine_request(
    name: &Name,
    wish: &Wish,
    attempt: AttemptId,
    wait: bool,
    many: bool,
) -> EngineRequest {
    let request = acquire_request(name, wish, attempt, wait, many);
    EngineRequest { request, pending: PendingAttempt::new(attempt, Sound), silence: None }
}

/// Builds the request to the engine, for `many` tokens if the lease may be handed off in this
/// process.
pub(crate) fn acquire_request(
    name: &Name,
    wish: &Wish,
    attempt: AttemptId,
    wait: bool,
    many: bool,
) -> AcquireRequest {
    AcquireRequest {
        name: name.clone(),
        attempt,
        mode: wish.mode,
        demand: wish.demand,
        ttl: wish.terms.ttl,
        wait,
        fair: wish.fair,
        tokens: if many && !wish.alone { BLOCK } else { 1 },
        origin: wish.origin.clone(),
        also: false,
    }
}

/// Reads the result of a request. Only an error of a certain kind means that nothing has changed.
pub(crate) fn reply(result: Result<Answer>) -> Reply<Error> {
    match result {
        Ok(Answer::Granted(grant)) => Reply::Granted(granted(grant, Vec::new())),
        Ok(Answer::Permit { grant, slots }) => Reply::Granted(granted(grant, slots)),
        Ok(Answer::Queued { ask_again, place: _ }) => Reply::Queued { ask_again },
        Ok(Answer::Busy { ask_again }) => Reply::Busy { ask_again },
        Ok(Answer::Later { ask_again, why }) => {
            Reply::Later { ask_again, why: Error::new(ErrorKind::Unavailable, why) }
        }
        Ok(Answer::Ended) => Reply::Ended,
        Err(error) if error.kind().is_certain() => Reply::Refused(error),
        Err(error) => Reply::Unanswered(error),
    }
}

/// Begins with the tokens of a grant: the readers of a phase share one.
pub(crate) fn held_tokens(mode: Mode, granted: TokenBlock) -> HeldTokens {
    match mode {
        Mode::Shared => HeldTokens::of_readers(granted.base()),
        Mode::Exclusive | Mode::Permit => HeldTokens::new(granted),
    }
}

/// Reads a grant; a permit has slots.
pub(crate) fn granted(grant: Grant, slots: Vec<u32>) -> Granted {
    let (until, offer) = match grant.term {
        Term::Ttl | Term::Session => (None, false),
        Term::Until(until) => (Some(until), false),
        Term::Offer(until) => (Some(until), true),
    };
    Granted { tokens: grant.tokens, until, offer, wanted: grant.wanted, slots }
}
