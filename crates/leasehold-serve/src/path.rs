//! The parts of a request's path, whose errors are problems.

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The parts of the path, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(decoded)) => Ok(Self(decoded)),
            Err(error) => {
                let detail = format!("the path cannot be read: {}", error.body_text());
                let next = "percent-encode the UTF-8 of a name, and its slashes as %2F";
                Err(Problem::new(StatusCode::BAD_REQUEST, "invalid", detail, next))
            }
        }
    }
}
