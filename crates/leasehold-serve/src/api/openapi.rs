//! The description of the API for tools.

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;

/// The document; a test compares it with the routes.
pub(super) const TEXT: &str = include_str!("openapi.json");

/// `GET /v1/openapi.json`.
pub(super) async fn document() -> Response {
    let mut response = TEXT.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
