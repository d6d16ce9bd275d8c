//! Stores and locks, as programs see them.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use leasehold::{Error, ErrorKind};
use serde_json::{Value, json};

use super::answer;
use crate::access::Caller;
use crate::app::{App, Shown};
use crate::listing::{self, Listing};
use crate::params::Params;
use crate::path::Path;
use crate::problem::Problem;
use crate::scan::Order;
use crate::show;
use crate::tokens::Role;

/// How old the scan behind a list may be.
const FRESH: Duration = Duration::from_secs(1);

/// `GET /v1/stores`.
pub(super) async fn stores(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Response, Problem> {
    caller.require(Role::Read)?;
    params.only(&[])?;
    let stores: Vec<Value> = app.stores.iter().map(|shown| store(shown)).collect();
    Ok(answer(&json!({ "stores": stores })))
}

fn store(shown: &Shown) -> Value {
    let snapshot = shown.scans.last();
    let fault = shown.store.fault().or_else(|| snapshot.error.clone());
    json!({
        "name": shown.store.name,
        "place": shown.store.place,
        "locks": snapshot.locks.len(),
        "scanned_unix_ms": Some(snapshot.at_unix_ms).filter(|at| *at > 0),
        "problem": fault.map(|error| Problem::from(error).json()),
    })
}

/// `GET /v1/stores/{store}/locks`.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(store): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    caller.require(Role::Read)?;
    params.only(&["prefix", "sort", "after", "limit", "taken"])?;
    let shown = app.shown(&store)?;
    let limit = match params.get("limit") {
        None => 100,
        Some(text) => {
            let limit = text.parse().ok().filter(|limit| (1..=listing::LONGEST).contains(limit));
            limit.ok_or_else(|| {
                Problem::invalid(format!("limit: {text:?}; 1 to {} is allowed", listing::LONGEST))
            })?
        }
    };
    let listing = Listing {
        prefix: params.get("prefix").unwrap_or_default().to_owned(),
        order: Order::parse(params.get("sort").unwrap_or_default()).map_err(Problem::invalid)?,
        taken: params.word("taken", &["false", "true"])? == "true",
        after: params.get("after").map(str::to_owned),
        limit,
    };
    // A store that is known to be down is not waited for.
    if let Some(error) = shown.store.fault() {
        return Err(error.into());
    }
    let snapshot = shown.scans.fresh(FRESH).await;
    if let Some(error) = snapshot.error.clone() {
        return Err(error.into());
    }
    if snapshot.started.is_none() {
        let what = "the store has not been scanned yet";
        return Err(Error::new(ErrorKind::Unavailable, what).into());
    }
    let page = listing.page(&snapshot).map_err(Problem::invalid)?;
    let locks: Vec<Value> = page.locks.iter().map(|status| show::lock(status)).collect();
    Ok(answer(&json!({
        "locks": locks,
        "next": page.next,
        "total": page.total,
        "is_cut": snapshot.is_cut,
        "scanned_unix_ms": snapshot.at_unix_ms,
    })))
}

/// `GET /v1/stores/{store}/locks/{name}`.
pub(super) async fn lock(
    State(app): State<App>,
    caller: Caller,
    Path((store, name)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    caller.require(Role::Read)?;
    params.only(&[])?;
    let client = app.shown(&store)?.store.client().await?;
    let status = client.lock(&name).status().await?;
    let mut object = show::lock(&status);
    let history = app.history.of(&store, &name);
    let history: Vec<Value> = history.iter().map(|event| event.json(&store, &name)).collect();
    object["history"] = history.into();
    object["waiting_at_server"] = app.slots.waiting(&store, &name).into();
    Ok(answer(&object))
}
