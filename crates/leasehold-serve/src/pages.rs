//! The dashboard: pages for people.

mod assets;
mod force;
mod lang;
mod layout;
mod links;
mod lock;
mod login;
mod overview;
mod plot;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

/// The pages.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(overview::overview))
        .route("/lock", get(lock::lock))
        .route("/force-release", post(force::force_release))
        .route("/login", get(login::form).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/assets/style.css", get(assets::style))
        .route("/assets/live.js", get(assets::live))
        .route("/assets/icon.svg", get(assets::icon))
}
