//! What every Rust source keeps to: how it opens, how long it is, what it never says.

use super::Violation;
use super::code::{code, lines_with};
use super::tree::Tree;

const LONGEST: usize = 600;

const NEVER: [(&str, &str); 5] = [
    ("todo!", "do it, or leave the path to it out"),
    ("unimplemented!", "do it, or answer with ErrorKind::Unsupported"),
    ("dbg!", "take it out, or use tracing"),
    ("#[ignore", "make the test pass, take it out, or let the suite leave it out by capability"),
    ("unsafe", "find a crate with a safe call for it"),
];

/// Every source in a `src` folder opens with a sentence that says what it is for.
pub(super) fn opening(tree: &Tree) -> Vec<Violation> {
    tree.rust()
        .filter(|(path, text)| path.contains("/src/") && !text.starts_with("//! "))
        .map(|(path, _)| {
            let next = "open it with one `//!` sentence that says what the file is for";
            Violation::at(path, 1, "does not open with a `//!` line", next)
        })
        .collect()
}

/// The folder of committed code that a program has written; a test generates it again.
const GENERATED: &str = "crates/engines/leasehold-etcd-api/src/generated/";

/// No source is too long to be read at once.
pub(super) fn length(tree: &Tree) -> Vec<Violation> {
    let lines = |text: &str| text.lines().count();
    tree.rust()
        .filter(|(path, text)| lines(text) > LONGEST && !path.starts_with(GENERATED))
        .map(|(path, text)| {
            let what = format!("has {} lines, more than {LONGEST}", lines(text));
            Violation::of(path, what, "split it: one idea per file")
        })
        .collect()
}

/// No source, tests included, uses these.
pub(super) fn words(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.rust() {
        let code = code(text);
        for (word, next) in NEVER {
            let violation = |line| Violation::at(path, line, format!("`{word}`"), next);
            found.extend(lines_with(&code, word).map(violation));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_its_sentence_is_found() {
        let tree = Tree::of([
            ("crates/a/src/good.rs", "//! Good.\n"),
            ("crates/a/src/bad.rs", "use x;\n//! Late.\n"),
            ("crates/a/tests/any.rs", "use x;\n"),
        ]);
        let found = opening(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "crates/a/src/bad.rs");
    }

    #[test]
    fn a_file_of_601_lines_is_too_long() {
        let (long, longer) = ("\n".repeat(600), "\n".repeat(601));
        let tree = Tree::of([("a.rs", &long), ("b.rs", &longer)]);
        let found = length(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "b.rs");
        let generated = format!("{GENERATED}b.rs");
        assert!(length(&Tree::of([(generated.as_str(), longer.as_str())])).is_empty());
    }

    #[test]
    fn words_are_found_in_code_alone() {
        let source =
            "// unsafe todo!\nlet a = \"dbg!(x)\";\n\nunsafe { todo!() }\n#[ignore = \"x\"]\n";
        let found = words(&Tree::of([("a.rs", source)]));
        let mut lines: Vec<_> = found.iter().filter_map(|violation| violation.line).collect();
        lines.sort_unstable();
        assert_eq!(lines, [4, 4, 5]);
    }
}
