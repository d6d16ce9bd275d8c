//! Fencing tokens, and the block of tokens that one grant reserves.

use core::fmt;

/// A fencing token: every later holder of the same lock has a larger one.
///
/// A token is between 1 and 2^53-1, so that engines and languages whose numbers are doubles can
/// hold it. Martin Kleppmann, "How to do distributed locking" (2016), describes how to use tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// The largest possible token: 2^53-1.
    pub const MAX: Token = Token((1 << 53) - 1);

    /// Creates a token of this value; `None` outside 1..=2^53-1.
    pub fn new(value: u64) -> Option<Self> {
        (1..=Self::MAX.0).contains(&value).then_some(Self(value))
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The error for a number that is not a [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAToken(i64);

impl fmt::Display for NotAToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a fencing token: it must be between 1 and {}", self.0, Token::MAX)
    }
}

impl core::error::Error for NotAToken {}

/// Converts the token for columns of type `BIGINT`.
impl From<Token> for i64 {
    fn from(token: Token) -> Self {
        token.0 as i64 // At most 2^53-1.
    }
}

/// Converts a value of a column of type `BIGINT`.
impl TryFrom<i64> for Token {
    type Error = NotAToken;

    fn try_from(value: i64) -> Result<Self, NotAToken> {
        u64::try_from(value).ok().and_then(Self::new).ok_or(NotAToken(value))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Consecutive tokens that one grant reserves: `base`, `base + 1`, and so on, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenBlock {
    base: Token,
    count: u32,
}

impl TokenBlock {
    /// Creates a block of `count` tokens from `base` on; `None` if it is empty or exceeds
    /// [`Token::MAX`].
    pub fn new(base: Token, count: u32) -> Option<Self> {
        let last = base.get().checked_add(u64::from(count.checked_sub(1)?))?;
        Token::new(last).map(|_| Self { base, count })
    }

    /// Creates a block of one token.
    pub fn single(token: Token) -> Self {
        Self { base: token, count: 1 }
    }

    /// Returns the first token, which names the lease in every later call.
    pub fn base(self) -> Token {
        self.base
    }

    /// Returns the last token of the block.
    pub fn top(self) -> Token {
        Token(self.base.0 + u64::from(self.count) - 1)
    }

    /// Returns true if the block contains `token`.
    pub fn contains(self, token: Token) -> bool {
        (self.base..=self.top()).contains(&token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_exact_in_a_double() {
        assert_eq!(Token::new(0), None);
        assert_eq!(Token::new(1 << 53), None);
        assert_eq!(Token::MAX.get() as f64 as u64, Token::MAX.get());
    }

    #[test]
    fn a_token_goes_into_a_bigint_and_back() {
        for token in [Token::new(1).unwrap(), Token::MAX] {
            assert_eq!(Token::try_from(i64::from(token)), Ok(token));
        }
        for value in [i64::MIN, -1, 0, 1 << 53, i64::MAX] {
            let error = Token::try_from(value).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "{value} is not a fencing token: it must be between 1 and 9007199254740991"
                )
            );
        }
    }

    #[test]
    fn a_block_never_passes_the_largest_token() {
        assert_eq!(TokenBlock::new(Token::MAX, 2), None);
        assert_eq!(TokenBlock::new(Token::MAX, 0), None);
        let block = TokenBlock::new(Token::new(7).unwrap(), 3).unwrap();
        assert_eq!(block.top().get(), 9);
        assert!(block.contains(Token::new(9).unwrap()) && !block.contains(Token::new(10).unwrap()));
    }
}
