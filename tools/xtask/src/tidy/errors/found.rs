//! Finds the texts in a source that may be error messages, and their kinds as far as the code shows them.

use super::super::code::{code, code_outside_tests, strings};

/// The kinds of errors of the library.
pub(super) const KINDS: [&str; 12] = [
    "Invalid",
    "Unsupported",
    "Timeout",
    "Lost",
    "Conflict",
    "Unavailable",
    "Refused",
    "Foreign",
    "Closed",
    "Load",
    "Overloaded",
    "Database",
];

/// Functions that make an error of a kind out of a message.
const MAKERS: [(&str, &str); 3] =
    [("invalid", "Invalid"), ("unavailable", "Unavailable"), ("unsupported", "Unsupported")];

/// Calls whose texts are for developers and logs, and no errors.
const LOGS: [&str; 13] = [
    "trace!",
    "debug!",
    "info!",
    "warn!",
    "error!",
    "event!",
    "panic!",
    "unreachable!",
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "debug_assert!",
    "expect",
];

/// Calls that look for a text, which another program or another place has made.
const SEARCHES: [&str; 9] = [
    "contains",
    "starts_with",
    "ends_with",
    "strip_prefix",
    "strip_suffix",
    "split_once",
    "find",
    "rfind",
    "replace",
];

/// How many names are followed from a text to its kind.
const STEPS: usize = 3;

/// A text of a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) text: String,
    /// The kind that the code gives it: a variant of `ErrorKind`, or `exit` and a constant of the command.
    pub(super) kind: Option<String>,
    /// The next step that the code adds to it by `.next("…")`.
    pub(super) next: String,
    pub(super) line: usize,
}

/// Returns the texts of a source that may be messages.
pub(super) fn texts(source: &str) -> Vec<Found> {
    let (code, outside) = (code(source), code_outside_tests(source));
    let literals = strings(source);
    let literal = |(start, end): (usize, usize)| {
        unescaped(&source[start + 1..end.saturating_sub(1).max(start + 1)])
    };
    let mut found = Vec::new();
    for (index, &(start, end)) in literals.iter().enumerate() {
        let text = literal((start, end));
        let in_test = code[..start].trim_end().len() != outside[..start].trim_end().len();
        if in_test || !is_sentence(&text) {
            continue;
        }
        let around = around(&code, start);
        let calls = || around.iter().filter_map(|before| call(before));
        let is_search = around.get(1).and_then(|before| call(before));
        let is_next = calls().any(|name| name == "next");
        let is_attribute = around.iter().any(|before| before.ends_with("#["));
        let is_pattern = around[0].ends_with("== ") || around[0].ends_with("!= ");
        if is_next
            || is_attribute
            || is_pattern
            || is_search.is_some_and(|name| SEARCHES.contains(&name))
            || calls().any(|name| LOGS.contains(&name))
        {
            continue;
        }
        let next = literals.get(index + 1).filter(|(next, _)| {
            let between = &code[end..*next];
            !between.contains(';') && between.contains(".next(")
        });
        found.push(Found {
            text,
            kind: kind_at(&code, start, STEPS),
            next: next.map(|next| literal(*next)).unwrap_or_default(),
            line: source[..start].lines().count(),
        });
    }
    found
}

/// Returns true for English of three words or more. Shorter texts are names and pieces.
fn is_sentence(text: &str) -> bool {
    let is_chinese = text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    !is_chinese && text.split(' ').filter(|word| word.len() > 1).count() >= 3
}

/// Returns the code before a place, one bracket after the other from the innermost on: what stands before it
/// in its statement, with the bracket. Ends at the function around it.
fn around(code: &str, at: usize) -> Vec<&str> {
    let bytes = code.as_bytes();
    let (mut found, mut depth, mut end) = (Vec::new(), 0_usize, at);
    let mut starts = None;
    for place in (0..at).rev() {
        match bytes[place] {
            b')' | b']' | b'}' => {
                if depth == 0 && bytes[place] == b'}' && bytes.get(place + 1) == Some(&b'\n') {
                    starts.get_or_insert(place + 1);
                }
                depth += 1;
            }
            b'(' | b'[' | b'{' if depth > 0 => depth -= 1,
            b'(' | b'[' | b'{' => {
                let before = &code[starts.take().unwrap_or(place + 1)..end];
                found.push(before);
                end = place + 1;
                if is_function(before) {
                    return found;
                }
            }
            b';' if depth == 0 => _ = starts.get_or_insert(place + 1),
            b'>' if depth == 0 && place > 0 && bytes[place - 1] == b'=' => {
                starts.get_or_insert(place + 1);
            }
            _ => {}
        }
    }
    found.push(&code[starts.unwrap_or(0)..end]);
    found
}

fn is_function(before: &str) -> bool {
    before.ends_with('{') && before.split_whitespace().any(|word| word == "fn")
}

/// Returns the name of the function or macro that a bracket at the end of the text calls.
fn call(before: &str) -> Option<&str> {
    let before = before.strip_suffix('(')?;
    let name = before.strip_suffix('!').unwrap_or(before);
    let start = name.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    (start < name.len()).then(|| &before[start..])
}

