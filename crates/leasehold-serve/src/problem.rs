//! Errors as problem details (RFC 9457): the kind, what happened, and the next step.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use leasehold::{Error, ErrorKind};
use serde_json::{Value, json};

use crate::text;

/// An error that a caller of the API receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    next: &'static str,
    retry_after: Option<u32>,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        kind: &'static str,
        detail: impl Into<String>,
        next: &'static str,
    ) -> Self {
        Self { status, kind, detail: detail.into(), next, retry_after: None }
    }

    /// The request is wrong; `detail` says what is allowed.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        let next = "correct the request and send it again";
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail, next)
    }

    /// A limit of the server is reached.
    pub(crate) fn limit(detail: impl Into<String>) -> Self {
        let next = "release leases, or raise the limit that the message names";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "limit", detail, next).retry_after(5)
    }

    /// The server stops.
    pub(crate) fn stopping() -> Self {
        let detail = "the server is stopping; nothing was acquired";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail, "send the request again")
            .retry_after(2)
    }

    /// Asks the caller to wait this many seconds.
    #[must_use]
    pub(crate) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn next_step(&self) -> &'static str {
        self.next
    }

    /// Returns it as an object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "type": format!("urn:leasehold:problem:{}", self.kind),
            "title": self.kind,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "kind": self.kind,
            "next": self.next,
            "retry_after_s": self.retry_after,
        })
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, kind, next) = match error.kind() {
            ErrorKind::Invalid => (400, "invalid", "correct the request and send it again"),
            ErrorKind::Unsupported => (501, "unsupported", "use another store"),
            ErrorKind::Timeout => (409, "timeout", "try again, or wait longer: wait=30s"),
            ErrorKind::Lost => {
                (410, "lost", "stop the work that needed the lock, and acquire it again")
            }
            ErrorKind::Conflict => (409, "conflict", "send the request again"),
            ErrorKind::Unavailable => {
                (503, "unavailable", "check that the store runs, and send the request again")
            }
            ErrorKind::Refused => {
                (502, "refused", "check the credentials of the server at the store")
            }
            ErrorKind::Foreign => (502, "foreign", "use another name or store"),
            _ => (503, "closed", "send the request again"),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let problem = Self::new(status, kind, error.to_string(), next);
        match error.kind() {
            ErrorKind::Timeout | ErrorKind::Conflict => problem.retry_after(1),
            ErrorKind::Unavailable | ErrorKind::Closed => problem.retry_after(2),
            _ => problem,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, text::json(&self.json()) + "\n").into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_status_and_a_next_step() {
        for (kind, status) in [
            (ErrorKind::Invalid, 400),
            (ErrorKind::Unsupported, 501),
            (ErrorKind::Timeout, 409),
            (ErrorKind::Lost, 410),
            (ErrorKind::Unavailable, 503),
            (ErrorKind::Refused, 502),
            (ErrorKind::Foreign, 502),
            (ErrorKind::Closed, 503),
        ] {
            let problem = Problem::from(Error::new(kind, "what \u{1b}[31m happened"));
            assert_eq!(problem.status.as_u16(), status, "{kind:?}");
            assert!(!problem.next.is_empty());
            assert!(!text::json(&problem.json()).contains('\u{1b}'));
        }
    }
}
