//! `docs/errors.md` lists the error messages that the sources contain.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::Violation;
use super::code::{code, code_outside_tests, strings};
use super::tree::Tree;
use crate::run::root;

const FILE: &str = "docs/errors.md";

/// The crates whose errors programs receive, and the file with the kinds of each.
const CRATES: [&str; 13] = [
    "core",
    "quorum",
    "redis",
    "sql",
    "etcd",
    "zookeeper",
    "file",
    "cache-redis",
    "cache",
    "filters",
    "once",
    "outbox",
    "",
];
const KINDS: [&str; 2] =
    ["crates/leasehold-core/src/error.rs", "crates/leasehold-cache-redis/src/error.rs"];

/// What to do about errors of a kind, beside what the message names.
const NEXT: [(&str, &str); 12] = [
    ("Invalid", "Correct the value that the message names. A retry fails in the same way."),
    (
        "Unsupported",
        "Use another engine, or do without the operation. A retry fails in the same way.",
    ),
    ("Timeout", "Try again, or wait longer. The message names the holder if it is known."),
    ("Lost", "Stop the work, and do not write. Acquire the lock again, which returns a new token."),
    ("Conflict", "Repeat the whole transaction."),
    ("Unavailable", "Check that the server runs and is reachable, and try again."),
    ("Refused", "Change what the message names at the server or in the URL."),
    ("Foreign", "Use another name or prefix, or a program of the same version."),
    ("Closed", "Open a new client."),
    ("Load", "Read the source of the error, which is the error of the loader."),
    ("Overloaded", "Try again later, or allow more loads."),
    ("Database", "Read the source of the error, which is the error of the database."),
];

/// Functions that make an error of a kind out of a message.
const MAKERS: [(&str, &str); 3] =
    [("invalid", "Invalid"), ("unavailable", "Unavailable"), ("unsupported", "Unsupported")];

/// Messages of one kind: the text, with the crates and the situations that it comes from.
type Messages = BTreeMap<String, BTreeSet<(String, String)>>;

/// Compares the messages of the document with those of the sources.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let listed = rows(tree.files.get(FILE).map_or("", String::as_str));
    let document = document(tree);
    let made = rows(&document);
    let violation = |message: &str, what: &str| {
        Violation::of(FILE, format!("{message} {what}"), "cargo xtask errors")
    };
    let missing = made.difference(&listed).map(|(_, row)| violation(row, "is not listed"));
    let gone = listed.difference(&made).map(|(_, row)| violation(row, "is not in the sources"));
    missing.chain(gone).collect()
}

/// Returns the kind and the message of each row.
fn rows(document: &str) -> BTreeSet<(&str, &str)> {
    let mut kind = "";
    let mut rows = BTreeSet::new();
    for line in document.lines() {
        kind = line.strip_prefix("## ").unwrap_or(kind);
        if let Some((message, _)) = line.strip_prefix("| ").and_then(|row| row.split_once("` | ")) {
            rows.insert((kind, message.trim_matches('`')));
        }
    }
    rows
}

/// Writes the document.
pub(crate) fn write() -> Result<(), String> {
    let text = document(&Tree::read()?);
    fs::write(root().join(FILE), text).map_err(|error| format!("cannot write {FILE}: {error}"))
}

/// Returns the document for these sources.
fn document(tree: &Tree) -> String {
    let mut kinds: BTreeMap<String, Messages> = BTreeMap::new();
    for (path, text) in tree.rust() {
        let Some(name) = crate_of(path) else { continue };
        for (kind, message, when) in messages(text) {
            kinds.entry(kind).or_default().entry(message).or_default().insert((name.clone(), when));
        }
    }
    let mut out = "# Error messages\n\nEach error has a kind, a message, and whether a retry can help. \
        This page lists the messages by kind. Parts in braces, and `…`, are values. Messages about a \
        store URL begin with `store URL:`. A message that several causes share is followed by the \
        server's own error.\n\n`cargo xtask errors` writes this page from the sources, and `cargo xtask tidy` \
        compares it with them.\n"
        .to_owned();
    for (kind, messages) in &kinds {
        let next = NEXT.iter().find(|(name, _)| name == kind).map_or("", |(_, next)| next);
        out += &format!("\n## {kind}\n\n{}\n\n**What to do.** {next}\n\n", meaning(tree, kind));
        out += "| message | what the code that returns it does | crate |\n|---|---|---|\n";
        for (message, places) in messages {
            let (crates, whens): (BTreeSet<&str>, BTreeSet<&str>) =
                places.iter().map(|(name, when)| (name.as_str(), when.as_str())).unzip();
            let joined = |set: BTreeSet<&str>| set.into_iter().collect::<Vec<_>>().join("<br>");
            out += &format!("| {} | {} | {} |\n", cell(message), joined(whens), joined(crates));
        }
    }
    out
}

