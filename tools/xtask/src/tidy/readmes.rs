//! README.md and README.zh-CN.md show the same code.

use super::Violation;
use super::markdown::{Block, split};
use super::tree::Tree;

const FILES: [&str; 2] = ["README.md", "README.zh-CN.md"];

/// Compares the blocks of code, comments left out, in whatever order they stand.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in FILES.iter().filter(|file| !tree.files.contains_key(**file)) {
        found.push(Violation::of(file, "is missing", "write it, with the code of the other"));
    }
    let [one, other] = FILES.map(|file| tree.files.get(file).map(|text| split(text).1));
    if let (Some(one), Some(other)) = (one, other) {
        found.extend(alone(FILES[0], &one, FILES[1], &other));
        found.extend(alone(FILES[1], &other, FILES[0], &one));
    }
    found
}

/// The blocks of the one that the other lacks.
fn alone(file: &str, one: &[Block<'_>], other: &str, others: &[Block<'_>]) -> Vec<Violation> {
    let mut there: Vec<_> = others.iter().map(code).collect();
    let mut found = Vec::new();
    for block in one {
        let code = code(block);
        match there.iter().position(|candidate| *candidate == code) {
            Some(at) => drop(there.swap_remove(at)),
            None => {
                let what = format!("a block of code that {other} does not have");
                let next = "make the blocks equal but for their comments";
                found.push(Violation::at(file, block.line, what, next));
            }
        }
    }
    found
}

/// The lines of a block without comments, trailing blanks and empty lines.
fn code<'a>(block: &Block<'a>) -> Vec<&'a str> {
    let comment = match block.language {
        "rust" | "go" | "java" | "js" | "ts" => "//",
        "sql" => "--",
        _ => "#",
    };
    let bare = |line: &'a str| {
        let starts = |at: usize| at == 0 || line[..at].ends_with(char::is_whitespace);
        let comment = line.match_indices(comment).find(|(at, _)| starts(*at));
        comment.map_or(line, |(at, _)| &line[..at]).trim_end()
    };
    block.lines.iter().map(|line| bare(line)).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_may_be_in_another_language() {
        let one = "```sh\nleasehold run x -- ls   # holds it\n```\n```rust\n// why\nlet u = \"a://b\";\n```\n";
        let two = "```rust\nlet u = \"a://b\"; // 为什么\n```\n```sh\n# 持有锁\nleasehold run x -- ls\n```\n";
        assert!(check(&Tree::of([("README.md", one), ("README.zh-CN.md", two)])).is_empty());
    }

    #[test]
    fn a_block_that_one_lacks_or_has_otherwise_is_found() {
        let one = "```sh\nls\n```\n\n```sh\ncat a\n```\n";
        let two = "```sh\nls\n```\n\n```sh\ncat b\n```\n";
        let found = check(&Tree::of([("README.md", one), ("README.zh-CN.md", two)]));
        let lines: Vec<_> = found.iter().map(|v| (v.file.as_str(), v.line)).collect();
        assert_eq!(lines, [("README.md", Some(5)), ("README.zh-CN.md", Some(5))]);
    }

    #[test]
    fn both_must_be_there() {
        assert_eq!(check(&Tree::of([("README.md", "")])).len(), 1);
    }
}
