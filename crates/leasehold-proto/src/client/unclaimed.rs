//! What a message of the engine means if no task of the client waits with its attempt.

use super::{stray, unwanted};
use crate::handoff::ReleaseRequest;
use crate::{AttemptId, Token};

/// A message of the engine about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The attempt holds a lease with this first token.
    Granted(Token),
    /// A client outside waits for the lease of the attempt.
    Wanted,
    /// The lease with this first token has ended; without a token, any lease of the attempt.
    Lost(Option<Token>),
}

/// What the client knows of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A task holds with it, by a lease with this first token.
    Holding(Token),
    /// It is being ended.
    Ending,
    /// Nothing.
    Unknown,
}

/// What the client does after such a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterPush {
    /// Nothing.
    Ignore,
    /// The lease is lost.
    Lose,
    /// It ends the attempt now: the task that waited has left.
    End(ReleaseRequest),
    /// It ends the attempt after a pause, in which an end that is in progress is answered.
    EndLater(ReleaseRequest),
}

/// Decides what the client does after a message for an attempt with which no task waits.
pub fn decide_push(attempt: AttemptId, push: Pushed, standing: Standing) -> AfterPush {
    match (push, standing) {
        (Pushed::Granted(base), Standing::Unknown) => AfterPush::End(unwanted(attempt, base)),
        // It has been ended, and a request that was repeated on the way has revived it.
        (Pushed::Wanted, Standing::Unknown) => AfterPush::EndLater(stray(attempt)),
        // An attempt that was granted again has another lease.
        (Pushed::Lost(base), Standing::Holding(own)) if base.is_none_or(|base| base == own) => {
            AfterPush::Lose
        }
        _ => AfterPush::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientId;

    fn token(value: u64) -> Token {
        Token::new(value).unwrap()
    }

    #[test]
    fn only_what_no_task_has_is_ended_and_only_the_named_lease_is_lost() {
        let attempt = AttemptId::new(ClientId::from_bits(1), 1, 0);
        let decide = |push, standing| decide_push(attempt, push, standing);
        let granted = Pushed::Granted(token(5));
        for standing in [Standing::Holding(token(5)), Standing::Ending] {
            assert_eq!(decide(granted, standing), AfterPush::Ignore);
            assert_eq!(decide(Pushed::Wanted, standing), AfterPush::Ignore);
        }
        let unknown = Standing::Unknown;
        assert_eq!(decide(granted, unknown), AfterPush::End(unwanted(attempt, token(5))));
        assert_eq!(decide(Pushed::Wanted, unknown), AfterPush::EndLater(stray(attempt)));
        assert_eq!(decide(Pushed::Lost(None), unknown), AfterPush::Ignore);
        let lost = |base| decide(Pushed::Lost(base), Standing::Holding(token(5)));
        assert_eq!(lost(Some(token(4))), AfterPush::Ignore);
        assert_eq!([lost(None), lost(Some(token(5)))], [AfterPush::Lose; 2]);
    }
}
