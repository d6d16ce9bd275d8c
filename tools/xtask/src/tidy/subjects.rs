//! Commit subjects have the form `area: imperative` and at most 72 characters.

use std::path::Path;
use std::process::Command;

use super::Violation;
use super::tree::Tree;
use crate::run::{quiet, root};

/// How many commits are checked. A first commit to begin with would be lost when a history is written again.
const LATEST: &str = "-50";

/// The longest subject, in characters.
const LONGEST: usize = 72;

/// Checks the latest commits, except merges. Without the history, as in an exported tree, there is
/// nothing to check: see [`left_out`].
pub(super) fn check(_: &Tree) -> Vec<Violation> {
    log(&root()).map(|log| judge(&log)).unwrap_or_default()
}

/// Returns a note if there is no history whose subjects could be checked.
pub(super) fn left_out() -> Option<&'static str> {
    left_out_in(&root())
}

fn left_out_in(root: &Path) -> Option<&'static str> {
    let is_missing = log(root).map_or(true, |log| log.is_empty());
    is_missing.then_some("commit subjects not checked: no git history")
}

fn log(root: &Path) -> Result<String, String> {
    let args = ["log", LATEST, "--no-merges", "--format=%h %s", "--"];
    quiet(Command::new("git").current_dir(root).args(args))
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
    fn a_tree_without_history_is_named() {
        let exported = tempfile::tempdir().unwrap();
        assert!(left_out_in(exported.path()).unwrap().contains("no git history"));
        let (git, dir) = (|| Command::new("git"), exported.path());
        quiet(git().current_dir(dir).args(["init", "-q"])).unwrap();
        assert!(left_out_in(dir).is_some());
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let commit = ["commit", "-q", "--allow-empty", "-m", "docs: begin"];
        quiet(git().current_dir(dir).args(who).args(commit)).unwrap();
        assert_eq!(left_out_in(dir), None);
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
}
