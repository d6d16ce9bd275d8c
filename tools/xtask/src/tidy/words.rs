//! Comments and string literals use plain technical English.

use super::Violation;
use super::code::{code, lines_with};
use super::tree::Tree;

/// Refused words, with what to write instead.
const WORDS: [(&str, &str); 17] = [
    ("somebody", ACTOR),
    ("anybody", ACTOR),
    ("everybody", ACTOR),
    ("whoever", ACTOR),
    ("not to be had", "write that the lock is held or not available, or `timed out`"),
    ("is to be had", "write `is available` or `can be acquired`"),
    ("is had", "write `is held` or `is acquired`"),
    ("be had", "write `be acquired` or `is available`"),
    ("stands still", "write `is paused`, `is stopped` or `does not advance`"),
    ("stand still", "write `pause`, `stop` or `do not advance`"),
    ("is told", NOTIFIED),
    ("are told", NOTIFIED),
    ("hears of", "write `is notified of`, `receives` or `detects`"),
    ("hear of", "write `are notified of`, `receive` or `detect`"),
    ("lets in", "write `admits`, `accepts` or `grants`"),
    ("let in", "write `admit`, `accept` or `grant`"),
    ("of old", "write `earlier` or `previous`"),
];

/// Also refused on comment lines. In strings it may be the name of a user.
const IN_COMMENTS: (&str, &str) = ("nobody", "write `no client`, `no waiter` or another actor");

const ACTOR: &str = "name the actor: the client, the holder, a waiter, another process";
const NOTIFIED: &str = "write `is notified`, `receives` or `returns`";

/// This file, which has to name the words.
const THIS: &str = "tools/xtask/src/tidy/words.rs";

/// Checks the comments and string literals of all Rust sources.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.rust() {
        if path == THIS {
            continue;
        }
        let prose = prose(text).to_ascii_lowercase();
        for (word, next) in WORDS {
            found.extend(lines_with(&prose, word).map(|line| refused(path, line, word, next)));
        }
        let (word, next) = IN_COMMENTS;
        let is_comment = |line: &usize| {
            text.lines().nth(line - 1).is_some_and(|line| line.trim_start().starts_with("//"))
        };
        let lines = lines_with(&prose, word).filter(is_comment);
        found.extend(lines.map(|line| refused(path, line, word, next)));
    }
    found
}

fn refused(path: &str, line: usize, word: &str, next: &str) -> Violation {
    Violation::at(path, line, format!("`{word}` is not plain technical English"), next)
}

/// Returns the source with everything but comments and literals blanked out; lines stay.
fn prose(source: &str) -> String {
    let code = code(source);
    let kept = |(byte, code): (u8, u8)| if code == b' ' || byte == b'\n' { byte } else { b' ' };
    let bytes: Vec<u8> = source.bytes().zip(code.bytes()).map(kept).collect();
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
/// Somebody holds it.
fn somebody() { say(\"the client is told of it\"); }
// A word that is part of another one: somebodys, dis told.
let is_had = x; // nobody waits
// No client waits; nobody else does.
let user = \"nobody\"; let name = \"名字 whoever\";
";

    fn lines(path: &str) -> Vec<usize> {
        let found = check(&Tree::of([(path, LINES)]));
        let mut lines: Vec<_> = found.iter().filter_map(|violation| violation.line).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn words_are_found_in_comments_and_strings_and_not_in_code() {
        assert_eq!(lines("crates/leasehold/src/lib.rs"), [1, 2, 5, 6]);
        assert_eq!(lines("crates/engines/leasehold-file/tests/file/main.rs"), [1, 2, 5, 6]);
    }

    #[test]
    fn the_list_of_words_is_left_out() {
        assert!(lines(THIS).is_empty());
    }

    #[test]
    fn a_violation_names_a_better_word() {
        let found = check(&Tree::of([("a.rs", "// it stands still\n")]));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("is paused"), "{}", found[0]);
    }
}
