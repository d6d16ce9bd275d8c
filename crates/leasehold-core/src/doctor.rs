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
        self.problem("refused", error.message(), why, "see what the error says");
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
