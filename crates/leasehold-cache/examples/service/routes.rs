//! The routes: read a product, write it, and report the counts.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use leasehold_cache::BoxError;
use serde::Serialize;
use serde_json::json;

use super::service::Service;

/// `GET` and `PUT /products/{id}` (the body is the new price), `GET /stats`.
pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/products/{id}", get(read).put(write))
        .route(
            "/stats",
            get(async |State(service): State<Arc<Service>>| {
                answer(StatusCode::OK, &service.counts().json())
            }),
        )
        .with_state(service)
}

async fn read(State(service): State<Arc<Service>>, Path(key): Path<String>) -> Response {
    match service.read(fastrand::usize(..service.processes()), &key).await {
        Ok(Some(product)) => answer(StatusCode::OK, &product),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => failed(&error),
    }
}

async fn write(
    State(service): State<Arc<Service>>,
    Path(id): Path<u32>,
    price: String,
) -> Response {
    let Ok(price) = price.trim().parse() else {
        return (StatusCode::BAD_REQUEST, "the body is no price").into_response();
    };
    let at = fastrand::usize(..service.processes());
    match service.write(at, id.into(), price).await {
        Ok(version) => answer(StatusCode::OK, &json!({ "version": version })),
        Err(error) => failed(&error),
    }
}

fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => failed(&error.into()),
    }
}

fn failed(error: &BoxError) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
}
