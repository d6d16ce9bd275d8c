//! What the command finds in its environment, and what it tells of the runs around us.

use std::env;

use leasehold::StoreUrl;

use crate::locate::{STORE_VARIABLE, WITHHELD};
use crate::store::{Held, Store};

const NAME: &str = "LEASEHOLD_NAME";
const HELD: &str = "LEASEHOLD_HELD";

/// Variables to set, or to remove.
pub(crate) fn of_command(
    store: &Store,
    name: &str,
    held: &Held,
) -> Vec<(&'static str, Option<String>)> {
    let all = with(&env::var(HELD).unwrap_or_default(), &entry(&store.place(), name));
    vec![
        (NAME, Some(name.to_owned())),
        ("LEASEHOLD_TOKEN", Some(held.token().to_string())),
        ("LEASEHOLD_OWNER", Some(held.owner())),
        ("LEASEHOLD_DEADLINE_UNIX_MS", held.deadline_unix_ms().map(|ms| ms.to_string())),
        (HELD, Some(all)),
        (STORE_VARIABLE, Some(passed_on(store.url()))),
    ]
}

/// The store's URL goes on to the command, wherever it came from, but not if it holds a password.
/// Without the variable an inner `leasehold` might lock in another store, where nobody else looks.
fn passed_on(url: &str) -> String {
    match StoreUrl::parse(url) {
        Ok(parsed) if !parsed.has_credentials() => url.to_owned(),
        _ => WITHHELD.to_owned(),
    }
}

/// True when an enclosing run says that it holds this lock.
pub(crate) fn is_nested(place: &str, name: &str) -> bool {
    match env::var(HELD) {
        Ok(all) => all.lines().any(|held| held == entry(place, name)),
        Err(_) => env::var(NAME).is_ok_and(|outer| outer == name),
    }
}

/// The lines of `LEASEHOLD_HELD` and this one, each once: a job that starts its own next run, and
/// that one the next, must not find its environment grown each time.
fn with(all: &str, entry: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in all.lines().chain([entry]) {
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// One line of `LEASEHOLD_HELD`; neither part can hold a line end.
fn entry(place: &str, name: &str) -> String {
    format!("{place}#{name}")
}
