//! What a step tells other clients besides its answer: to poll, that they hold a lease, or that one has ended.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use leasehold_core::proto::handoff::Push;
use leasehold_core::proto::semaphore;
use leasehold_core::{AttemptId, ClientId, Token, TokenBlock};

/// The messages of a step besides its answer.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    /// The clients that must poll.
    clients: BTreeSet<ClientId>,
    /// The waiters that hold a lease now.
    offers: Vec<Offer>,
    /// The leases that an operator has ended.
    lost: Vec<Lost>,
}

/// A lease that a waiter holds, until it confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    attempt: AttemptId,
    tokens: TokenBlock,
    lasts: Duration,
    /// Others wait for it.
    wanted: bool,
}

/// A message about an [`Offer`], with the time of the step by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) attempt: AttemptId,
    pub(crate) server_us: u64,
    pub(crate) tokens: TokenBlock,
    pub(crate) lasts: Duration,
    pub(crate) wanted: bool,
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
    /// Creates the message to one client, to poll.
    pub(crate) fn to(client: ClientId) -> Self {
        Self { clients: BTreeSet::from([client]), ..Self::default() }
    }

    pub(crate) fn note(&mut self, attempt: AttemptId, push: Push) {
        if let Push::Granted { tokens, offer: lasts, waiters } = push {
            return self.offers.push(Offer { attempt, tokens, lasts, wanted: waiters > 0 });
        }
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
        self.offers.extend(others.offers);
        self.lost.extend(others.lost);
    }

    /// Returns true if it concerns no client.
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.offers.is_empty()
    }

    /// Returns true if this client must poll.
    pub(crate) fn concerns(&self, client: ClientId) -> bool {
        let offered = |offer: &Offer| offer.attempt.client() == client;
        self.clients.contains(&client) || self.offers.iter().any(offered)
    }

    /// Iterates over the leases of this client that an operator has ended.
    pub(crate) fn lost_by(&self, client: ClientId) -> impl Iterator<Item = Lost> {
        self.lost.iter().copied().filter(move |lost| lost.attempt.client() == client)
    }

    /// Iterates over the messages of a step at this time, with the client whose channel each is for.
    pub(crate) fn words(&self, server_us: u64) -> impl Iterator<Item = (ClientId, String)> {
        let quiet = |client: &&ClientId| self.lost_by(**client).next().is_none();
        let quiet = self.clients.iter().filter(quiet).map(|client| (*client, String::new()));
        let lost = self.lost.iter().map(|lost| (lost.attempt.client(), lost.to_string()));
        let offers = self.offers.iter().map(move |offer| {
            let Offer { attempt, tokens, lasts, wanted } = *offer;
            (attempt.client(), Offered { attempt, server_us, tokens, lasts, wanted }.to_string())
        });
        offers.chain(lost).chain(quiet)
    }
}

/// As the function that frees a lock writes it.
impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt, server_us, tokens, lasts, wanted } = self;
        let (base, top, wanted) = (tokens.base(), tokens.top(), u8::from(*wanted));
        let lasts_us = lasts.as_micros();
        write!(f, "G{attempt} {server_us} {} {} {lasts_us} {wanted}", base.get(), top.get())
    }
}

impl Offered {
    /// Parses what `Display` wrote.
    #[cfg(any(feature = "postgres", feature = "fuzzing", test))]
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let mut fields = word.strip_prefix('G')?.split(' ');
        let attempt = AttemptId::parse(fields.next()?)?;
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (server_us, base, top) = (number()?, Token::new(number()?)?, number()?);
        let (lasts, wanted) = (Duration::from_micros(number()?), number()? != 0);
        let count = u32::try_from(top.checked_sub(base.get())?).ok()?.checked_add(1)?;
        let tokens = TokenBlock::new(base, count)?;
        fields.next().is_none().then_some(Self { attempt, server_us, tokens, lasts, wanted })
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}{:016}", self.attempt, self.base.map_or(0, Token::get))
    }
}

impl Lost {
    /// Parses what `Display` wrote.
    #[cfg(any(feature = "postgres", feature = "fuzzing", test))]
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
        let words: Vec<(ClientId, String)> = told.words(1).collect();
        assert_eq!(words[1], (ClientId::from_bits(8), String::new()));
        assert_eq!(Lost::parse(&words[0].1), Some(Lost { attempt, base }));
        for word in ["", "L", "M0", &words[0].1[..40]] {
            assert_eq!(Lost::parse(word), None, "{word:?}");
        }
    }

    #[test]
    fn an_offer_is_told_with_its_tokens_and_its_time() {
        let attempt = AttemptId::new(ClientId::from_bits(7), 1, 2);
        let tokens = TokenBlock::new(Token::new(1_700_000_000_123_456).unwrap(), 100).unwrap();
        let lasts = Duration::from_secs(2);
        let mut told = Notifications::default();
        told.note(attempt, Push::Granted { tokens, offer: lasts, waiters: 3 });
        assert!(told.concerns(attempt.client()));
        let words: Vec<(ClientId, String)> = told.words(1_700_000_000_000_001).collect();
        let [(client, word)] = words.as_slice() else { panic!("{words:?}") };
        assert_eq!(*client, attempt.client());
        let server_us = 1_700_000_000_000_001;
        let offered = Offered { attempt, server_us, tokens, lasts, wanted: true };
        assert_eq!(Offered::parse(word), Some(offered));
        let cut = &word[..word.len() - 2];
        let reversed = word.replace("123555", "123455");
        for word in ["", "G", "L0", cut, &reversed, &format!("{word} 1"), &word.replace('2', "x")] {
            assert_eq!(Offered::parse(word), None, "{word:?}");
        }
    }
}
