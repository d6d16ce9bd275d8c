//! The command's translations of messages: each still has its English text in the sources.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::code::strings;
use super::tree::Tree;

/// The lists: an English line, a Chinese line, a blank one; comments begin with `#`.
pub(super) const LISTS: &str = "crates/leasehold-cli/src/lang/messages/";
/// A comment above messages that are no text of the sources, until the next comment.
const ELSEWHERE: &str = "# elsewhere";

/// Finds translations of texts that the sources do not have (any more), and texts that are
/// translated twice.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let lists: Vec<_> = tree.files.iter().filter(|(path, _)| path.starts_with(LISTS)).collect();
    if lists.is_empty() {
        return Vec::new();
    }
    let sources = tree.rust().filter(|(path, _)| path.contains("/src/"));
    let texts: BTreeSet<String> = sources.flat_map(|(_, text)| texts(text)).collect();
    let mut found = Vec::new();
    let mut seen = BTreeMap::new();
    for (file, list) in lists {
        for (line, english, is_ours) in entries(list) {
            let bare = bare(english);
            let known = texts.contains(&bare)
                || bare.strip_prefix("{} ").is_some_and(|rest| texts.contains(rest));
            if is_ours && !known {
                let what = format!("no source has the text {english:?}");
                let next = "translate the text that is there now, or remove the entry";
                found.push(Violation::at(file, line, what, next));
            }
            if let Some(other) = seen.insert(english, line) {
                let what = format!("{english:?} is translated twice, also in line {other}");
                found.push(Violation::at(file, line, what, "keep one of both"));
            }
        }
    }
    found
}

/// The English lines of a list with their numbers, and whether the sources must have them.
fn entries(list: &str) -> Vec<(usize, &str, bool)> {
    let (mut found, mut is_ours, mut is_english) = (Vec::new(), true, true);
    for (index, line) in list.lines().enumerate() {
        if line.starts_with('#') {
            is_ours = !line.starts_with(ELSEWHERE);
        } else if line.is_empty() {
            is_english = true;
        } else {
            if is_english {
                found.push((index + 1, line, is_ours));
            }
            is_english = false;
        }
    }
    found
}

/// The string literals of a source, as [`bare`] makes them.
fn texts(source: &str) -> Vec<String> {
    let literals =
        strings(source).into_iter().filter_map(|(start, end)| source.get(start + 1..end - 1));
    literals.map(|literal| bare(&unescaped(literal))).collect()
}

/// A literal without line ends, and with characters for their escapes.
fn unescaped(literal: &str) -> String {
    let mut out = String::new();
    let mut letters = literal.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some('\n')) => {
                while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
            }
            ('\\', Some(_)) => {
                out.extend(letters.next().map(|it| if it == 'n' { ' ' } else { it }))
            }
            _ => out.push(letter),
        }
    }
    out
}

/// A text with `{}` for each value, and without the punctuation around it.
fn bare(text: &str) -> String {
    let mut pieces = text.split('{');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let after = piece.split_once('}').map_or(piece, |(_, after)| after);
        out.push_str("{}");
        out.push_str(after);
    }
    out.trim_matches([' ', ',', ';', ':', '(', ')']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "fn f() { g(format!(\"{x:?} is \\\"bad\\\"; \\\n    write {y}\"), \"; read it\") }";

    fn lines(list: &str) -> Vec<usize> {
        let file = format!("{LISTS}a.txt");
        let tree = Tree::of([("crates/a/src/lib.rs", SOURCE), (&file, list)]);
        check(&tree).iter().filter_map(|violation| violation.line).collect()
    }

    #[test]
    fn a_translation_of_a_text_that_is_there_is_accepted() {
        let list = "# A list\n\n{} is \"bad\"; write {}\n{} 不好；请写 {}\n\nread it\n请读它\n\n{} read it\n{} 请读它\n";
        assert_eq!(lines(list), [0; 0]);
    }

    #[test]
    fn a_translation_of_a_text_that_is_gone_is_found() {
        assert_eq!(lines("{} is bad; write {}\n{} 不好\n\nread it\n请读它\n"), [1]);
        assert_eq!(lines("read it\n请读它\n\nread it\n请读\n"), [4]);
    }

    #[test]
    fn a_text_from_elsewhere_needs_no_source() {
        assert_eq!(
            lines("# elsewhere: TOML\n\nno key\n没有键\n\n# Ours\n\nno key\n没有键\n"),
            [8, 8]
        );
    }
}
