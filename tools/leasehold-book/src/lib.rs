//! Builds `docs/` as two books of HTML, English and Chinese, and checks every link in them.

mod links;
mod pages;
mod search;
mod summary;

use std::path::Path;

use mdbook_driver::MDBook;

/// A book: its folder in the repository, and its folder in the output.
struct Book {
    source: &'static str,
    output: &'static str,
}

/// In this order: mdBook empties a folder before it writes to it.
const BOOKS: [Book; 2] =
    [Book { source: "docs", output: "" }, Book { source: "docs/zh", output: "zh" }];

/// Builds both books of the repository at `root` into the folder `output`, which is emptied first.
///
/// Returns what is wrong with them: pages that no table of contents lists, and links that lead
/// nowhere. Links to files of the repository that are in no book become plain text, or links into
/// the repository when `git-repository-url` is set in `docs/book.toml`.
///
/// # Errors
///
/// A text that says what cannot be read, built or written.
pub fn build(root: &Path, output: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let mut repository = None;
    for book in &BOOKS {
        let source = root.join(book.source);
        wrong.extend(summary::missing(&source, book.source)?);
        let loaded =
            MDBook::load(&source).map_err(|error| format!("{}: {error:#}", book.source))?;
        let mut config = loaded.config;
        config.build.build_dir = output.join(book.output);
        if repository.is_none() {
            repository = config.html_config().and_then(|html| html.git_repository_url);
        }
        MDBook::load_with_config(&source, config)
            .and_then(|book| book.build())
            .map_err(|error| format!("{}: {error:#}", book.source))?;
    }
    search::add(&output.join("zh"))?;
    wrong.extend(links::settle(root, output, repository.as_deref())?);
    Ok(wrong)
}
