//! What the answers of the servers mean together.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{Answer, Backend};
use leasehold_core::proto::quorum::majority;
use leasehold_core::{AttemptId, Error, ErrorKind, Forced, Name, Result, State, Status, Token};

use super::WireBackend;

/// After what time a client asks again if clients have split the servers among them, in ms.
const SPLIT: (u64, u64) = (10, 60);

/// The servers of a list.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) all: Vec<Arc<WireBackend>>,
}

/// What a round comes to.
#[derive(Debug)]
pub(super) enum Decision {
    /// A majority has granted the lock; the token is the largest of them.
    Granted(Token),
    /// No majority has.
    Denied(Result<Answer>),
}

impl Servers {
    pub(super) fn new(all: Vec<Arc<WireBackend>>) -> Self {
        Self { all }
    }

    pub(super) fn majority(&self) -> usize {
        majority(self.all.len())
    }

    /// Builds a call to each server, in their order.
    pub(super) fn each<F>(&self, mut call: impl FnMut(Arc<WireBackend>) -> F) -> Vec<F> {
        self.all.iter().map(|server| call(server.clone())).collect()
    }

    /// Decides a round by its answers; `None` is a server that has not answered in time.
    pub(super) fn decide(&self, answers: &[Option<Result<Answer>>], longest: Duration) -> Decision {
        let most = self.majority();
        let tokens = || answers.iter().filter_map(token_of);
        if tokens().count() >= most
            && let Some(token) = tokens().max()
        {
            return Decision::Granted(token);
        }
        let certain = answers.iter().enumerate().filter_map(|(at, answer)| match answer {
            Some(Err(error)) if error.kind().is_certain() => Some((at, error)),
            _ => None,
        });
        let certain: Vec<_> = certain.collect();
        if let Some((at, error)) = certain.first()
            && certain.len() > answers.len() - most
        {
            return Decision::Denied(Err(self.at(*at, error)));
        }
        if answers.iter().any(|answer| matches!(answer, Some(Ok(Answer::Ended)))) {
            return Decision::Denied(Ok(Answer::Ended));
        }
        let answered = answers.iter().flatten().flatten().count();
        if answered < most {
            return Decision::Denied(Err(self.unavailable(answered, answers)));
        }
        Decision::Denied(Ok(Answer::Busy { ask_again: Some(again(answers, most, longest)) }))
    }

    /// Returns the error for too few answers.
    pub(super) fn unavailable<T>(&self, answered: usize, answers: &[Option<Result<T>>]) -> Error {
        let silent = answers.iter().enumerate().find(|(_, answer)| !matches!(answer, Some(Ok(_))));
        let why = silent.map_or(String::new(), |(at, answer)| {
            let why = match answer {
                Some(Err(error)) => error.message(),
                _ => "no answer in time",
            };
            format!("{}: {why}", self.all[at].place())
        });
        too_few(answered, answers.len(), &why)
    }

    /// Names the server in its error.
    fn at(&self, at: usize, error: &Error) -> Error {
        let message = format!("server {}: {}", self.all[at].place(), error.message());
        Error::new(error.kind(), message).with_retry(error.retry()).with_source(error.clone())
    }
}

/// Builds the error for too few answers, and why one of the others did not answer.
pub(crate) fn too_few(answered: usize, all: usize, why: &str) -> Error {
    let most = majority(all);
    let what = format!("{answered} of {all} servers answer, and {most} are needed; {why}");
    Error::new(ErrorKind::Unavailable, what)
}

/// Returns whether further answers can change what the answers of a round mean.
pub(super) fn is_open(answers: &[Option<Result<Answer>>], most: usize) -> bool {
    let granted = answers.iter().filter_map(token_of).count();
    let answered = answers.iter().flatten().flatten().count();
    let open = answers.iter().filter(|answer| answer.is_none()).count();
    // An error for too few answers counts them all.
    granted < most && (granted + open >= most || answered < most && open > 0)
}

/// Returns the token of a grant.
pub(super) fn token_of(answer: &Option<Result<Answer>>) -> Option<Token> {
    match answer {
        Some(Ok(Answer::Granted(grant))) => Some(grant.tokens.base()),
        _ => None,
    }
}

/// Counts the servers that say yes and those that say no.
pub(super) fn yes_and_no(answers: &[Option<Result<bool>>]) -> (usize, usize) {
    let count = |is: bool| answers.iter().flatten().flatten().filter(|said| **said == is).count();
    (count(true), count(false))
}

/// Returns a short time, another one for each client.
pub(super) fn soon() -> Duration {
    Duration::from_millis(fastrand::u64(SPLIT.0..=SPLIT.1))
}

/// Returns when a majority may be free, or a short time if no majority refuses.
fn again(answers: &[Option<Result<Answer>>], most: usize, longest: Duration) -> Duration {
    let busy =
        answers.iter().filter(|answer| matches!(answer, Some(Ok(Answer::Busy { .. })))).count();
    if busy < most {
        return soon();
    }
    let mut free_in: Vec<Duration> = answers
        .iter()
        .map(|answer| match answer {
            Some(Ok(Answer::Busy { ask_again: Some(left) })) => *left,
            Some(Ok(Answer::Granted(_))) => Duration::ZERO,
            _ => longest,
        })
        .collect();
    free_in.sort_unstable();
    free_in[most - 1].clamp(soon(), longest)
}

