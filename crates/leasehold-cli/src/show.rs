//! A lock's status as a table row, as lines, and as JSON.

use leasehold::backend::{Holder, State, Status};
use serde_json::{Value, json};

use crate::human;
use crate::table;
use crate::timer::now_unix_ms;

const HEAD: [&str; 6] = ["NAME", "STATE", "HOLDER", "SINCE", "TOKEN", "WAITERS"];

/// Many locks as a table with a head.
pub(crate) fn table(all: &[Status]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(all.iter().map(row));
    table::aligned(&rows)
}

/// One lock in detail.
pub(crate) fn lines(status: &Status) -> String {
    let mut rows = vec![pair("name", human::clean(status.name.as_str()))];
    rows.push(pair("state", state(status.state)));
    let free = status.state == State::Free;
    if let Some(holder) = &status.holder {
        let what = if free { "last holder" } else { "holder" };
        rows.push(pair(what, who(holder)));
        if let Some(metadata) = &holder.metadata {
            rows.push(pair("", human::clean(metadata)));
        }
        rows.push(pair("owner", holder.attempt.to_string()));
    }
    if let Some(token) = status.token {
        rows.push(pair(if free { "last token" } else { "token" }, token.to_string()));
    }
    if let Some(since) = status.since_unix_ms {
        rows.push(pair("since", format!("{} ago", human::since(since, now_unix_ms()))));
    }
    if let Some(remaining) = status.remaining {
        rows.push(pair("remaining", human::span(remaining)));
    }
    let waiters = status.waiters.as_deref();
    rows.push(pair("waiters", waiters.map_or("unknown".into(), |all| all.len().to_string())));
    for (at, waiter) in waiters.unwrap_or_default().iter().enumerate() {
        let age = human::since(waiter.since_unix_ms, now_unix_ms());
        let place = human::ordinal(at + 1);
        rows.push(pair("", format!("{place}: {}, waiting for {age}", who(&waiter.holder))));
    }
    if let Some(note) = &status.note {
        rows.push(pair("note", human::clean(note)));
    }
    table::aligned(&rows)
}

/// One lock as a JSON object; unknown parts are null.
pub(crate) fn json(status: &Status) -> Value {
    let holder = |holder: &Holder| {
        json!({
            "host": holder.host,
            "pid": holder.pid,
            "owner": holder.attempt.to_string(),
            "metadata": holder.metadata,
        })
    };
    let waiters = status.waiters.as_ref().map(|all| {
        let one = |waiter: &leasehold::backend::Waiter| {
            let mut object = holder(&waiter.holder);
            object["since_unix_ms"] = waiter.since_unix_ms.into();
            object
        };
        all.iter().map(one).collect::<Vec<_>>()
    });
    json!({
        "name": status.name.as_str(),
        "state": state(status.state),
        "holder": status.holder.as_ref().map(holder),
        "token": status.token.map(|token| token.get()),
        "since_unix_ms": status.since_unix_ms,
        "remaining_ms": status.remaining.map(|rest| rest.as_millis() as u64),
        "waiters": waiters,
        "note": status.note,
    })
}

/// The state as a word.
pub(crate) fn state(state: State) -> &'static str {
    match state {
        State::Free => "free",
        State::Held => "held",
        State::Kept => "kept",
    }
}

/// A holder as HOST/PID.
pub(crate) fn who(holder: &Holder) -> String {
    format!("{}/{}", human::clean(&holder.host), holder.pid)
}

fn row(status: &Status) -> [String; 6] {
    let taken = status.state != State::Free;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let now = now_unix_ms();
    [
        human::clean(status.name.as_str()),
        state(status.state).to_owned(),
        or_dash(status.holder.as_ref().filter(|_| taken).map(who)),
        or_dash(status.since_unix_ms.filter(|_| taken).map(|since| human::since(since, now))),
        or_dash(status.token.map(|token| token.to_string())),
        or_dash(status.waiters.as_ref().map(|all| all.len().to_string())),
    ]
}

fn pair(key: &str, value: impl Into<String>) -> [String; 2] {
    [key.to_owned(), value.into()]
}
