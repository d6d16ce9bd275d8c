//! Compares what an example prints with the pages that show it.

use std::fs;
use std::path::Path;

/// Checks that the page `docs/NAME` and its Chinese twin `docs/zh/NAME` show this output, as a block of text.
///
/// # Panics
/// If a page cannot be read, or if it shows another output.
pub fn show(name: &str, output: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for page in [docs.join(name), docs.join("zh").join(name)] {
        let text = fs::read_to_string(&page);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let block = format!("```text\n{output}```\n");
        assert!(
            text.contains(&block),
            "{} does not show what the example prints:\n{output}",
            page.display()
        );
    }
}
