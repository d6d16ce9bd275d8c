//! The files that pages load.

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("style.css"))
}

pub(super) async fn live() -> Response {
    file("text/javascript; charset=utf-8", include_str!("live.js"))
}

pub(super) async fn icon() -> Response {
    file("image/svg+xml", include_str!("icon.svg"))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
