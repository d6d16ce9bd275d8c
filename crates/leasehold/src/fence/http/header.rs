//! The header that carries a fencing token.

use std::fmt;

use ::http::{HeaderMap, HeaderName, HeaderValue};

use crate::Token;

/// `Leasehold-Token`: in a request the holder's token, in a 412 the largest that was seen.
///
/// Its value is the number in decimal digits, 1 to 9007199254740991; leading zeros are fine, up to
/// 16 digits in all.
pub const LEASEHOLD_TOKEN: HeaderName = HeaderName::from_static("leasehold-token");

/// Puts a guard's token into the headers of a request, in place of any other.
///
/// ```
/// # #[tokio::main] async fn main() -> leasehold::Result<()> {
/// use leasehold::fence::http::{LEASEHOLD_TOKEN, put_token};
///
/// let client = leasehold::connect("memory:").await?;
/// let guard = client.lock("orders/555").acquire().await?;
///
/// let mut headers = http::HeaderMap::new();
/// put_token(&mut headers, guard.token());
/// assert_eq!(headers[LEASEHOLD_TOKEN], guard.token().to_string());
///
/// guard.release().await?;
/// client.close().await;
/// # Ok(()) }
/// ```
pub fn put_token(headers: &mut HeaderMap, token: Token) {
    headers.insert(LEASEHOLD_TOKEN, HeaderValue::from(token.get()));
}

/// The token in these headers; `None` when there is none.
///
/// # Errors
/// [`MalformedToken`] when the header is no token, or is there more than once.
pub fn token_in(headers: &HeaderMap) -> Result<Option<Token>, MalformedToken> {
    let mut values = headers.get_all(LEASEHOLD_TOKEN).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(MalformedToken(()));
    }
    let text = value.to_str().unwrap_or_default();
    // `parse` would let a sign through.
    let digits = text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_digit());
    let token = text.parse().ok().filter(|_| digits).and_then(Token::new);
    token.map(Some).ok_or(MalformedToken(()))
}

/// The header `Leasehold-Token` is there, but is not one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedToken(());

impl fmt::Display for MalformedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leasehold-Token: not one number between 1 and 9007199254740991")
    }
}

impl std::error::Error for MalformedToken {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(token_in(&headers), Ok(None));
        for token in [Token::new(1).unwrap(), Token::MAX] {
            put_token(&mut headers, token);
            assert_eq!(token_in(&headers), Ok(Some(token)));
        }
        headers.insert(LEASEHOLD_TOKEN, "0000000000000033".parse().unwrap());
        assert_eq!(token_in(&headers), Ok(Token::new(33)));
    }

    #[test]
    fn what_is_no_token_is_malformed() {
        let mut headers = HeaderMap::new();
        for bad in ["", "0", "-1", "+1", "1 2", "1.0", "0x1", "9007199254740992", "é", "1,2"] {
            headers.insert(LEASEHOLD_TOKEN, HeaderValue::from_bytes(bad.as_bytes()).unwrap());
            assert_eq!(token_in(&headers), Err(MalformedToken(())), "{bad}");
        }
        headers.insert(LEASEHOLD_TOKEN, "00000000000000033".parse().unwrap());
        assert_eq!(token_in(&headers), Err(MalformedToken(())));
        headers.insert(LEASEHOLD_TOKEN, "33".parse().unwrap());
        headers.append(LEASEHOLD_TOKEN, "34".parse().unwrap());
        assert_eq!(token_in(&headers), Err(MalformedToken(())));
    }
}
