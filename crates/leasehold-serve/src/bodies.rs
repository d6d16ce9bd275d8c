//! Refuses requests of the API that have a body: the API reads none, so its parameters would be ignored.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use http::StatusCode;
use tokio_stream::StreamExt;

use crate::problem::Problem;

/// How many bytes of a body are read. A longer one is not read to its end.
const LONGEST: usize = 16 << 10;

/// How long the first byte of a body of unknown length may take.
const FIRST: Duration = Duration::from_secs(10);

/// How long the rest of a refused body may take.
const REST: Duration = Duration::from_secs(1);

/// Returns the request if it has no body, or an empty one.
pub(crate) async fn refuse(request: Request) -> Result<Request, Problem> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let announced = body.size_hint().lower();
    if announced > LONGEST as u64 {
        return Err(refused(parts.uri.path()));
    }
    let mut data = body.into_data_stream();
    let mut first = 0;
    if announced == 0 {
        let bytes = async {
            loop {
                match data.next().await {
                    Some(Ok(bytes)) if bytes.is_empty() => {}
                    // A part that cannot be read is none.
                    other => return other.map(|bytes| bytes.map_or(0, |bytes| bytes.len())),
                }
            }
        };
        first = match tokio::time::timeout(FIRST, bytes).await {
            Ok(None) => return Ok(Request::from_parts(parts, Body::empty())),
            Ok(Some(first)) => first,
            Err(_) => return Err(late()),
        };
    }
    // A client that is still sending might not see the answer, so a short body is read to its end.
    let rest = async {
        let mut left = LONGEST.checked_sub(first);
        while let Some(Ok(bytes)) = data.next().await {
            left = left.and_then(|left| left.checked_sub(bytes.len()));
            if left.is_none() {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(REST, rest).await;
    Err(refused(parts.uri.path()))
}

fn refused(path: &str) -> Problem {
    let next = match path.ends_with("/force-release") {
        true => "write token and reason in the query, ?token=TOKEN&reason=TEXT, and send no body",
        false => "write parameters in the query, such as ?ttl=30s&wait=10s, and send no body",
    };
    let detail = "the request has a body, which is not read here";
    Problem::new(StatusCode::BAD_REQUEST, "invalid", detail, next)
}

fn late() -> Problem {
    let detail = "the body of the request did not arrive in time";
    let next = "send the request again, without a body";
    Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail, next)
}
