//! The results of a diagnosis: findings that can harm locks, and what could not be checked.

use crate::Error;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// For information; nothing needs to change.
    Note,
    /// Locks work, but will fail if something else goes wrong.
    Warning,
    /// Locks do not work here, or may be lost without any other failure.
    Problem,
}

/// One finding that can harm locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// A short, stable id for scripts, such as `eviction`.
    pub id: &'static str,
    /// The server or directory, without secrets.
    pub place: String,
    /// What was found.
    pub what: String,
    /// Why it harms locks.
    pub why: String,
    /// What to change; empty for some notes.
    pub change: String,
}

/// Something that could not be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unseen {
    /// The server or directory, without secrets.
    pub place: String,
    /// What should have been checked.
    pub what: String,
    /// Why it could not be checked, and what would help.
    pub why: String,
}

/// With less space than this (bytes, files) a disk cannot store the record of a lock.
const FULL: (u64, u64) = (64 << 10, 4);

/// With less space than this the disk is nearly full.
const SCARCE: (u64, u64) = (16 << 20, 1000);

/// The result of a diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The findings; the worst come first after [`sorted`](Self::sorted).
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub unseen: Vec<Unseen>,
    place: String,
}

impl Diagnosis {
    /// Creates an empty result for this place; later findings belong to it.
    pub fn at(place: impl Into<String>) -> Self {
        Self { place: place.into(), ..Self::default() }
    }

    /// Adds a [`Severity::Problem`]: its id, what was found, why it harms locks, what to change.
    pub fn problem(
        &mut self,
        id: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        change: impl Into<String>,
    ) {
        self.add(Severity::Problem, id, what.into(), why.into(), change.into());
    }

    /// Adds a [`Severity::Warning`] with the same parts.
    pub fn warning(
        &mut self,
        id: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        change: impl Into<String>,
    ) {
        self.add(Severity::Warning, id, what.into(), why.into(), change.into());
    }

    /// Adds a [`Severity::Note`] with the same parts.
    pub fn note(
        &mut self,
        id: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        change: impl Into<String>,
    ) {
        self.add(Severity::Note, id, what.into(), why.into(), change.into());
    }

    /// Adds the problem that a client cannot use the store, with the error that the client gets.
    pub fn refused(&mut self, error: &Error) {
        let why = "every client that connects gets this error, so no client can use locks here";
        let text = error.message();
        let change = match (text.contains("NOAUTH"), text.contains("WRONGPASS")) {
            (true, _) => {
                "put the password into the URL (scheme://:PASSWORD@host), or name its file with the \
                 option password-file"
            }
            (_, true) => "correct the user and the password in the URL or in password-file",
            _ => "do what the error message says",
        };
        self.problem("refused", text, why, change);
    }

    /// Adds a finding if the file system is full or nearly full. The arguments are the bytes and
    /// the files that this user may still write; `files` is `None` if the file system has no fixed
    /// number of files.
    pub fn room(&mut self, bytes: u64, files: Option<u64>) {
        let is_below =
            |least: (u64, u64)| bytes < least.0 || files.is_some_and(|all| all < least.1);
        if !is_below(SCARCE) {
            return;
        }
        let files = files.map(|files| format!(" and {files} files")).unwrap_or_default();
        let room = format!("{} KiB{files} are left", bytes / 1024);
        let change = "free some space";
        if is_below(FULL) {
            let why = "the store cannot write the record of a lock, so every acquire fails";
            self.problem("room", format!("the disk is full: {room}"), why, change);
        } else {
            let why = "an acquire writes a record to the disk, and fails on a full disk";
            self.warning("room", room, why, change);
        }
    }

    /// Adds the problem that records are damaged, and the warning that a newer version has written records; the
    /// arguments are their names. Nothing is added for no names.
    pub fn unreadable(&mut self, damaged: &[String], newer: &[String]) {
        if !damaged.is_empty() {
            self.problem(
                "damaged",
                format!("records cannot be read, those of {}", few(damaged)),
                "these locks are refused until an operator repairs them: a guess could give a token twice",
                "see `leasehold status NAME` for each",
            );
        }
        if !newer.is_empty() {
            self.warning(
                "newer",
                format!(
                    "a newer version of leasehold has written records, those of {}",
                    few(newer)
                ),
                "this version refuses these names",
                "use the newer version here too",
            );
        }
    }

    /// Adds something that could not be checked, with the reason.
    pub fn unseen(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let place = self.place.clone();
        self.unseen.push(Unseen { place, what: what.into(), why: why.into() });
    }

    /// Adds the result of another place.
    pub fn join(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.unseen.extend(other.unseen);
    }

    /// Returns the worst severity found; `None` if nothing was found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// Returns the same result with the worst findings first.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self
    }

    fn add(
        &mut self,
        severity: Severity,
        id: &'static str,
        what: String,
        why: String,
        change: String,
    ) {
        let place = self.place.clone();
        self.findings.push(Finding { severity, id, place, what, why, change });
    }
}

/// Formats the first names, quoted, and the number of the others.
pub fn few(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let first: Vec<_> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_problem_and_a_nearly_full_one_a_warning() {
        let found = |bytes, files| {
            let mut diagnosis = Diagnosis::at("here");
            diagnosis.room(bytes, files);
            diagnosis.worst()
        };
        for (bytes, files, severity) in [
            (0, None, Some(Severity::Problem)),
            (1 << 30, Some(0), Some(Severity::Problem)),
            (1 << 20, None, Some(Severity::Warning)),
            (1 << 30, Some(999), Some(Severity::Warning)),
            (1 << 30, Some(1 << 20), None),
            (1 << 30, None, None),
        ] {
            assert_eq!(found(bytes, files), severity, "{bytes} bytes, {files:?} files");
        }
    }

    #[test]
    fn the_worst_comes_first_and_each_keeps_its_place() {
        let mut one = Diagnosis::at("one");
        assert_eq!(one.worst(), None);
        one.note("a", "", "", "");
        let mut two = Diagnosis::at("two");
        two.problem("b", "", "", "");
        two.unseen("c", "");
        one.join(two);
        one.warning("d", "", "", "");
        assert_eq!(one.worst(), Some(Severity::Problem));
        let sorted = one.sorted();
        let found: Vec<_> = sorted.findings.iter().map(|f| (f.id, f.place.as_str())).collect();
        assert_eq!(found, [("b", "two"), ("d", "one"), ("a", "one")]);
        assert_eq!(sorted.unseen[0].place, "two");
    }
}
