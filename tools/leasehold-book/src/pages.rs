//! The files of a built book.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that mdBook adds and that hold no page of their own.
const NO_PAGES: [&str; 3] = ["404.html", "print.html", "toc.html"];

/// All pages below a folder, in order.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = files(folder, "html")?;
    found.retain(|path| !NO_PAGES.iter().any(|name| path.ends_with(name)));
    Ok(found)
}

/// All files below a folder whose names end with the extension, in order.
pub(crate) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Replaces the text of a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
