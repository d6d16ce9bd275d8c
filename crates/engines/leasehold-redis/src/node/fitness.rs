//! Whether a server can be a node of a quorum, by its `INFO`.

use std::time::Duration;

use leasehold_core::{Error, ErrorKind, Now};
use leasehold_quorum::Fitness;

use super::connection::Failure;

/// Clocks that differ by more than this cause a warning; with an hour, tokens are refused.
const FAR_MS: u64 = 10_000;

/// Returns a field of `INFO`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
}

/// What must be reported about a server, before its place is added.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    refusal: Option<Error>,
    warnings: Vec<String>,
    clock_ahead_ms: Option<i64>,
}

impl Verdict {
    /// Creates the verdict from the sections server, memory and replication, with the times of the
    /// request and of the answer.
    pub(crate) fn of(info: &str, asked: Now, came: Now) -> Self {
        let mut warnings = Vec::new();
        if field(info, "maxmemory_policy").is_none() {
            warnings.push(
                "INFO does not show whether it evicts keys; make sure that maxmemory-policy is \
                 noeviction"
                    .to_owned(),
            );
        }
        let server_us = field(info, "server_time_usec").and_then(|time| time.parse::<i64>().ok());
        let ours_us = (asked.unix_us() / 2 + came.unix_us() / 2) as i64;
        let clock_ahead_ms = server_us.map(|server_us| server_us.saturating_sub(ours_us) / 1000);
        if let Some(ahead_ms) = clock_ahead_ms.filter(|ms| ms.unsigned_abs() > FAR_MS) {
            let by = Duration::from_secs(ahead_ms.unsigned_abs() / 1000);
            let how = if ahead_ms > 0 { "ahead of" } else { "behind" };
            warnings.push(format!(
                "its clock is {by:?} {how} the local clock; tokens need clocks less than an hour apart"
            ));
        }
        Self { refusal: refusal(info), warnings, clock_ahead_ms }
    }

    /// The verdict without a connection: an operator must act only if the server refused the
    /// client.
    pub(super) fn of_no_connection(cause: Error) -> Self {
        let refused = matches!(cause.kind(), ErrorKind::Refused | ErrorKind::Unsupported);
        Self { refusal: refused.then_some(cause), ..Self::default() }
    }

    /// The verdict if the server does not answer INFO.
    pub(super) fn of_no_info(failure: Failure) -> Self {
        let forbidden =
            matches!(&failure, Failure::Answer(error) if error.code() == Some("NOPERM"));
        let refusal = forbidden.then(|| {
            let what = "the user may not call INFO, which shows which process answers; allow +info";
            Error::new(ErrorKind::Refused, what).with_source(failure.error())
        });
        Self { refusal, ..Self::default() }
    }

    /// Returns the verdict on the server at this place.
    pub(crate) fn at(self, place: &str) -> Fitness {
        let named = |error: Error| {
            Error::new(error.kind(), format!("node {place}: {}", error.message()))
                .with_source(error)
        };
        let warnings = self.warnings.iter().map(|warning| format!("node {place}: {warning}"));
        let mut fitness = Fitness::default();
        fitness.refusal = self.refusal.map(named);
        fitness.warnings = warnings.collect();
        fitness.clock_ahead_ms = self.clock_ahead_ms;
        fitness
    }
}

/// Returns why this server must not vote, by the sections server, memory and replication.
pub(super) fn refusal(info: &str) -> Option<Error> {
    let refused = |what: String| Some(Error::new(ErrorKind::Refused, what));
    if field(info, "run_id").is_none() {
        return refused(
            "INFO does not show which process answers (run_id); without it no client can detect whether \
             it has lost leases"
                .to_owned(),
        );
    }
    if field(info, "role").is_some_and(|role| role != "master") {
        return refused("the server is a replica, which cannot vote; name its master".to_owned());
    }
    match field(info, "maxmemory_policy") {
        Some("noeviction") | None => None,
        Some(policy) => refused(format!(
            "maxmemory-policy is {policy}, so the server may delete leases; set \
             maxmemory-policy noeviction"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "# Server\r\nrun_id:1\r\nserver_time_usec:1000000000000\r\nrole:master\r\n\
                         maxmemory_policy:noeviction\r\n";

    fn at(seconds: u64) -> Now {
        Now { steady_ns: 0, wall_ns: seconds * 1_000_000_000 }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        let now = at(1_000_000);
        assert!(Verdict::of(SOUND, now, now).refusal.is_none());
        for (from, to, says) in [
            ("noeviction", "allkeys-lru", "set maxmemory-policy noeviction"),
            ("role:master", "role:slave", "name its master"),
            ("run_id", "x", "run_id"),
        ] {
            let refusal = Verdict::of(&SOUND.replace(from, to), now, now).refusal.unwrap();
            assert!(refusal.to_string().contains(says), "{refusal}");
            assert_eq!(refusal.kind(), ErrorKind::Refused);
        }
    }

    #[test]
    fn what_cannot_be_seen_and_a_clock_far_off_are_warnings() {
        let says = |info: &str, seconds, says: &str| {
            let Verdict { refusal, warnings, .. } = Verdict::of(info, at(seconds), at(seconds));
            assert!(refusal.is_none());
            assert_eq!(warnings.len(), usize::from(!says.is_empty()), "{warnings:?}");
            assert!(warnings.iter().all(|warning| warning.contains(says)), "{warnings:?}");
        };
        says(SOUND, 1_000_009, "");
        says(SOUND, 999_000, "1000s ahead of");
        says(SOUND, 1_000_060, "60s behind");
        says(&SOUND.replace("maxmemory_policy", "x"), 1_000_000, "noeviction");
    }
}
