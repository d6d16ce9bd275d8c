//! Comments, string literals and pages use plain technical English.

use std::collections::{BTreeMap, BTreeSet};

use super::code::code;
use super::markdown::{spans, split};
use super::tree::Tree;
use super::{Violation, errors, messages};

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

/// Also refused in comments and on pages. In strings it may be the name of a user.
const IN_COMMENTS: (&str, &str) = ("nobody", "write `no client`, `no waiter` or another actor");

const ACTOR: &str = "name the actor: the client, the holder, a waiter, another process";
const NOTIFIED: &str = "write `is notified`, `receives` or `returns`";

/// This file, which has to name the words.
const THIS: &str = "tools/xtask/src/tidy/words.rs";

/// Documents outside `docs/` that are pages for readers. Records (decisions, evidence, results, the changelog) keep
/// the words of their time.
const PAGES: [&str; 4] = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"];

/// Checks comments, string literals, pages and translated messages.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        if path == THIS {
            continue;
        }
        let Some(prose) = prose(path, text) else { continue };
        let joined = Joined::new(&prose.to_ascii_lowercase());
        for (word, next) in WORDS {
            found.extend(joined.lines_with(word).map(|line| refused(path, line, word, next)));
        }
        let (word, next) = IN_COMMENTS;
        let is_text = |line: &usize| {
            let line = text.lines().nth(line - 1).unwrap_or_default().trim_start();
            line.starts_with("//") || path.ends_with(".md") || path.ends_with(".lua")
        };
        let lines = joined.lines_with(word).filter(is_text);
        found.extend(lines.map(|line| refused(path, line, word, next)));
    }
    found
}

fn refused(path: &str, line: usize, word: &str, next: &str) -> Violation {
    Violation::at(path, line, format!("`{word}` is not plain technical English"), next)
}

/// Returns what people read in a file, with everything else blanked out; lines stay. `None` for other files.
fn prose(path: &str, text: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.')?.1 {
        "rs" => Some(in_rust(text)),
        "lua" => Some(lines(text.lines().map(|line| line.split_once("--").map_or("", |it| it.1)))),
        "roff" => Some(text.to_owned()),
        "txt" if path.starts_with(messages::LISTS) || path == errors::TEXTS => {
            Some(text.to_owned())
        }
        "md" if PAGES.contains(&name) || is_page(path) => Some(in_markdown(text)),
        _ => None,
    }
}

/// Whether it is a page in English of the folder `docs` itself. The list of messages has texts of the sources.
fn is_page(path: &str) -> bool {
    path.strip_prefix("docs/").is_some_and(|page| !page.contains('/') && page != "errors.md")
}

/// Returns the comments and literals of a source.
fn in_rust(source: &str) -> String {
    let code = code(source);
    let kept = |(byte, code): (u8, u8)| if code == b' ' || byte == b'\n' { byte } else { b' ' };
    let bytes: Vec<u8> = source.bytes().zip(code.bytes()).map(kept).collect();
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns a document without its code.
fn in_markdown(text: &str) -> String {
    let prose: BTreeMap<usize, &str> = split(text).0.into_iter().collect();
    let line = |index| prose.get(&(index + 1)).map(|line| spans(line).0).unwrap_or_default();
    lines((0..text.lines().count()).map(line))
}

fn lines<T: AsRef<str>>(lines: impl Iterator<Item = T>) -> String {
    lines.map(|line| format!("{}\n", line.as_ref())).collect()
}

/// A text whose lines are joined to paragraphs, so that a phrase is found that a line end breaks.
struct Joined {
    text: String,
    /// Where each line starts in the text.
    starts: Vec<usize>,
}

impl Joined {
    fn new(prose: &str) -> Self {
        let (mut text, mut starts) = (String::new(), Vec::new());
        for line in prose.lines() {
            starts.push(text.len());
            // What the continued line of a comment, of a literal or of a quote begins or ends with.
            let line = line.trim().trim_start_matches(['/', '!', '-', '>', '#']).trim_start();
            let line = line.trim_end_matches('\\').trim_end();
            text.push_str(line);
            text.push(if line.is_empty() { '\n' } else { ' ' });
        }
        Self { text, starts }
    }

    /// Returns the lines, counted from 1, in which the phrase begins and is not part of longer words.
    fn lines_with<'a>(&'a self, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        let found = self.text.match_indices(phrase).map(|(at, _)| at);
        let whole = move |at: &usize| {
            !self.text[..*at].ends_with(inside)
                && !self.text[at + phrase.len()..].starts_with(inside)
        };
        let lines = found.filter(whole).map(|at| self.starts.partition_point(|start| *start <= at));
        lines.collect::<BTreeSet<_>>().into_iter()
    }
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
    fn a_phrase_that_a_line_end_breaks_is_found() {
        for broken in [
            "/// The client is\n/// told of it.\n",
            "    let a = \"the client is \\\n        told of it\";\n",
            "// it stands\n// still\n",
        ] {
            assert_eq!(check(&Tree::of([("a.rs", broken)])).len(), 1, "{broken}");
        }
        let apart = "// The client is\n\n// told of it, and what it is\nlet told = 1;\n";
        assert!(check(&Tree::of([("a.rs", apart)])).is_empty());
    }

    #[test]
    fn pages_scripts_manuals_and_translations_are_read() {
        let of = |path: &str, text: &str| {
            let found = check(&Tree::of([(path, text)]));
            found.iter().filter_map(|violation| violation.line).collect::<Vec<_>>()
        };
        let page = "# A\n\nNobody waits; it is\ntold `whoever` it is.\n\n```\nsomebody\n```\n";
        assert_eq!(of("docs/a.md", page), [3, 3]);
        assert_eq!(of("crates/a/README.md", page), [3, 3]);
        assert!(of("docs/decisions/0001-a.md", page).is_empty());
        assert!(of("docs/errors.md", page).is_empty());
        assert_eq!(of("a.lua", "local NOBODY = somebody\n-- somebody\nx() -- nobody\n"), [2, 3]);
        assert_eq!(of("a.roff", ".SH A\nwhoever waits\n"), [2]);
        let list = format!("{}a.txt", messages::LISTS);
        assert_eq!(of(&list, "it is told\n已通知\n"), [1]);
        assert_eq!(of(errors::TEXTS, "when: Somebody waits.\n"), [1]);
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