/// Returns the short name of a crate whose errors are listed, for one of its sources.
fn crate_of(path: &str) -> Option<String> {
    let path = path.strip_prefix("crates/")?;
    let path = path.strip_prefix("engines/").unwrap_or(path);
    let (folder, file) = path.strip_prefix("leasehold")?.split_once("/src/")?;
    let name = folder.trim_start_matches('-');
    let listed = CRATES.contains(&name) && !file.ends_with("_tests.rs");
    listed.then(|| if name.is_empty() { "leasehold".to_owned() } else { name.to_owned() })
}

/// Returns what the documentation of a kind says, as one paragraph.
fn meaning(tree: &Tree, kind: &str) -> String {
    let variant = format!("    {kind},");
    let of = |file: &&str| {
        let text = tree.files.get(*file)?;
        let before = text.split_once("pub enum ErrorKind {")?.1.split_once(&variant)?.0;
        Some(docs_above(before))
    };
    plain(&KINDS.iter().find_map(of).unwrap_or_default())
}

/// Returns the kind, the text and the situation of each message in a source.
fn messages(source: &str) -> Vec<(String, String, String)> {
    let (code, outside) = (code(source), code_outside_tests(source));
    let mut found = Vec::new();
    for (start, end) in strings(source) {
        let text = unescaped(&source[start + 1..end.saturating_sub(1).max(start + 1)]);
        let is_sentence = text.split(' ').filter(|word| word.len() > 1).count() >= 3;
        let in_test = code[..start].trim_end().len() != outside[..start].trim_end().len();
        if !is_sentence || in_test {
            continue;
        }
        let Some(kind) = kind_at(&code, start).or_else(|| kind_of_name(&code, start)) else {
            continue;
        };
        found.push((kind, text, situation(source, start)));
    }
    found
}

/// Returns the kind that the expression around this place names before it.
fn kind_at(code: &str, at: usize) -> Option<String> {
    let before = &code[..at];
    let before = &before[before.rfind([';', '{', '}']).map_or(0, |end| end + 1)..];
    let before = before.rfind("=>").map_or(before, |arm| &before[arm..]);
    if let Some(kind) = before.rfind("ErrorKind::") {
        let kind = word(&before[kind + "ErrorKind::".len()..]);
        return is_kind(kind).then(|| kind.to_owned());
    }
    for (maker, kind) in MAKERS {
        let call = format!("{maker}(");
        if before.rfind(&call).is_some_and(|at| !before[..at].ends_with('_')) {
            return Some(kind.to_owned());
        }
    }
    let bare =
        |kind: &str| before.contains(&format!(" {kind},")) || before.contains(&format!("({kind},"));
    NEXT.iter().find(|(kind, _)| bare(kind)).map(|(kind, _)| (*kind).to_owned())
}

/// Returns the kind with which a constant or variable is used that this place gives a value.
fn kind_of_name(code: &str, at: usize) -> Option<String> {
    let before = &code[..at];
    let statement = before[before.rfind([';', '{', '}']).map_or(0, |end| end + 1)..].trim_start();
    let statement = statement.strip_prefix("pub(crate) ").unwrap_or(statement);
    let (keyword, rest) = statement.split_once(' ')?;
    let name = word(rest.trim_start_matches("mut "));
    if !["let", "const"].contains(&keyword) || name.is_empty() {
        return None;
    }
    // A variable is used after it, until its function ends; a constant anywhere.
    let (from, to) = match keyword {
        "let" => (at, end_of_function(code, at)),
        _ => (0, code.len()),
    };
    let uses = code[from..to].match_indices(name).map(|(found, _)| from + found);
    uses.filter(|found| *found != at).find_map(|found| {
        let is_word = word(&code[found..]) == name
            && !code[..found].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        is_word.then(|| kind_at(code, found)).flatten()
    })
}

/// Returns where the function around a place ends: at the brace with the indent of its first line.
fn end_of_function(code: &str, at: usize) -> usize {
    let begins = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        words.contains(&"fn")
    };
    let first = code[..at].lines().rev().find(begins).unwrap_or_default();
    let indent = &first[..first.len() - first.trim_start().len()];
    code[at..].find(&format!("\n{indent}}}")).map_or(code.len(), |end| at + end)
}

fn is_kind(word: &str) -> bool {
    NEXT.iter().any(|(kind, _)| *kind == word)
}

