//! The defaults that `docs/defaults.md` names still stand in the code.

use super::Violation;
use super::tree::Tree;

const FILE: &str = "docs/defaults.md";

/// Behind each link to a source stand, in backticks, words that must be in that source.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in tree.files.get(FILE).map_or("", String::as_str).lines().enumerate() {
        let mut pieces = line.split("](../");
        pieces.next();
        for piece in pieces {
            let Some((path, rest)) = piece.split_once(')') else { continue };
            let source = tree.files.get(path).map(|text| words(text)).unwrap_or_default();
            // Every other piece stands between two backticks.
            for quoted in rest.split('`').skip(1).step_by(2) {
                if !source.contains(&words(&quoted.replace("\\|", "|"))) {
                    let what = format!("`{quoted}` is not in {path} any more");
                    let next = "look what the default is now, and say that";
                    found.push(Violation::at(FILE, index + 1, what, next));
                }
            }
        }
    }
    found
}

/// The text with every run of white space as one blank.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_that_is_another_now_is_found() {
        let row = |text: &str| format!("| `ttl` | why | [a.rs](../src/a.rs) {text} |\n");
        let doc = row("`TTL: u32 =\\| 30` `B: u32 = 2`") + &row("`TTL: u32 = 29`");
        let tree =
            Tree::of([(FILE, &*doc), ("src/a.rs", "const TTL: u32 =|\n    30;\nB: u32 = 2;")]);
        let lines: Vec<_> = check(&tree).iter().map(|violation| violation.line).collect();
        assert_eq!(lines, [Some(2)]);
        assert!(check(&Tree::of([("a.rs", "")])).is_empty());
    }
}
