//! Commit subjects have the form `area: imperative` and at most 72 characters.

use std::process::Command;

use super::Violation;
use super::tree::Tree;
use crate::run::{quiet, root};

/// The last commit before the rule; only later ones are checked.
const START: &str = "a16246acddf5576c0fc15f0eb474fe40a4bb8354";

/// The longest subject, in characters.
const LONGEST: usize = 72;

/// Checks the commits since the rule's introduction, except merges. Without the history, as in a
/// shallow clone or an exported tree, there is nothing to check.
pub(super) fn check(_: &Tree) -> Vec<Violation> {
    log_since(START).map(|log| judge(&log)).unwrap_or_default()
}

/// Returns hash and subject of each commit after `start`, one per line; `None` if the history is
/// not available.
fn log_since(start: &str) -> Option<String> {
    let range = format!("{start}..HEAD");
    let args = ["log", "--no-merges", "--format=%h %s", range.as_str(), "--"];
    quiet(Command::new("git").current_dir(root()).args(args)).ok()
}

fn judge(log: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for line in log.lines() {
        let (hash, subject) = line.split_once(' ').unwrap_or((line, ""));
        let mut add = |what: String, next: &str| {
            found.push(Violation::of(&format!("commit {hash}"), what, next));
        };
        let length = subject.chars().count();
        if length > LONGEST {
            let what = format!("its subject has {length} characters, more than {LONGEST}");
            add(what, "shorten the subject (git commit --amend); the body has room for the rest");
        }
        if !has_form(subject) {
            let what = format!("its subject {subject:?} does not have the form `area: imperative`");
            add(what, "write it like `redis: cap dead waiters removed per call`");
        }
    }
    found
}

/// Returns true for an area in lower case, a colon, a blank, and a text that begins in lower case
/// and has no full stop at its end.
fn has_form(subject: &str) -> bool {
    let Some((area, text)) = subject.split_once(": ") else { return false };
    let in_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/., ".contains(c);
    let begins = |text: &str| text.starts_with(|c: char| !c.is_whitespace() && !c.is_uppercase());
    begins(area) && area.chars().all(in_area) && begins(text) && !text.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_of_the_right_form_pass() {
        let log = "1 redis: cap dead waiters removed per call\n\
                   2 sql, redis: bring tests up to date\n\
                   3 docs: name `file:` where it was missing\n";
        assert!(judge(log).is_empty(), "{:?}", judge(log));
        let longest = format!("4 core: {}", "x".repeat(LONGEST - "core: ".len()));
        assert!(judge(&longest).is_empty());
    }

    #[test]
    fn other_subjects_are_found() {
        for subject in [
            "Say what two runs gave",
            "Redis: cap dead waiters",
            "redis: Cap dead waiters",
            "redis: cap dead waiters.",
            "redis:cap dead waiters",
            "redis: ",
            ": cap dead waiters",
            "",
        ] {
            let found = judge(&format!("1a2b {subject}"));
            assert_eq!(found.len(), 1, "{subject:?}");
            assert_eq!(found[0].file, "commit 1a2b");
        }
        let long = format!("1 core: {}", "é".repeat(LONGEST - "core: ".len() + 1));
        assert!(judge(&long)[0].to_string().contains("73 characters"));
    }

    #[test]
    fn a_tree_without_the_history_is_left_out() {
        assert_eq!(log_since("0123456789012345678901234567890123456789"), None);
    }
}
