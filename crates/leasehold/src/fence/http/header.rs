//! The header that carries a fencing token.

use std::fmt;

use ::http::{HeaderMap, HeaderName, HeaderValue};

use crate::Token;

/// `Leasehold-Token`: the holder's token in a request, the largest token seen in a 412 response.
///
/// The value is a number from 1 to 9007199254740991 in decimal digits. Leading zeros are allowed,
/// up to 16 digits in total.
pub const LEASEHOLD_TOKEN: HeaderName = HeaderName::from_static("leasehold-token");

/// Sets the header of a request to a guard's token and replaces any earlier value.
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

/// Returns the token in these headers; `None` if the header is missing.
///
/// # Errors
/// [`MalformedToken`] if the header is not a token, or occurs more than once.
pub fn token_in(headers: &HeaderMap) -> Result<Option<Token>, MalformedToken> {
    let mut values = headers.get_all(LEASEHOLD_TOKEN).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(MalformedToken(()));
    }
    let text = value.to_str().unwrap_or_default();
    // `parse` would accept a sign.
    let digits = text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_digit());
    let token = text.parse().ok().filter(|_| digits).and_then(Token::new);
    token.map(Some).ok_or(MalformedToken(()))
}

/// The error for a header `Leasehold-Token` that is not exactly one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedToken(());

impl fmt::Display for MalformedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leasehold-Token: write one number from 1 to 9007199254740991")
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
