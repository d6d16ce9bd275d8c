//! A lock as JSON, with the keys of `leasehold status --json`.

use leasehold::{Holder, State, Status};
use serde_json::{Value, json};

/// Returns the state as a word for programs.
pub(crate) fn state(state: State) -> &'static str {
    match state {
        State::Free => "free",
        State::Held => "held",
        State::Shared => "shared",
        State::Kept => "kept",
        _ => "unknown",
    }
}

/// Returns the clients that hold a lock.
pub(crate) fn holders(status: &Status) -> &[Holder] {
    match status.state {
        State::Shared if !status.readers.is_empty() => &status.readers,
        State::Free => &[],
        _ => status.holder.as_slice(),
    }
}

/// Returns how many clients wait, if the store knows.
pub(crate) fn waiting(status: &Status) -> Option<usize> {
    status.waiters.as_ref().map(|all| all.len() + status.more_waiters)
}

/// Returns one lock as an object; unknown parts are null.
pub(crate) fn lock(status: &Status) -> Value {
    let waiters = status.waiters.as_ref().map(|all| {
        let one = |(at, waiter): (usize, &leasehold::Waiter)| {
            let mut object = holder(&waiter.holder);
            object["place"] = (at + 1).into();
            object["since_unix_ms"] = waiter.since_unix_ms.into();
            object["shared"] = waiter.shared.into();
            object
        };
        all.iter().enumerate().map(one).collect::<Vec<_>>()
    });
    json!({
        "name": status.name.as_str(),
        "state": state(status.state),
        "holders": holders(status).iter().map(holder).collect::<Vec<_>>(),
        "since_unix_ms": status.since_unix_ms.filter(|_| status.state != State::Free),
        "token": status.token.map(|token| token.get()),
        "remaining_ms": status.remaining.map(|rest| rest.as_millis() as u64),
        "waiters": waiters,
        "waiting": waiting(status),
        "note": status.note,
    })
}

/// The attempt id is public: it never serves as a secret.
fn holder(holder: &Holder) -> Value {
    json!({
        "host": holder.host,
        "pid": holder.pid,
        "owner": holder.attempt.to_string(),
        "metadata": holder.metadata,
    })
}
