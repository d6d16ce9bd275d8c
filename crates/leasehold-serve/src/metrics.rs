//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use crate::access::Caller;
use crate::app::App;
use crate::problem::Problem;
use crate::show;
use crate::tokens::Role;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/metrics", get(metrics))
}

/// `GET /metrics`.
async fn metrics(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    caller.require(Role::Read)?;
    let mut response = text(&app).into_response();
    let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, format);
    Ok(response)
}

/// Names of stores have only letters, digits, `-`, `_` and `.`, so nothing is escaped.
fn text(app: &App) -> String {
    let mut out = String::new();
    let counters = &app.counters;
    let (slots, waiting) = app.slots.count();
    let gauges = [
        ("connections", "Open connections.", counters.connections.load(Ordering::Relaxed)),
        ("viewers", "Viewers of live events.", counters.viewers.load(Ordering::Relaxed)),
        ("leases", "Leases of clients of this server.", app.leases.count()),
        ("waiting", "Requests that wait for a lock.", waiting),
        (
            "slots",
            "Leases and waiting requests, as --max-holds counts them: a lost lease until its validity has passed.",
            slots,
        ),
    ];
    for (name, help, value) in gauges {
        head(&mut out, name, help, "gauge");
        let _ = writeln!(out, "leasehold_serve_{name} {value}");
    }
    head(&mut out, "responses_total", "Responses by status.", "counter");
    let responses = counters.responses.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (status, count) in responses.into_iter().collect::<BTreeMap<_, _>>() {
        let _ = writeln!(out, "leasehold_serve_responses_total{{status=\"{status}\"}} {count}");
    }
    head(&mut out, "events_total", "Events of locks, as scans saw them.", "counter");
    let events = counters.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let events: BTreeMap<_, _> =
        events.into_iter().map(|((store, what), count)| ((store, what.word()), count)).collect();
    for ((store, what), count) in events {
        let labels = format!("store=\"{store}\",what=\"{what}\"");
        let _ = writeln!(out, "leasehold_serve_events_total{{{labels}}} {count}");
    }
    stores(app, &mut out);
    out
}

fn stores(app: &App, out: &mut String) {
    head(out, "store_up", "1 if the last scan of the store succeeded.", "gauge");
    for shown in &app.stores {
        let snapshot = shown.scans.last();
        let is_up = shown.store.fault().is_none() && snapshot.error.is_none();
        let up = u8::from(is_up && snapshot.at_unix_ms > 0);
        let _ = writeln!(out, "leasehold_serve_store_up{{store=\"{}\"}} {up}", shown.store.name);
    }
    head(out, "scan_seconds", "How long the last scan took.", "gauge");
    for shown in &app.stores {
        let took = shown.scans.last().took.as_secs_f64();
        let _ =
            writeln!(out, "leasehold_serve_scan_seconds{{store=\"{}\"}} {took}", shown.store.name);
    }
    head(out, "locks", "Locks of the last scan, by state.", "gauge");
    for shown in &app.stores {
        let mut states = BTreeMap::new();
        for status in &shown.scans.last().locks {
            *states.entry(show::state(status.state)).or_insert(0) += 1;
        }
        let name = &shown.store.name;
        for (state, count) in states {
            let labels = format!("store=\"{name}\",state=\"{state}\"");
            let _ = writeln!(out, "leasehold_serve_locks{{{labels}}} {count}");
        }
    }
    head(out, "queued", "Clients in the queues of the locks of the last scan.", "gauge");
    for shown in &app.stores {
        let locks = &shown.scans.last().locks;
        let queued: usize = locks.iter().filter_map(|status| show::waiting(status)).sum();
        let _ = writeln!(out, "leasehold_serve_queued{{store=\"{}\"}} {queued}", shown.store.name);
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP leasehold_serve_{name} {help}");
    let _ = writeln!(out, "# TYPE leasehold_serve_{name} {kind}");
}
