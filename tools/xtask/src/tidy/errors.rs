//! `docs/errors.md` lists the error messages of the sources, with when they occur and what to do.

mod entries;
mod found;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use self::entries::Entries;
pub(super) use self::entries::FILE as TEXTS;
use self::found::{Found, KINDS};
use super::Violation;
use super::tree::Tree;
use crate::run::root;

const FILE: &str = "docs/errors.md";

/// The crates whose errors people see, as the page names them, in the order of the page.
const CRATES: [&str; 16] = [
    "leasehold",
    "core",
    "proto",
    "redis",
    "quorum",
    "etcd",
    "zookeeper",
    "sql",
    "file",
    "cache",
    "cache-redis",
    "filters",
    "once",
    "outbox",
    "serve",
    "cli",
];

/// The files with the documentation of the kinds.
const KINDS_IN: [&str; 2] =
    ["crates/leasehold-core/src/error.rs", "crates/leasehold-cache-redis/src/error.rs"];

/// The file with the exit codes of the command.
const CODES_IN: &str = "crates/leasehold-cli/src/failure.rs";

/// How a part of a message begins that says what to do.
const ADVICE: [&str; 62] = [
    "acquire",
    "add",
    "agree",
    "allow",
    "assign",
    "ask",
    "begin",
    "call",
    "change",
    "check",
    "choose",
    "compact",
    "correct",
    "create",
    "delete",
    "disarm",
    "do",
    "enable",
    "end",
    "extend",
    "find",
    "free",
    "give",
    "grant",
    "install",
    "keep",
    "lock",
    "make",
    "move",
    "name",
    "open",
    "percent-encode",
    "pass",
    "put",
    "raise",
    "read",
    "rebuild",
    "release",
    "remove",
    "renew",
    "repair",
    "repeat",
    "reset",
    "restart",
    "restore",
    "run",
    "see",
    "send",
    "set",
    "show",
    "split",
    "start",
    "take",
    "try",
    "unset",
    "update",
    "upgrade",
    "use",
    "wait",
    "write",
    "reinstall",
    "stop",
];

/// As many words of advice, or fewer, need the whole message: `raise it`.
const FEW: usize = 3;

/// Words by which a part of a message says which values are allowed.
const ALLOWED: [&str; 4] = ["allowed", "at most", "at least", "is needed"];

/// A message as the page shows it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    message: String,
    kind: String,
    when: String,
    next: String,
}

/// Checks that each message has an entry, that each entry has a message, and that the page shows them.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(texts) = tree.files.get(TEXTS) else { return Vec::new() };
    let entries = Entries::parse(texts);
    let (rows, mut violations) = rows(tree, &entries);
    let document = document(tree, &rows);
    let page = tree.files.get(FILE).map_or("", String::as_str);
    let lines = |text: &'_ str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (made, shown) = (lines(&document), lines(page));
    let mut differ = |what: &str, line: &String| {
        violations.push(Violation::of(FILE, format!("{line} {what}"), "cargo xtask errors"));
    };
    made.difference(&shown).for_each(|line| differ("is not on the page", line));
    shown.difference(&made).for_each(|line| differ("is on the page, but no longer true", line));
    violations
}

/// Writes the page.
pub(crate) fn write() -> Result<(), String> {
    let tree = Tree::read()?;
    let entries = Entries::parse(tree.files.get(TEXTS).map_or("", String::as_str));
    let text = document(&tree, &rows(&tree, &entries).0);
    fs::write(root().join(FILE), text).map_err(|error| format!("cannot write {FILE}: {error}"))
}

