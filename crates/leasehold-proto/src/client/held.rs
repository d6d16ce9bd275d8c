//! The tokens of a lease, and which of them its holders in this process have used.

use core::time::Duration;

use super::Rules;
use super::rules::Bug;
use crate::handoff::ReleaseRequest;
use crate::{AttemptId, Token, TokenBlock};

/// The tokens that were reserved with a lease, and how many of them earlier holders in this process
/// have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldTokens {
    /// The first token, which names the lease.
    base: Token,
    /// Zero for a read lease: all readers of the phase have the first token.
    reserved: u32,
    used: u32,
}

impl HeldTokens {
    /// Begins with the first token of a new lease.
    pub fn new(tokens: TokenBlock) -> Self {
        let reserved = (tokens.top().get() - tokens.base().get()) as u32 + 1;
        Self { base: tokens.base(), reserved, used: 0 }
    }

    /// Begins with the token of a read phase, which all its readers have: it is the next token too.
    pub fn of_readers(token: Token) -> Self {
        Self { base: token, reserved: 0, used: 0 }
    }

    /// Returns the first token of the lease, which names it.
    pub fn base(&self) -> Token {
        self.base
    }

    /// Returns the reserved tokens.
    pub fn block(&self) -> TokenBlock {
        TokenBlock::new(self.base, self.reserved).unwrap_or(TokenBlock::single(self.base))
    }

    /// Returns the token of the current holder.
    pub fn token(&self) -> Token {
        Token::new(self.base.get() + u64::from(self.used)).unwrap_or(self.base)
    }

    /// Returns true if a token is left for another holder in this process.
    pub fn has_next(&self) -> bool {
        self.reserved == 0 || self.used + 1 < self.reserved
    }

    /// Returns the same lease with the token of the next holder; `None` if no token is left.
    pub fn next(&self) -> Option<Self> {
        let used = if self.reserved == 0 { 0 } else { self.used + 1 };
        self.has_next().then_some(Self { used, ..*self })
    }

    /// Returns how to end the lease. Tokens after the last one that was used go back to the engine.
    pub fn end(
        &self,
        attempt: AttemptId,
        suspect: bool,
        keep: Option<Duration>,
        rules: impl Rules,
    ) -> ReleaseRequest {
        let forgets = rules.breaks(Bug::PassedTokensGivenBack);
        let last = if forgets { self.base } else { self.token() };
        ReleaseRequest { attempt, base: Some(self.base), last: Some(last), suspect, keep }
    }
}
