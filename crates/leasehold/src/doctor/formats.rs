//! What a diagnosis says about locks in the format of another library.

use leasehold_core::doctor::Diagnosis;

/// What is weaker than without the option, for each format.
const WEAKER: &[(&str, &str)] = &[
    (
        "concurrency",
        "a lock also waits for keys of longer names, and a key without a lease blocks it until an operator deletes it",
    ),
    (
        "curator",
        "any other node below the path blocks the lock, and the programs of the library learn of a loss late",
    ),
    (
        "flock",
        "no time ends such a lock: a holder that is stopped keeps it; there is no order among waiters",
    ),
    (
        "kazoo",
        "the programs of the library learn of a loss late or never, and its reader can block with a writer for ever",
    ),
    (
        "redisson",
        "holders of the library take no fencing token, there is no order among libraries, and a ttl is 30 s at most",
    ),
    (
        "rueidis",
        "the library counts the ends of leases by its clients' clocks, its holders have no fencing token and may take a lock by \
         force, and there is no order among libraries",
    ),
    (
        "set-nx",
        "holders of other libraries have no fencing token and may set no expiry, and there is no order among libraries",
    ),
    (
        "shedlock",
        "programs without usingDbTime() are not excluded, waiters poll, and holders of ShedLock have no fencing token",
    ),
];

/// Adds the format of the locks, and what is weaker with it. An unknown format was refused before.
pub(super) fn note(diagnosis: &mut Diagnosis, place: &str, format: &str, is_also: bool) {
    let Some((format, weaker)) = WEAKER.iter().find(|(known, _)| *known == format) else { return };
    let mut found = Diagnosis::at(place);
    match is_also {
        false if place.starts_with("redlock") => found.note(
            "format",
            format!("locks have the format {format} of other libraries"),
            *weaker,
            "when no program of the other library is left, stop all clients, and start them without the option five minutes later",
        ),
        false => found.note(
            "format",
            format!("locks have the format {format} of other libraries"),
            *weaker,
            "when no program of the other library is left, move to also and then to no option: docs/migrating.md",
        ),
        true => found.note(
            "format",
            format!("clients hold each lock twice, also in the format {format} of other libraries"),
            *weaker,
            "when all clients have also, leave it out, one client after the other: docs/migrating.md",
        ),
    }
    diagnosis.join(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_is_one_that_the_store_has() {
        let change = |place: &str, format: &str, is_also: bool| {
            let mut found = Diagnosis::at(place);
            note(&mut found, place, format, is_also);
            found.findings.remove(0).change
        };
        assert!(change("redis://one", "set-nx", false).contains("move to also"));
        assert!(change("redis://one", "rueidis", false).contains("move to also"));
        assert!(change("redis://one", "set-nx", true).contains("leave it out"));
        let change = change("redlock://one,two,three", "set-nx", false);
        assert!(!change.contains("also") && change.contains("five minutes"), "{change}");
    }
}
