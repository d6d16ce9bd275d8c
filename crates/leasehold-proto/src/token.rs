//! The fencing token, and the block of tokens that one grant reserves.

use core::fmt;

/// A fencing token: it is larger for every later holder of the same lock.
///
/// Between 1 and 2^53-1, so that it survives engines and languages whose numbers are doubles.
/// How tokens are used is described by Martin Kleppmann, "How to do distributed locking" (2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// The largest token there can be: 2^53-1.
    pub const MAX: Token = Token((1 << 53) - 1);

    /// A token of this value, or `None` outside 1..=2^53-1.
    pub fn new(value: u64) -> Option<Self> {
        (1..=Self::MAX.0).contains(&value).then_some(Self(value))
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A number that is no [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAToken(i64);

impl fmt::Display for NotAToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token: {}; 1 to {} is allowed", self.0, Token::MAX)
    }
}

impl core::error::Error for NotAToken {}

/// For columns of type `BIGINT`.
impl From<Token> for i64 {
    fn from(token: Token) -> Self {
        token.0 as i64 // At most 2^53-1.
    }
}

/// For columns of type `BIGINT`.
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

/// Consecutive tokens reserved by one grant: `base`, `base + 1`, and so on, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenBlock {
    base: Token,
    count: u32,
}

impl TokenBlock {
    /// A block of `count` tokens from `base` on; `None` when it is empty or passes [`Token::MAX`].
    pub fn new(base: Token, count: u32) -> Option<Self> {
        let last = base.get().checked_add(u64::from(count.checked_sub(1)?))?;
        Token::new(last).map(|_| Self { base, count })
    }

    /// A block of one.
    pub fn single(token: Token) -> Self {
        Self { base: token, count: 1 }
    }

    /// The first token, which names the lease in every later call.
    pub fn base(self) -> Token {
        self.base
    }

    /// The last token that the block reserves.
    pub fn top(self) -> Token {
        Token(self.base.0 + u64::from(self.count) - 1)
    }

    /// True when `token` is one of the block's.
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
            assert_eq!(error, format!("token: {value}; 1 to 9007199254740991 is allowed"));
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
