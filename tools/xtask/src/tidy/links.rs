//! Links between the documents lead somewhere.

use super::Violation;
use super::markdown::{spans, split};
use super::tree::Tree;

/// Checks each link of each document that stays inside the repository; not its `#anchor`.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.markdown() {
        for (number, line) in split(text).0 {
            for target in targets(&spans(line).0) {
                if !resolves(tree, path, &target) {
                    let what = format!("a link to `{target}`, which does not exist");
                    found.push(Violation::at(path, number, what, "correct the link"));
                }
            }
        }
    }
    found
}

/// What the line links to: `[..](target)`, `[..]: target`, `src="target"`, `href="target"`.
fn targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (open, close) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for (at, _) in line.match_indices(open) {
            let rest = &line[at + open.len()..];
            found.extend(rest.split_once(close).map(|(inside, _)| first_word(inside)));
        }
    }
    if line.starts_with('[') {
        found.extend(line.split_once("]: ").map(|(_, target)| first_word(target)));
    }
    found
}

/// The target without its title.
fn first_word(text: &str) -> String {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.trim_matches(['<', '>']).replace("%20", " ")
}

fn resolves(tree: &Tree, from: &str, target: &str) -> bool {
    let target = target.split(['#', '?']).next().unwrap_or_default();
    // A path of Rust items, in documents that are part of a crate's own documentation.
    let elsewhere = target.contains("::") || scheme(target);
    if target.is_empty() || elsewhere {
        return true;
    }
    let mut parts: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        parts.extend(from.split('/'));
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            part => parts.push(part),
        }
    }
    parts.is_empty() || tree.has(&parts.join("/"))
}

fn scheme(target: &str) -> bool {
    target.starts_with("//")
        || target.split_once(':').is_some_and(|(scheme, _)| {
            !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = "[a](../README.md#x) [b](gone.md) ![c](pic/d.svg \"title\") [e](pic)\n\
                    `[not](a-link.md)` <img src=\"no.png\"> [web](https://example.org) [f](#g)\n\
                    [h]: also/gone.md\n[i](crate::Lock) [out](../../x.md)\n\
                    ```\n[code](block.md)\n```\n";
        let tree = Tree::of([("docs/a.md", page), ("README.md", ""), ("docs/pic/d.svg", "<svg/>")]);
        let found = check(&tree);
        let lines: Vec<_> = found.iter().filter_map(|violation| violation.line).collect();
        assert_eq!(lines, [1, 2, 3, 4], "{found:?}");
    }
}
