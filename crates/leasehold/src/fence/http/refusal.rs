//! The reasons for which a request is refused, and the responses.

use ::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use ::http::{HeaderValue, Response, StatusCode};

use super::header::{MalformedToken, put_token};
use crate::fence::Stale;

#[derive(Debug)]
pub(super) enum Refusal {
    Stale(Stale),
    Required,
    Malformed(MalformedToken),
}

impl Refusal {
    /// Returns the response. It does not contain the path, so that input is not sent back.
    pub(super) fn response<B: From<String>>(self) -> Response<B> {
        let (status, text) = match &self {
            Self::Stale(Stale { offered, highest, .. }) => (
                StatusCode::PRECONDITION_FAILED,
                format!("Leasehold-Token: {offered} is stale, {highest} has been seen\n"),
            ),
            Self::Required => (
                StatusCode::PRECONDITION_REQUIRED,
                "Leasehold-Token: missing; send the token of the lock\n".to_owned(),
            ),
            Self::Malformed(malformed) => (StatusCode::BAD_REQUEST, format!("{malformed}\n")),
        };
        let mut response = Response::new(B::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        // RFC 6585, section 3: a 428 must not be stored.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Self::Stale(stale) = self {
            put_token(headers, stale.highest);
        }
        response
    }
}

impl From<Stale> for Refusal {
    fn from(stale: Stale) -> Self {
        Self::Stale(stale)
    }
}

impl From<MalformedToken> for Refusal {
    fn from(malformed: MalformedToken) -> Self {
        Self::Malformed(malformed)
    }
}
