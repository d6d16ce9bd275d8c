//! Every Rust block of a document can be tried: a page in `docs` is compared with code that is compiled, and what the block
//! depends on is written beside it.

use std::collections::BTreeSet;

use super::Violation;
use super::code::{code, strings};
use super::markdown::split;
use super::tree::Tree;

/// What a test calls with the name of a page.
const CALL: &str = "pages::are_compiled(";
/// The only form of a Rust block that this function sees.
const FENCE: &str = "```rust";

/// Finds pages with a Rust block that no test names, Rust blocks that the tests do not see, and documents with a Rust block
/// but without the lines of a Cargo.toml.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = tests(tree);
    found.extend(dependencies(tree));
    found
}

/// Pages and READMEs that show Rust code name what a program needs for it.
fn dependencies(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let documents = tree.markdown().filter(|(file, _)| {
        let readme = *file == "README.md" || *file == "README.zh-CN.md";
        readme || file.starts_with("docs/") || is_readme_of_a_crate(file)
    });
    for (file, text) in documents {
        let blocks = split(text).1;
        let Some(first) = blocks.iter().find(|block| is_rust(block.language)) else { continue };
        let folder = file.rsplit('/').nth(1).filter(|_| is_readme_of_a_crate(file));
        let line = |line: &str| folder.is_none_or(|name| line.split(' ').next() == Some(name));
        let named = blocks.iter().filter(|block| block.language == "toml").any(|block| {
            block.lines.contains(&"[dependencies]") && block.lines.iter().any(|one| line(one))
        });
        if !named {
            let what = "a Rust block, and no `[dependencies]` beside it";
            let name = folder.unwrap_or("the crates");
            let next = format!("add a toml block with {name} and the features that the code needs");
            found.push(Violation::at(file, first.line, what, next));
        }
    }
    found
}

fn is_readme_of_a_crate(file: &str) -> bool {
    file.starts_with("crates/") && file.ends_with("/README.md")
}

/// Pages with a Rust block are named by a test that sees all of them.
fn tests(tree: &Tree) -> Vec<Violation> {
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
        tests(&tree).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_document_with_a_rust_block_names_its_dependencies() {
        let lines = |file, toml: &str| -> Vec<Option<usize>> {
            let page = format!("# A\n\n```rust\nf();\n```\n\n```toml\n{toml}```\n");
            let tree = Tree::of([(file, page.as_str())]);
            dependencies(&tree).into_iter().map(|violation| violation.line).collect()
        };
        let pages = ["docs/a.md", "docs/zh/a.md", "README.md", "crates/engines/x/README.md"];
        for page in pages {
            assert_eq!(lines(page, "[dependencies]\nx = \"1\"\n"), [], "{page}");
            assert_eq!(lines(page, ""), [Some(3)], "{page}");
        }
        assert_eq!(lines("crates/x/README.md", "[dependencies]\nxy = \"1\"\n"), [Some(3)]);
        assert_eq!(lines("tools/x/README.md", ""), []);
    }

    #[test]
    fn a_page_with_a_rust_block_is_named_by_a_test() {
        let page = "# A\n\n```sh\nls\n```\n\n```rust\nf();\n```\n";
        for named in ["docs/a.md", "docs/zh/a.md", "README.md", "crates/x/README.md"] {
            assert_eq!(lines(named, page), [], "{named}");
        }
        for forgotten in ["docs/b.md", "docs/zh/b.md", "docs/evidence/a.md"] {
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