/// What a forced release has done, by the answers of at least a majority.
pub(super) fn forced(seen: &[&Forced]) -> Forced {
    if seen.iter().any(|forced| **forced == Forced::Ended) {
        return Forced::Ended;
    }
    let others = seen.iter().filter_map(|forced| match forced {
        Forced::Other(token) => Some(*token),
        _ => None,
    });
    others.max().map_or(Forced::NotHeld, Forced::Other)
}

/// Puts together what at least a majority of the servers shows.
pub(super) fn status(name: &Name, seen: &[&Status], most: usize) -> Status {
    let owner = |status: &Status| -> (Option<AttemptId>, Option<String>) {
        (status.holder.as_ref().map(|holder| holder.attempt), status.note.clone())
    };
    let held: Vec<&Status> =
        seen.iter().copied().filter(|status| status.state == State::Held).collect();
    let of = |one: &Status| -> Vec<&Status> {
        held.iter().copied().filter(|other| owner(other) == owner(one)).collect()
    };
    let Some(holder) = held.iter().map(|one| of(one)).find(|group| group.len() >= most) else {
        let all = seen.iter().copied().filter(|status| status.state == State::Free);
        let last = all.max_by_key(|status| status.token);
        let mut free = last.cloned().unwrap_or_else(|| Status::free(name));
        if !held.is_empty() {
            let (some, all) = (held.len(), seen.len());
            free.note =
                Some(format!("clients have it at {some} of {all} servers, and none at a majority"));
        }
        return free;
    };
    let mut status = holder[0].clone();
    status.token = holder.iter().filter_map(|one| one.token).max();
    status.since_unix_ms = holder.iter().filter_map(|one| one.since_unix_ms).min();
    // No end is the latest of all.
    let mut ends: Vec<Duration> =
        holder.iter().map(|one| one.remaining.unwrap_or(Duration::MAX)).collect();
    ends.sort_unstable_by(|one, other| other.cmp(one));
    status.remaining = Some(ends[most - 1]).filter(|end| *end != Duration::MAX);
    status
}

#[cfg(test)]
mod tests {
    use leasehold_core::Holder;

    use super::super::granted;
    use super::*;

    fn token(value: u64) -> Token {
        Token::new(value).unwrap()
    }

    fn busy(ms: u64) -> Option<Result<Answer>> {
        Some(Ok(Answer::Busy { ask_again: Some(Duration::from_millis(ms)) }))
    }

    fn yes() -> Option<Result<Answer>> {
        Some(Ok(granted(token(7))))
    }

    fn silent() -> Option<Result<Answer>> {
        Some(Err(Error::new(ErrorKind::Unavailable, "silent")))
    }

    #[test]
    fn a_round_is_open_while_an_answer_can_change_it() {
        for (answers, open) in [
            (vec![None, None, None], true),
            (vec![yes(), None, None], true),
            (vec![yes(), yes(), None], false),
            (vec![busy(1), None, None], true),
            (vec![busy(1), busy(1), None], false),
            (vec![yes(), busy(1), None], true),
            (vec![silent(), silent(), None], true),
            (vec![silent(), silent(), busy(1)], false),
            (vec![silent(), busy(1), None], true),
            (vec![silent(), busy(1), busy(1)], false),
        ] {
            assert_eq!(is_open(&answers, 2), open, "{answers:?}");
        }
    }

    #[test]
    fn a_waiter_asks_again_when_a_majority_may_be_free() {
        let longest = Duration::from_secs(5);
        let ms = Duration::from_millis;
        assert_eq!(again(&[busy(900), busy(700), busy(800)], 2, longest), ms(800));
        assert_eq!(again(&[busy(9000), busy(9000), yes()], 2, longest), longest);
        let split = again(&[busy(9000), yes(), silent()], 2, longest);
        assert!(split <= ms(SPLIT.1), "{split:?}");
    }

    #[test]
    fn the_holder_of_a_majority_is_shown() {
        let name = Name::new("a").unwrap();
        let of = |number: u32, left: u64| {
            let attempt = AttemptId::new(leasehold_core::ClientId::from_bits(1), number, 0);
            let mut status = Status::free(&name);
            status.state = State::Held;
            status.holder = Some(Holder::new(attempt, "host".to_owned(), 1, None));
            status.token = Some(token(u64::from(number) + left));
            status.remaining = Some(Duration::from_millis(left));
            status
        };
        let (free, a, b, c) = (Status::free(&name), of(1, 500), of(1, 900), of(2, 100));
        let shown = status(&name, &[&a, &b, &c], 2);
        assert_eq!((shown.state, shown.token), (State::Held, Some(token(901))));
        assert_eq!(shown.remaining, Some(Duration::from_millis(500)));
        for minority in [[&a, &c, &free], [&a, &free, &free]] {
            let shown = status(&name, &minority, 2);
            assert_eq!(shown.state, State::Free);
            assert!(shown.note.is_some());
        }
        assert_eq!(status(&name, &[&free, &free], 2), free);
    }
}
