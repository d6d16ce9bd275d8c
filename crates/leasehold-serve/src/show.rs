//! A lock as JSON, with the keys of `leasehold status --json`.

use leasehold::{Holder, Permitted, State, Status};
use serde_json::{Value, json};

/// Returns the state as a word for programs.
pub(crate) fn state(state: State) -> &'static str {
    match state {
        State::Free => "free",
        State::Held => "held",
        State::Shared => "shared",
        State::Permits => "permits",
        State::Kept => "kept",
        State::Latch => "latch",
        _ => "unknown",
    }
}

/// Returns the clients that hold a lock, or permits of a semaphore.
pub(crate) fn holders(status: &Status) -> Vec<&Holder> {
    match status.state {
        State::Shared if !status.readers.is_empty() => status.readers.iter().collect(),
        State::Permits => permits(status).iter().map(|one| &one.holder).collect(),
        State::Free => Vec::new(),
        _ => status.holder.iter().collect(),
    }
}

/// Returns the permits of a semaphore, at most the first hundred.
pub(crate) fn permits(status: &Status) -> &[Permitted] {
    status.permits.as_ref().map_or(&[], |permits| &permits.holders)
}

/// Returns slots as ranges: `0-3, 7`.
pub(crate) fn slots(all: &[u32]) -> String {
    let range = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.first().map_or(String::new(), u32::to_string),
    };
    let runs: Vec<_> = all.chunk_by(|one, next| one + 1 == *next).map(range).collect();
    runs.join(", ")
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
            object["slots"] = waiter.slots.into();
            object
        };
        all.iter().enumerate().map(one).collect::<Vec<_>>()
    });
    let held: Vec<Value> = match status.state {
        State::Permits => permits(status).iter().map(permit).collect(),
        _ => holders(status).into_iter().map(holder).collect(),
    };
    let limit = status.permits.as_ref().map(|permits| (permits.limit, permits.held));
    json!({
        "name": status.name.as_str(),
        "state": state(status.state),
        "holders": held,
        "limit": limit.map(|(limit, _)| limit),
        "held_slots": limit.map(|(_, held)| held),
        "since_unix_ms": status.since_unix_ms.filter(|_| status.state != State::Free),
        "token": status.token.map(|token| token.get()),
        "remaining_ms": status.remaining.map(|rest| rest.as_millis() as u64),
        "waiters": waiters,
        "waiting": waiting(status),
        "note": status.note,
    })
}

fn permit(one: &Permitted) -> Value {
    let mut object = holder(&one.holder);
    object["token"] = one.token.get().into();
    object["slots"] = one.slots.clone().into();
    object["remaining_ms"] = one.remaining.map(|rest| rest.as_millis() as u64).into();
    object
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
