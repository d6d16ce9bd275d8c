//! The environment of the command, and what it tells about enclosing runs.

use std::env;

use leasehold::StoreUrl;

use crate::locate::{STORE_VARIABLE, WITHHELD};
use crate::store::{Held, Store};

const NAME: &str = "LEASEHOLD_NAME";
const HELD: &str = "LEASEHOLD_HELD";
/// A line for each permit of this run and of the enclosing ones: the owner, the number of slots, and the entry.
const HELD_SLOTS: &str = "LEASEHOLD_HELD_SLOTS";
/// How many such lines are passed on: a job that starts its own next run must not find its environment grown each time.
const PERMITS: usize = 16;

/// Returns the variables to set, or to remove.
pub(crate) fn of_command(
    store: &Store,
    name: &str,
    held: &Held,
) -> Vec<(&'static str, Option<String>)> {
    let place = store.place();
    let entries: Vec<_> = held.tokens().map(|(name, _)| entry(&place, name)).collect();
    let all = with(&env::var(HELD).unwrap_or_default(), &entries);
    let token = held.tokens().find(|(held, _)| *held == name).map(|(_, token)| token.to_string());
    let tokens: Vec<_> = held.tokens().map(|(name, token)| format!("{token} {name}")).collect();
    let slots: Vec<_> = held.slots().unwrap_or_default().iter().map(u32::to_string).collect();
    let permits = held.slots().zip(held.owner_of(name)).map(|(slots, owner)| {
        let line = [owner, slots.len().to_string(), entry(&place, name)].join(" ");
        with_permit(&env::var(HELD_SLOTS).unwrap_or_default(), &line)
    });
    let inherited = || env::var(HELD_SLOTS).ok();
    vec![
        (NAME, Some(name.to_owned())),
        ("LEASEHOLD_TOKEN", token),
        ("LEASEHOLD_TOKENS", Some(tokens.join("\n"))),
        ("LEASEHOLD_SLOT", slots.first().cloned()),
        ("LEASEHOLD_SLOTS", Some(slots.join(" ")).filter(|_| !slots.is_empty())),
        ("LEASEHOLD_OWNER", held.owner_of(name)),
        ("LEASEHOLD_DEADLINE_UNIX_MS", held.deadline_unix_ms().map(|ms| ms.to_string())),
        (HELD, Some(all)),
        (HELD_SLOTS, permits.or_else(inherited)),
        (STORE_VARIABLE, Some(passed_on(store.url()))),
    ]
}

/// Returns the store's URL for the command, from any source, unless it contains a password. Without
/// the variable an inner `leasehold` might lock in another store, where no other client looks.
fn passed_on(url: &str) -> String {
    match StoreUrl::parse(url) {
        Ok(parsed) if !parsed.has_credentials() => url.to_owned(),
        _ => WITHHELD.to_owned(),
    }
}

/// Returns true if an enclosing run holds this lock according to the environment.
pub(crate) fn is_nested(place: &str, name: &str) -> bool {
    match env::var(HELD) {
        Ok(all) => all.lines().any(|held| held == entry(place, name)),
        Err(_) => env::var(NAME).is_ok_and(|outer| outer == name),
    }
}

/// Returns the owners of the permits of this semaphore that enclosing runs had, and their numbers of slots, according to the
/// environment.
pub(crate) fn enclosing_permits(place: &str, name: &str) -> Vec<(String, u32)> {
    permits_in(&env::var(HELD_SLOTS).unwrap_or_default(), &entry(place, name))
}

fn permits_in(all: &str, entry: &str) -> Vec<(String, u32)> {
    let permit = |line: &str| {
        let (owner, rest) = line.split_once(' ')?;
        let (slots, of) = rest.split_once(' ')?;
        Some((owner.to_owned(), slots.parse().ok().filter(|_| of == entry)?))
    };
    all.lines().filter_map(permit).collect()
}

/// Adds a line to those of the permits, of which the last are kept.
fn with_permit(all: &str, line: &str) -> String {
    let lines: Vec<&str> = all.lines().filter(|line| !line.is_empty()).chain([line]).collect();
    lines[lines.len().saturating_sub(PERMITS)..].join("\n")
}

/// Adds these lines to `LEASEHOLD_HELD`, each line once: a job that starts its own next run must not
/// find its environment grown each time.
fn with(all: &str, entries: &[String]) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in all.lines().chain(entries.iter().map(String::as_str)) {
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// Returns one line of `LEASEHOLD_HELD`; neither part can contain a line end.
fn entry(place: &str, name: &str) -> String {
    format!("{place}#{name}")
}
