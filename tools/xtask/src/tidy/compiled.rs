//! Every Rust block of a page in `docs` is compared with code that is compiled.

use std::collections::BTreeSet;

use super::Violation;
use super::code::{code, strings};
use super::markdown::split;
use super::tree::Tree;

/// What a test calls with the name of a page.
const CALL: &str = "pages::are_compiled(";
/// The only form of a Rust block that this function sees.
const FENCE: &str = "```rust";

/// Finds pages with a Rust block that no test names, and Rust blocks that the tests do not see.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let named: BTreeSet<&str> = tree.rust().flat_map(|(_, text)| named(text)).collect();
    let mut found = Vec::new();
    for (file, text) in tree.markdown() {
        let Some(page) = file.strip_prefix("docs/") else { continue };
        let page = page.strip_prefix("zh/").unwrap_or(page);
        let lines: Vec<&str> = text.lines().collect();
        let blocks = split(text).1;
        let mut blocks = blocks.iter().filter(|block| is_rust(block.language)).peekable();
        if let Some(first) = blocks.peek().filter(|_| !named.contains(page)) {
            let what = "a Rust block, and no test compares the page with compiled code";
            let next = format!("call `{CALL}\"{page}\", SOURCE)` in a test");
            found.push(Violation::at(file, first.line, what, next));
        }
        for block in blocks.filter(|block| block.line < 2 || lines[block.line - 1] != FENCE) {
            let what = "a Rust block that the test of the page does not see";
            let next = format!("open it with `{FENCE}` alone on the line, below the title");
            found.push(Violation::at(file, block.line, what, next));
        }
    }
    found
}

/// The pages that a test compares with compiled code.
fn named(text: &str) -> Vec<&str> {
    let blank = code(text);
    let texts = strings(text);
    let calls = blank.match_indices(CALL).map(|(at, _)| at + CALL.len());
    // The name is the first argument: the literal that follows the parenthesis.
    let name = |from: usize| {
        let (start, end) = *texts.iter().find(|(start, _)| *start >= from)?;
        blank[from..start].trim().is_empty().then(|| &text[start + 1..end - 1])
    };
    calls.filter_map(name).collect()
}

fn is_rust(language: &str) -> bool {
    let word = language.split(['{', '=']).next().unwrap_or_default();
    ["rust", "rs"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "#[test]\nfn pages() {\n    pages::are_compiled(\n        \"a.md\", SOURCE);\n    \
                        // pages::are_compiled(\"b.md\", SOURCE);\n}\n";

    fn lines(file: &str, page: &str) -> Vec<Option<usize>> {
        let tree = Tree::of([("crates/x/tests/pages.rs", TEST), (file, page)]);
        check(&tree).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_page_with_a_rust_block_is_named_by_a_test() {
        let page = "# A\n\n```sh\nls\n```\n\n```rust\nf();\n```\n";
        for named in ["docs/a.md", "docs/zh/a.md", "README.md", "crates/x/README.md"] {
            assert_eq!(lines(named, page), [], "{named}");
        }
        for forgotten in ["docs/b.md", "docs/zh/b.md", "docs/decisions/a.md"] {
            assert_eq!(lines(forgotten, page), [Some(7)], "{forgotten}");
        }
    }

    #[test]
    fn a_rust_block_in_another_form_is_found() {
        for fence in [
            "```rust,no_run",
            "``` rust",
            "  ```rust",
            "~~~rust",
            "````rust",
            "```rs",
            "```Rust",
            "```rust{1}",
        ] {
            let close = fence.trim_start().trim_end_matches(|c: char| c != '`' && c != '~');
            let page = format!("# A\n\n{fence}\nf();\n{close}\n");
            assert_eq!(lines("docs/a.md", &page), [Some(3)], "{fence}");
        }
        assert_eq!(lines("docs/a.md", "```rust\nf();\n```\n"), [Some(1)]);
    }
}