/// The identifier that the text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Returns the first sentence about the function or constant around a place, else about its file.
fn situation(source: &str, at: usize) -> String {
    let lines: Vec<&str> = source[..at].lines().collect();
    let is_item = |line: &&str| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub").map_or(line, |rest| rest.trim_start_matches("(crate)"));
        let line = line.trim_start_matches("(super)").trim_start();
        ["fn ", "async fn ", "const fn ", "const "].iter().any(|item| line.starts_with(item))
    };
    let item = lines.iter().rposition(is_item);
    let docs = item.map(|item| docs_above(&lines[..item].join("\n"))).unwrap_or_default();
    let docs = if docs.is_empty() {
        let file = source.lines().map_while(|line| line.strip_prefix("//!"));
        file.collect::<Vec<_>>().join(" ")
    } else {
        docs
    };
    let docs = plain(&docs);
    match docs.split_once(". ") {
        Some((first, _)) => first.to_owned(),
        None => docs.trim_end_matches('.').to_owned(),
    }
}

/// Returns the text of the documentation comment that these lines end with.
fn docs_above(lines: &str) -> String {
    let above = lines.lines().rev().skip_while(|line| line.trim_start().starts_with("#["));
    let mut docs: Vec<&str> =
        above.map_while(|line| line.trim_start().strip_prefix("///")).map(str::trim).collect();
    docs.reverse();
    docs.join(" ")
}

/// Returns documentation without its links, which lead nowhere from this page, on one line.
fn plain(docs: &str) -> String {
    let mut text = docs.replace("())", ")");
    while let Some(start) = text.find("](") {
        let end = text[start..].find(')').map_or(text.len(), |end| start + end + 1);
        text.replace_range(start..end, "");
    }
    let text = text.replace(['[', ']'], "").replace('|', "\\|");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a literal as people see it: on one line, with `…` for values without a name.
fn unescaped(literal: &str) -> String {
    let mut out = String::new();
    let mut rest = literal.replace("\\\"", "\"").replace("\\n", " ");
    while let Some((before, after)) = rest.split_once("\\\n") {
        rest = format!("{before}{}", after.trim_start());
    }
    let rest = rest.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let mut pieces = rest.split('{');
    out += pieces.next().unwrap_or_default();
    for piece in pieces {
        let (value, after) = piece.split_once('}').unwrap_or(("", piece));
        match word(value) {
            "" => out.push('…'),
            name => out += &format!("{{{name}}}"),
        }
        out += after;
    }
    out.replace('\u{1}', "{").replace('\u{2}', "}").trim().to_owned()
}

/// Returns a message as a cell of a table.
fn cell(message: &str) -> String {
    let fence = if message.contains('`') { "``" } else { "`" };
    format!("{fence}{}{fence}", message.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"//! Opens a door. It creaks.
/// Fails without a key. See [`Key`](crate::Key).
#[must_use]
pub(crate) fn open() -> Error {
    // Error::new(ErrorKind::Invalid, "not in a comment, though")
    let what = format!("the door {name:?} is \
                        locked ({})", 1);
    tracing::debug!("the door is not an error");
    Error::new(ErrorKind::Refused, what)
}

fn other() {
    match x {
        1 => (Timeout, "timed out at the door"),
        _ => invalid("no `door` is given".into()),
    }
}

#[cfg(test)]
mod tests { fn f() { Error::new(ErrorKind::Invalid, "only made by a test") } }
"#;

    #[test]
    fn messages_are_found_with_their_kind_and_situation() {
        let message = |kind: &str, text: &str, when: &str| {
            (kind.to_owned(), text.to_owned(), when.to_owned())
        };
        assert_eq!(
            messages(SOURCE),
            [
                message("Refused", "the door {name} is locked (…)", "Fails without a key"),
                message("Timeout", "timed out at the door", "Opens a door"),
                message("Invalid", "no `door` is given", "Opens a door"),
            ]
        );
    }

    #[test]
    fn a_page_that_lacks_a_message_is_a_violation() {
        let path = "crates/engines/leasehold-redis/src/a.rs";
        let page = document(&Tree::of([(path, SOURCE)]));
        assert!(
            page.contains("## Timeout") && page.contains("| ``no `door` is given`` |"),
            "{page}"
        );
        assert!(check(&Tree::of([(path, SOURCE), (FILE, &page)])).is_empty());
        let other = page.replace("is locked", "is open");
        let found = check(&Tree::of([(path, SOURCE), (FILE, &other)]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].to_string().contains("is locked"), "{}", found[0]);
        let moved = page.replace("Fails without a key", "Fails");
        assert!(check(&Tree::of([(path, SOURCE), (FILE, &moved)])).is_empty());
        let test = "crates/engines/leasehold-redis/src/a_tests.rs";
        assert!(check(&Tree::of([(path, SOURCE), (test, SOURCE), (FILE, &page)])).is_empty());
    }
}