/// Returns the messages of each crate, and what is missing.
fn rows(tree: &Tree, entries: &Entries) -> (BTreeMap<&'static str, BTreeSet<Row>>, Vec<Violation>) {
    let (mut rows, mut violations) = (BTreeMap::<_, BTreeSet<Row>>::new(), Vec::new());
    let mut used = BTreeSet::new();
    for &(line, what) in &entries.bad {
        violations.push(Violation::at(TEXTS, line, what, "see the top of the file"));
    }
    for (path, source) in tree.rust() {
        let Some(name) = crate_of(path) else { continue };
        let left_out = entries.not_in.iter().filter(|pattern| pattern.matches(path));
        used.extend(left_out.map(|pattern| pattern.line));
        for found in found::texts(source) {
            let not = entries.not.iter().filter(|pattern| pattern.matches(&found.text));
            used.extend(not.map(|pattern| pattern.line));
            if entries.is_no_message(&found.text)
                || (found.kind.is_none() && entries.leaves_out(path))
            {
                continue;
            }
            match row(tree, entries, &found, &mut used) {
                Ok(row) => _ = rows.entry(name).or_default().insert(row),
                Err((what, next)) => violations.push(Violation::at(path, found.line, what, next)),
            }
        }
    }
    let patterns = entries.messages.iter().flat_map(|entry| &entry.patterns);
    for pattern in patterns.chain(&entries.not).chain(&entries.not_in) {
        if !used.contains(&pattern.line) {
            let what = format!("no source has {:?}", pattern.text);
            let next = "write the text that is there now, or remove the line";
            violations.push(Violation::at(TEXTS, pattern.line, what, next));
        }
    }
    (rows, violations)
}

/// Returns the row of a message, or what is missing and what to do about it.
fn row(
    tree: &Tree,
    entries: &Entries,
    found: &Found,
    used: &mut BTreeSet<usize>,
) -> Result<Row, (String, String)> {
    let text = &found.text;
    let missing =
        |what: &str, next: &str| (format!("{text:?} {what}"), format!("{next} in {TEXTS}"));
    let Some((entry, pattern)) = entries.of(text) else {
        return Err(missing(
            "has no entry",
            "write below a `when:` and a `do:`, or below a `not:` if people do not see it,",
        ));
    };
    used.insert(pattern.line);
    let kind = found.kind.clone().or_else(|| Some(entry.kind.clone()).filter(|it| !it.is_empty()));
    let Some(kind) = kind else { return Err(missing("has no kind", "write its `kind:`")) };
    let kind = exit_code(tree, &kind).unwrap_or(kind);
    if !KINDS.contains(&&*kind) && !kind.starts_with("exit ") && kind != "status" {
        return Err(missing(&format!("has the unknown kind {kind}"), "correct its `kind:`"));
    }
    let next = next(found, &entry.next);
    if next.is_empty() || entry.when.is_empty() {
        return Err(missing("does not say what to do", "write a `do:`"));
    }
    if pattern.example.is_empty() && is_opaque(text) {
        return Err(missing("says nothing without its values", "write `=> ` and an example"));
    }
    let example = match pattern.example.as_str() {
        "" => String::new(),
        example => format!("<br>as in {}", cell(example)),
    };
    let (when, next) = (entry.when.replace('|', "\\|"), next.replace('|', "\\|"));
    Ok(Row { message: format!("{}{example}", cell(text)), kind, when, next })
}

/// Returns the number for `exit NAME`.
fn exit_code(tree: &Tree, kind: &str) -> Option<String> {
    let name = kind.strip_prefix("exit ")?;
    let (_, after) = tree.files.get(CODES_IN)?.split_once(&format!("const {name}: u8 = "))?;
    Some(format!("exit {}", after.split_once(';')?.0))
}

/// Returns true if little is left of a message without its values.
fn is_opaque(text: &str) -> bool {
    let mut rest = text.replace('…', " ");
    while let Some((before, after)) = rest.split_once('{') {
        rest = format!("{before} {}", after.split_once('}').map_or("", |(_, after)| after));
    }
    let words = rest.split_whitespace();
    words.filter(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 1).count() < 3
}

