//! Compares pages of the documentation with what examples print, and with code that is compiled.

use std::fs;
use std::path::{Path, PathBuf};

/// Checks that the page `docs/NAME` and its Chinese twin `docs/zh/NAME` show this output, as a block of text.
///
/// # Panics
/// If a page cannot be read, or if it shows another output.
pub fn show(name: &str, output: &str) {
    let block = format!("```text\n{output}```\n");
    for (page, text) in both(name) {
        assert!(text.contains(&block), "{page} does not show what the example prints:\n{output}");
    }
}

/// Checks that each Rust block of the page `docs/NAME` and of its Chinese twin is a part of `source`, a file that is
/// compiled. Comments, white space and trailing commas may differ. `cargo xtask tidy` refuses pages with a Rust block that
/// no call names, and blocks that open in another way than with ` ```rust ` alone.
///
/// # Panics
/// If a page cannot be read, has no Rust block, or has a block that `source` does not have.
pub fn are_compiled(name: &str, source: &str) {
    let source = bare(source);
    for (page, text) in both(name) {
        let blocks = text.split("\n```rust\n").skip(1);
        let blocks: Vec<_> = blocks.filter_map(|rest| rest.split("\n```").next()).collect();
        assert!(!blocks.is_empty(), "{page} has no Rust block");
        for block in blocks {
            assert!(source.contains(&bare(block)), "{page}: a block is not compiled:\n{block}");
        }
    }
}

/// Both pages of this name, each with its path.
fn both(name: &str) -> [(String, String); 2] {
    let docs = docs();
    [docs.join(name), docs.join("zh").join(name)].map(|page| {
        let shown = page.display().to_string();
        let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{shown}: {error}"));
        (shown, text)
    })
}

/// The directory of the pages.
pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The code without comments, white space and trailing commas.
fn bare(code: &str) -> String {
    let lines = code.lines().map(|line| match line.find("// ") {
        Some(at) => &line[..at],
        None => line,
    });
    let dense: String = lines.flat_map(str::chars).filter(|char| !char.is_whitespace()).collect();
    dense.replace(",)", ")").replace(",}", "}")
}
