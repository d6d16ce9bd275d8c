//! What a step tells other clients besides its answer: to poll, or that a lease has ended.

use std::collections::BTreeSet;
use std::fmt;

use leasehold_core::proto::handoff::Push;
use leasehold_core::proto::semaphore;
use leasehold_core::{AttemptId, ClientId, Token};

/// The messages of a step besides its answer.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    /// The clients that must poll.
    clients: BTreeSet<ClientId>,
    /// The leases that an operator has ended.
    lost: Vec<Lost>,
}

/// A lease that an operator has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The attempt that held it.
    pub(crate) attempt: AttemptId,
    /// The first token of the lease.
    pub(crate) base: Option<Token>,
}

impl Notifications {
    pub(crate) fn note(&mut self, attempt: AttemptId, push: Push) {
        self.clients.insert(attempt.client());
        if let Push::Lost { base } = push {
            self.lost.push(Lost { attempt, base });
        }
    }

    pub(crate) fn note_permit(&mut self, attempt: AttemptId, push: semaphore::Push) {
        self.clients.insert(attempt.client());
        if let semaphore::Push::Lost { base } = push {
            self.lost.push(Lost { attempt, base: Some(base) });
        }
    }

    /// Adds those of another step.
    pub(crate) fn add(&mut self, others: Self) {
        self.clients.extend(others.clients);
        self.lost.extend(others.lost);
    }

    /// Returns true if this client must poll.
    pub(crate) fn concerns(&self, client: ClientId) -> bool {
        self.clients.contains(&client)
    }

    /// Iterates over the leases of this client that an operator has ended.
    pub(crate) fn lost_by(&self, client: ClientId) -> impl Iterator<Item = Lost> {
        self.lost.iter().copied().filter(move |lost| lost.attempt.client() == client)
    }

    /// Iterates over the messages, with the client whose channel each is for.
    pub(crate) fn words(&self) -> impl Iterator<Item = (ClientId, String)> {
        let quiet = |client: &&ClientId| self.lost_by(**client).next().is_none();
        let quiet = self.clients.iter().filter(quiet).map(|client| (*client, String::new()));
        let lost = self.lost.iter().map(|lost| (lost.attempt.client(), lost.to_string()));
        lost.chain(quiet)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}{:016}", self.attempt, self.base.map_or(0, Token::get))
    }
}

impl Lost {
    /// Parses what `Display` wrote.
    #[cfg(any(feature = "postgres", test))]
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let (attempt, base) = word.strip_prefix('L')?.split_at_checked(32)?;
        let base = Token::new((base.len() == 16).then_some(base)?.parse().ok()?);
        Some(Self { attempt: AttemptId::parse(attempt)?, base })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_lease_is_named_to_its_client_alone() {
        let attempt = AttemptId::new(ClientId::from_bits(7), 1, 2);
        let base = Token::new(1_700_000_000_123_456);
        let mut told = Notifications::default();
        told.note(AttemptId::new(ClientId::from_bits(8), 1, 2), Push::Wanted { base });
        told.note(attempt, Push::Lost { base });
        let words: Vec<(ClientId, String)> = told.words().collect();
        assert_eq!(words[1], (ClientId::from_bits(8), String::new()));
        assert_eq!(Lost::parse(&words[0].1), Some(Lost { attempt, base }));
        for word in ["", "L", "M0", &words[0].1[..40]] {
            assert_eq!(Lost::parse(word), None, "{word:?}");
        }
    }
}