/// Returns what to do about a message: what the code adds to it, what the message itself says, or else what its
/// entry says. A few words say less than an entry.
fn next(found: &Found, of_entry: &str) -> String {
    let own = [found.next.as_str(), advice(&found.text)].into_iter().find(|own| !own.is_empty());
    let says_enough = |own: &&str| of_entry.is_empty() || own.split(' ').count() > FEW;
    match own.filter(says_enough) {
        Some(own) => sentence(own),
        None if of_entry.is_empty() => sentence(allowed(&found.text)),
        None => of_entry.to_owned(),
    }
}

/// Returns the end of a message from the first part on that begins with a verb of advice.
fn advice(message: &str) -> &str {
    let is_advice =
        |part: &&str| ADVICE.contains(&part.split([' ', '?', ',']).next().unwrap_or_default());
    parts(message).find(is_advice).unwrap_or_default()
}

/// Returns the end of a message from the first part on that says which values are allowed.
fn allowed(message: &str) -> &str {
    let is_allowed = |part: &&str| ALLOWED.iter().any(|allowed| part.contains(allowed));
    parts(message).skip(1).find(is_allowed).unwrap_or_default()
}

/// Returns a message, and what follows each `;` and `:` in it.
fn parts(message: &str) -> impl Iterator<Item = &str> {
    let starts = message.match_indices([';', ':']).map(|(at, _)| at + 1);
    let starts = starts.filter(|at| message[*at..].starts_with(' '));
    std::iter::once(message).chain(starts.map(|at| &message[at + 1..]))
}

/// Returns a part of a message as a sentence; nothing for nothing.
fn sentence(part: &str) -> String {
    if part.is_empty() {
        return String::new();
    }
    let part = if part.contains('(') { part } else { part.trim_end_matches(')') };
    let mut letters = part.trim().chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let text: String = first.into_iter().chain(letters).collect();
    format!("{}.", text.trim_end_matches('.'))
}

/// Returns the page.
fn document(tree: &Tree, rows: &BTreeMap<&'static str, BTreeSet<Row>>) -> String {
    let mut out = format!(
        "# Error messages\n\nSearch this page for a part of the message without its values: `{{name}}` and `…` stand \
         for values. Messages about a store URL begin with `store URL:`, and most others with the operation and the \
         name of the lock. The server's own error follows where one is known.\n\n\
         `cargo xtask errors` writes this page from the sources and from `{TEXTS}`.\n\n\
         ## Kinds\n\nPrograms match the kind (`Error::kind`); the command has exit codes \
         ([command.md](command.md)).\n\n| kind | meaning |\n|---|---|\n"
    );
    for kind in KINDS {
        let meaning = meaning(tree, kind);
        if !meaning.is_empty() {
            out += &format!("| {kind} | {meaning} |\n");
        }
    }
    out += "| status | Not an error alone: a part of a message or of a status, which names a reason. |\n";
    for name in CRATES {
        let Some(rows) = rows.get(name) else { continue };
        out += &match name {
            "cli" => {
                "\n## The command\n\nErrors of the library are in the other parts.\n\n".to_owned()
            }
            "leasehold" => "\n## leasehold\n\n".to_owned(),
            name => format!("\n## leasehold-{name}\n\n"),
        };
        out += "| message | kind | when | what to do |\n|---|---|---|---|\n";
        for Row { message, kind, when, next } in rows {
            out += &format!("| {message} | {kind} | {when} | {next} |\n");
        }
    }
    out
}

/// Returns the short name of a crate whose errors are listed, for one of its sources.
fn crate_of(path: &str) -> Option<&'static str> {
    let path = path.strip_prefix("crates/")?;
    let path = path.strip_prefix("engines/").unwrap_or(path);
    let (folder, file) = path.strip_prefix("leasehold")?.split_once("/src/")?;
    let name = folder.trim_start_matches('-');
    let name = if name.is_empty() { "leasehold" } else { name };
    if file.ends_with("_tests.rs") || file.ends_with("/tests.rs") {
        return None;
    }
    CRATES.into_iter().find(|listed| *listed == name)
}

