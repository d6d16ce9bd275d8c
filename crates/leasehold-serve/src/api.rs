//! The HTTP API: JSON for programs.

mod events;
mod force;
mod hold;
mod leader;
mod leases;
mod locks;
mod openapi;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use serde_json::Value;

use crate::app::App;
use crate::problem::Problem;
use crate::text;

/// The routes below `/v1`, which `openapi.json` describes.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/openapi.json", get(openapi::document))
        .route("/v1/stores", get(locks::stores))
        .route("/v1/stores/{store}/locks", get(locks::list))
        .route("/v1/stores/{store}/locks/{name}", get(locks::lock))
        .route("/v1/stores/{store}/locks/{name}/leader", get(leader::leader))
        .route("/v1/stores/{store}/locks/{name}/leader/events", get(leader::changes))
        .route("/v1/stores/{store}/locks/{name}/hold", post(hold::hold))
        .route("/v1/stores/{store}/locks/{name}/acquire", post(leases::acquire))
        .route(
            "/v1/stores/{store}/locks/{name}/leases/{lease}",
            axum::routing::delete(leases::release),
        )
        .route("/v1/stores/{store}/locks/{name}/leases/{lease}/renew", post(leases::renew))
        .route("/v1/stores/{store}/locks/{name}/force-release", post(force::force_release))
        .route("/v1/events", get(events::events))
        .fallback(unknown)
}

async fn unknown() -> Problem {
    let next = "see /v1/openapi.json; in a path, write the slashes of a name as %2F";
    Problem::new(StatusCode::NOT_FOUND, "unknown_path", "there is nothing at this path", next)
}

/// The response also has the header Allow.
pub(crate) async fn wrong_method(method: Method) -> Problem {
    let detail = format!("the method {method} is not allowed at this path");
    let next = "use a method that the header Allow names";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail, next)
}

/// Returns an answer as JSON on one line.
fn answer(value: &Value) -> Response {
    let mut response = (text::json(value) + "\n").into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
