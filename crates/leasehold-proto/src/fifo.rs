//! The token of a holder of a read-write lock on an engine that orders readers and writers in one queue.
//!
//! A reader has its turn when no writer is before it in the queue, a writer when no entry is. The engine
//! gives each entry a number when it creates it, from a counter that grows with every change of the store:
//! a writer's token is that number. The readers of a phase need one common token, and an entry that is
//! converted in its place needs a token that is above its earlier one, though entries behind it have
//! been created already. Both are registered in a [`PhaseRecord`] by compare-and-set.
//!
//! Why the rules hold, and why the record needs no end of a phase, is in `decisions/0030-fifo-phases.md`;
//! the model that runs them is `leasehold_sim::fifo_model`.

use crate::Token;

/// The last token that was registered, and the places that it is for. `P` orders the entries of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PhaseRecord<P> {
    /// The token. No larger one was granted to an entry that has been created before it was registered.
    pub token: Token,
    /// The last place that it is for: of a run of readers, or of one writer.
    pub last: P,
}

/// An entry of the queue whose turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn<P> {
    /// Its own place.
    pub place: P,
    /// The number that the engine gave it when it was created.
    pub created: Token,
    /// The place of the first entry in the queue: for a writer its own.
    pub first: P,
    /// For a reader the place of the last reader before the first writer of the queue, or its own; `None`
    /// for a writer.
    pub run: Option<P>,
}

/// The token of an entry whose turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnToken<P> {
    /// Nothing needs to be registered.
    Has(Token),
    /// The entry holds once this record is stored. The store does that only if the record has not changed
    /// since it was read, and if the entry still exists.
    Register(PhaseRecord<P>),
}

impl<P: Copy + Ord> Turn<P> {
    /// Decides the token. The record must be that of the moment at which the queue was read. `None` if
    /// the tokens are used up.
    pub fn token(&self, record: Option<PhaseRecord<P>>) -> Option<TurnToken<P>> {
        let Some(record) = record else {
            return Some(match self.run {
                None => TurnToken::Has(self.created),
                Some(last) => TurnToken::Register(PhaseRecord { token: self.created, last }),
            });
        };
        if self.place <= record.last {
            return Some(TurnToken::Has(record.token));
        }
        let Some(last) = self.run else {
            if self.created > record.token {
                return Some(TurnToken::Has(self.created));
            }
            let (token, last) = (after(record.token)?, self.place);
            return Some(TurnToken::Register(PhaseRecord { token, last }));
        };
        // An entry that the record is for has been in the queue ever since: no writer held meanwhile.
        let token = match self.first <= record.last {
            true => record.token,
            false => self.created.max(after(record.token)?),
        };
        Some(TurnToken::Register(PhaseRecord { token, last }))
    }
}

/// Returns the record that is stored when a holder with this token is converted in its place. `None` if
/// the tokens are used up.
pub fn converted<P>(
    record: Option<PhaseRecord<P>>,
    held: Token,
    place: P,
) -> Option<PhaseRecord<P>> {
    let highest = record.map_or(held, |record| record.token.max(held));
    Some(PhaseRecord { token: after(highest)?, last: place })
}

fn after(token: Token) -> Option<Token> {
    Token::new(token.get() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(value: u64) -> Token {
        Token::new(value).unwrap()
    }

    fn record(value: u64, last: u8) -> Option<PhaseRecord<u8>> {
        Some(PhaseRecord { token: token(value), last })
    }

    #[test]
    fn a_reader_joins_a_phase_while_an_entry_of_it_is_in_the_queue() {
        let reader = Turn { place: 5, created: token(50), first: 3, run: Some(6) };
        let registers =
            |value, last| Some(TurnToken::Register(PhaseRecord { token: token(value), last }));
        assert_eq!(reader.token(None), registers(50, 6));
        assert_eq!(reader.token(record(30, 3)), registers(30, 6));
        assert_eq!(reader.token(record(30, 2)), registers(50, 6));
        assert_eq!(reader.token(record(50, 2)), registers(51, 6));
        assert_eq!(reader.token(record(30, 5)), Some(TurnToken::Has(token(30))));
        assert_eq!(reader.token(Some(PhaseRecord { token: Token::MAX, last: 2 })), None);
    }

    #[test]
    fn a_writer_registers_a_token_only_if_its_number_is_not_above_the_last_one() {
        let writer = Turn { place: 5, created: token(50), first: 5, run: None };
        assert_eq!(writer.token(None), Some(TurnToken::Has(token(50))));
        assert_eq!(writer.token(record(49, 4)), Some(TurnToken::Has(token(50))));
        let registers = TurnToken::Register(PhaseRecord { token: token(51), last: 5 });
        assert_eq!(writer.token(record(50, 4)), Some(registers));
        assert_eq!(writer.token(record(51, 5)), Some(TurnToken::Has(token(51))));
    }

    #[test]
    fn a_conversion_has_a_token_above_the_one_that_was_held() {
        assert_eq!(converted(None, token(7), 1), record(8, 1));
        assert_eq!(converted(record(9, 0), token(7), 1), record(10, 1));
        assert_eq!(converted(None, Token::MAX, 1), None);
    }
}
