//! The description of the API for tools.

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use crate::access::Caller;
use crate::problem::Problem;
use crate::tokens::Role;

/// The document; a test compares it with the routes.
pub(super) const TEXT: &str = include_str!("openapi.json");

/// `GET /v1/openapi.json`.
pub(super) async fn document(caller: Caller) -> Result<Response, Problem> {
    caller.require(Role::Read)?;
    let mut response = TEXT.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
