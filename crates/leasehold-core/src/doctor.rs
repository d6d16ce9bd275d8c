//! What an engine can say of a store that hurts locks: findings, and what could not be looked at.

use crate::Error;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know; nothing needs to be changed.
    Note,
    /// Locks work, and will not when something else goes wrong.
    Warning,
    /// Locks do not work here, or may be lost without anything else going wrong.
    Problem,
}

/// One thing that can hurt locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// A short word for scripts that stays the same, such as `eviction`.
    pub id: &'static str,
    /// Which server or directory, without secrets.
    pub place: String,
    /// What is so.
    pub what: String,
    /// Why it hurts locks.
    pub why: String,
    /// What to change; empty for some notes.
    pub change: String,
}

/// What could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Which server or directory, without secrets.
    pub place: String,
    /// What was to be looked at.
    pub what: String,
    /// Why it could not be, and what would help.
    pub why: String,
}

/// With less room than this for bytes, or for files, no record of a lock fits.
const FULL: (u64, u64) = (64 << 10, 4);

/// With less room than this the disk is soon full.
const SCARCE: (u64, u64) = (16 << 20, 1000);

/// What has come of an examination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// What was found, the worst first once [`sorted`](Self::sorted).
    pub findings: Vec<Finding>,
    /// What could not be looked at.
    pub unseen: Vec<Unseen>,
    place: String,
}

impl Examined {
    /// Nothing found yet at this place; what is added is said of it.
    pub fn at(place: impl Into<String>) -> Self {
        Self { place: place.into(), ..Self::default() }
    }

    /// Adds a [`Severity::Problem`]: its id, what is so, why it hurts, what to change.
    pub fn problem(
        &mut self,
        id: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        change: impl Into<String>,
    ) {
        self.add(Severity::Problem, id, what.into(), why.into(), change.into());
    }

    /// Adds a [`Severity::Warning`].
    pub fn warning(
        &mut self,
        id: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        change: impl Into<String>,
    ) {
        self.add(Severity::Warning, id, what.into(), why.into(), change.into());
    }

    /// Adds a [`Severity::Note`].
    pub fn note(
        &mut self,
        id: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        change: impl Into<String>,
    ) {
        self.add(Severity::Note, id, what.into(), why.into(), change.into());
    }

    /// Adds the problem that a client cannot use the store, by the error that it is told.
    pub fn refused(&mut self, error: &Error) {
        let why = "a client that connects is refused like this, so that there are no locks here";
        let text = error.message();
        let change = match (text.contains("NOAUTH"), text.contains("WRONGPASS")) {
            (true, _) => {
                "put the password into the URL (scheme://:PASSWORD@host), or name its file with the \
                 option password-file"
            }
            (_, true) => "correct the user and the password in the URL or in password-file",
            _ => "see what the error says",
        };
        self.problem("refused", text, why, change);
    }

    /// Adds that the file system is full, or soon will be, if so: the bytes that this user may still write,
    /// and the files; `None` where the file system makes room for files as it needs them.
    pub fn room(&mut self, bytes: u64, files: Option<u64>) {
        let is_below =
            |least: (u64, u64)| bytes < least.0 || files.is_some_and(|all| all < least.1);
        if !is_below(SCARCE) {
            return;
        }
        let files = files.map(|files| format!(" and {files} files")).unwrap_or_default();
        let room = format!("there is room for {} KiB{files}", bytes / 1024);
        let change = "free some space";
        if is_below(FULL) {
            let why = "the store cannot write the record of a lock, and refuses each acquire";
            self.problem("room", format!("the disk is full: {room}"), why, change);
        } else {
            let why =
                "a lock is granted when its record is on the disk; on a full one it is refused";
            self.warning("room", room, why, change);
        }
    }

    /// Adds what could not be looked at, and why.
    pub fn unseen(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let place = self.place.clone();
        self.unseen.push(Unseen { place, what: what.into(), why: why.into() });
    }

    /// Adds what came of another place.
    pub fn join(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.unseen.extend(other.unseen);
    }

    /// The worst that was found; `None` when nothing was.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// The same with the worst findings first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_problem_and_a_nearly_full_one_a_warning() {
        let found = |bytes, files| {
            let mut examined = Examined::at("here");
            examined.room(bytes, files);
            examined.worst()
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
        let mut one = Examined::at("one");
        assert_eq!(one.worst(), None);
        one.note("a", "", "", "");
        let mut two = Examined::at("two");
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