/// Returns what the documentation of a kind says, as one paragraph.
fn meaning(tree: &Tree, kind: &str) -> String {
    let variant = format!("    {kind},");
    let of = |file: &&str| {
        let text = tree.files.get(*file)?;
        let before = text.split_once("pub enum ErrorKind {")?.1.split_once(&variant)?.0;
        Some(docs_above(before))
    };
    plain(&KINDS_IN.iter().find_map(of).unwrap_or_default())
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

/// Returns a message as a cell of a table.
fn cell(message: &str) -> String {
    let fence = if message.contains('`') { "``" } else { "`" };
    // A fence must not touch a backtick of the message.
    let (before, after) = (message.starts_with('`'), message.ends_with('`'));
    let blank = |touches: bool| if touches { " " } else { "" };
    let message = message.replace('|', "\\|");
    format!("{fence}{}{message}{}{fence}", blank(before || after), blank(before || after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/engines/leasehold-redis/src/a.rs";
    const SOURCE: &str = r#"//! Opens a door.
fn open() -> Error {
    match x {
        1 => Error::new(ErrorKind::Refused, format!("the door {name} is locked")),
        2 => Error::new(ErrorKind::Invalid, "a window is no door; write the name of a door"),
        _ => Error::new(ErrorKind::Invalid, format!("{what}: not a door")),
    }
}
"#;
    const ENTRIES: &str = "\
when: The door is locked.
do: Unlock it with `open | key`.
  the door * is locked

when: Not a door.
do: Name another.
  a window is no door; *
  {what}: not a door => the wall: not a door
";

    /// What is wrong with a tree of these entries, whose page is as generated.
    fn wrong(entries: &str) -> Vec<String> {
        let tree = Tree::of([(PATH, SOURCE), (TEXTS, entries)]);
        let (rows, _) = rows(&tree, &Entries::parse(entries));
        let page = document(&tree, &rows);
        let tree = Tree::of([(PATH, SOURCE), (TEXTS, entries), (FILE, &page)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_row_has_a_message_a_kind_a_situation_and_what_to_do() {
        assert!(wrong(ENTRIES).is_empty(), "{:?}", wrong(ENTRIES));
        let tree = Tree::of([(PATH, SOURCE)]);
        let page = document(&tree, &rows(&tree, &Entries::parse(ENTRIES)).0);
        for row in [
            "| `the door {name} is locked` | Refused | The door is locked. | Unlock it with `open \\| key`. |",
            "| `a window is no door; write the name of a door` | Invalid | Not a door. | Write the name of a door. |",
            "| `{what}: not a door`<br>as in `the wall: not a door` | Invalid | Not a door. | Name another. |",
        ] {
            assert!(page.contains(row), "{page}");
        }
    }

    #[test]
    fn a_message_without_an_entry_a_step_or_an_example_is_found() {
        for (from, to, said) in [
            ("  the door * is locked\n", "", "has no entry"),
            ("do: Unlock it with `open | key`.\n", "", "does not say what to do"),
            (" => the wall: not a door", "", "says nothing without its values"),
            ("  the door", "  the gate is gone\n  the door", "no source has"),
            ("do: Name", "to do: Name", "none of"),
        ] {
            let found = wrong(&ENTRIES.replace(from, to));
            assert!(found.iter().any(|line| line.contains(said)), "{said}: {found:?}");
        }
        assert!(wrong(&ENTRIES.replace("  the door", "not: x\n  the door")).is_empty());
    }

    #[test]
    fn a_page_that_lacks_a_message_is_found() {
        let tree = Tree::of([(PATH, SOURCE), (TEXTS, ENTRIES)]);
        let page = document(&tree, &rows(&tree, &Entries::parse(ENTRIES)).0);
        let other = page.replace("is locked`", "is open`");
        let found = check(&Tree::of([(PATH, SOURCE), (TEXTS, ENTRIES), (FILE, &other)]));
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_kind_of_the_command_is_its_exit_code() {
        let code = (CODES_IN, "pub(crate) const LOST: u8 = 76;");
        assert_eq!(exit_code(&Tree::of([code]), "exit LOST").as_deref(), Some("exit 76"));
    }
}
