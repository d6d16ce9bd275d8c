//! The table of contents of a book, `SUMMARY.md`, and the pages that it lacks.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::pages;

/// The pages of the book that its table of contents does not list.
pub(crate) fn missing(source: &Path, name: &str) -> Result<Vec<String>, String> {
    let summary = source.join("SUMMARY.md");
    let text = pages::read(&summary)?;
    let link = Regex::new(r"\]\(([^)#]+)\)").map_err(|error| error.to_string())?;
    let listed: BTreeSet<PathBuf> =
        link.captures_iter(&text).map(|found| source.join(&found[1])).collect();
    let other_books = |path: &Path| {
        path.strip_prefix(source)
            .is_ok_and(|path| path.components().next() == Some(Component::Normal("zh".as_ref())))
    };
    Ok(pages::files(source, "md")?
        .into_iter()
        .filter(|path| *path != summary && !listed.contains(path) && !other_books(path))
        .map(|path| {
            let page = path.strip_prefix(source).unwrap_or(&path).display();
            format!("{name}/{page} is not in {name}/SUMMARY.md: add it there")
        })
        .collect())
}