/// Returns the kind that the code around a place gives to a text there, or to the variable or constant that has
/// it, or to what the function around it returns.
fn kind_at(code: &str, at: usize, steps: usize) -> Option<String> {
    let around = around(code, at);
    for before in &around {
        if is_function(before) {
            break;
        }
        if let Some(kind) = kind_in(before) {
            return Some(kind);
        }
        if let Some((keyword, name)) = binding(before).filter(|_| steps > 0) {
            // A variable is used after it, until its function ends; a constant anywhere.
            let (from, to) = match keyword {
                "let" => (at, end_of_function(code, at)),
                _ => (0, code.len()),
            };
            return uses(&code[from..to], name)
                .map(|found| from + found)
                .filter(|found| *found != at)
                .find_map(|found| kind_at(code, found, steps - 1));
        }
    }
    let function = around.last().filter(|before| is_function(before) && steps > 0)?;
    let name = word(function.rsplit_once("fn ")?.1);
    let calls = uses(code, name).filter(|found| !code[..*found].ends_with("fn "));
    calls.filter_map(|found| kind_near(code, found)).next()
}

/// Returns the kind that the statement around a call names.
fn kind_near(code: &str, at: usize) -> Option<String> {
    let around = around(code, at);
    around.iter().take_while(|before| !is_function(before)).find_map(|before| kind_in(before))
}

/// Returns where a name stands as a whole word.
fn uses<'a>(code: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let found = code.match_indices(name).map(|(found, _)| found);
    found.filter(move |found| {
        word(&code[*found..]) == name
            && !code[..*found].ends_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

/// Returns the keyword and the name of a statement that gives a value to a variable or constant.
fn binding(statement: &str) -> Option<(&str, &str)> {
    let statement = statement.trim_start();
    let statement = ["pub(crate) ", "pub(super) ", "pub "]
        .iter()
        .find_map(|visible| statement.strip_prefix(visible))
        .unwrap_or(statement);
    let (keyword, rest) = statement.split_once(' ')?;
    let name = word(rest.trim_start_matches("mut "));
    (["let", "const"].contains(&keyword) && !name.is_empty()).then_some((keyword, name))
}

/// Returns the kind that a piece of code names last.
fn kind_in(before: &str) -> Option<String> {
    if let Some(at) = before.rfind("ErrorKind::") {
        let kind = word(&before[at + "ErrorKind::".len()..]);
        return KINDS.contains(&kind).then(|| kind.to_owned());
    }
    for (maker, kind) in MAKERS {
        let call = format!("{maker}(");
        if before.rfind(&call).is_some_and(|at| !before[..at].ends_with('_')) {
            return Some(kind.to_owned());
        }
    }
    if let Some(code) = before.trim_start().strip_prefix("code::") {
        return Some(format!("exit {}", word(code)));
    }
    if before.contains("Failure::own(") {
        return Some("exit OWN".into());
    }
    let bare = |kind: &str| {
        let kind = format!("{kind},");
        before.trim_start().starts_with(&kind)
            || before.contains(&format!(" {kind}"))
            || before.contains(&format!("({kind}"))
    };
    KINDS.iter().find(|kind| bare(kind)).map(|kind| (*kind).to_owned())
}

/// Returns where the function around a place ends: at the brace with the indent of its first line.
fn end_of_function(code: &str, at: usize) -> usize {
    let begins = |line: &&str| line.split_whitespace().take(4).any(|word| word == "fn");
    let first = code[..at].lines().rev().find(begins).unwrap_or_default();
    let indent = &first[..first.len() - first.trim_start().len()];
    code[at..].find(&format!("\n{indent}}}")).map_or(code.len(), |end| at + end)
}

/// The identifier that the text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
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
    let text = out.replace('\u{1}', "{").replace('\u{2}', "}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r##"//! Opens a door.
#[must_use = "a door is of use"]
pub(crate) fn open() -> Error {
    // Error::new(ErrorKind::Invalid, "not in a comment, though")
    let what = format!("the door {name:?} is \
                        locked ({})", 1);
    tracing::debug!("the door is not an error");
    Error::new(ErrorKind::Refused, what)
}

fn other() -> Result {
    if said.contains("a text of another program") {
        return Err(Error::new(ErrorKind::Unavailable, match x {
            1 => "the first door is closed",
            _ => "the second door is closed",
        }));
    }
    match x {
        1 => (Timeout, "timed out at the door"),
        _ => invalid("no `door` is given".into()),
    }
}

fn why(is_old: bool) -> &'static str {
    if is_old { "the door is old" } else { "the door is new" }
}

fn uses_it() -> Error {
    Error::new(ErrorKind::Foreign, why(true))
}

fn command() -> Failure {
    Failure::with_code(code::LOST, "the door was lost").next("look for the door")
}

#[cfg(test)]
mod tests { fn f() { Error::new(ErrorKind::Invalid, "only made by a test") } }
"##;

    #[test]
    fn texts_are_found_with_the_kind_that_the_code_gives_them() {
        let found = texts(SOURCE);
        let found: Vec<_> =
            found.iter().map(|it| (it.kind.as_deref().unwrap_or(""), &*it.text)).collect();
        assert_eq!(
            found,
            [
                ("Refused", "the door {name} is locked (…)"),
                ("Unavailable", "the first door is closed"),
                ("Unavailable", "the second door is closed"),
                ("Timeout", "timed out at the door"),
                ("Invalid", "no `door` is given"),
                ("Foreign", "the door is old"),
                ("Foreign", "the door is new"),
                ("exit LOST", "the door was lost"),
            ]
        );
    }

    #[test]
    fn the_next_step_in_the_code_belongs_to_the_message() {
        let last = texts(SOURCE).pop().unwrap();
        assert_eq!((last.next.as_str(), last.line), ("look for the door", 33));
    }
}
