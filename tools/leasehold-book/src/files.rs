//! Files of the repository outside `docs` that are pages of a book, since a page links to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use mdbook_driver::book::{Book, BookItem, Chapter, SectionNumber};
use regex::Regex;

/// The folder of these pages in a book.
const FOLDER: &str = "repository";
/// The entry of the table of contents above the files that it does not name.
const TITLE: &str = "Files of the repository";
/// The longest file that is a page, in bytes.
const LONGEST: u64 = 200_000;

/// Moves chapters that lie outside the folder of the book, such as `../README.md`, below [`FOLDER`].
pub(crate) fn place(book: &mut Book) {
    book.for_each_chapter_mut(|chapter| {
        let outside = chapter.path.as_deref().filter(|path| path.starts_with(".."));
        if let Some(path) = outside.map(page) {
            chapter.path = Some(path);
        }
    });
}

/// Where the page of a file lies in the book. The name keeps the file's extension: `a.rs.md`.
fn page(file: &Path) -> PathBuf {
    let inside = file.components().filter(|part| *part != Component::ParentDir);
    let path = Path::new(FOLDER).join(inside.collect::<PathBuf>());
    PathBuf::from(format!("{}.md", path.display()))
}

/// The text of each chapter, by its path in the repository; `folder` is that of the book.
pub(crate) fn sources(book: &Book, folder: &Path) -> BTreeMap<PathBuf, String> {
    let chapters = book.chapters();
    let source = |chapter: &Chapter| {
        let path = chapter.source_path.as_ref()?;
        Some((normal(&folder.join(path)), chapter.content.clone()))
    };
    chapters.filter_map(source).collect()
}

/// The file of the output, without its root, that shows each file of the repository.
pub(crate) fn places(book: &Book, folder: &Path, output: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let chapters = book.chapters();
    let place = |chapter: &Chapter| {
        let (source, path) = (chapter.source_path.as_ref()?, chapter.path.as_ref()?);
        let readme = path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"));
        let page = match readme {
            true => path.with_file_name("index.html"),
            false => path.with_extension("html"),
        };
        Some((normal(&folder.join(source)), output.join(page)))
    };
    chapters.filter_map(place).collect()
}

/// The text files that these pages link to and that are no page yet, with those that documents among
/// them link to.
pub(crate) fn linked(
    root: &Path,
    pages: &BTreeMap<PathBuf, String>,
) -> Result<BTreeMap<PathBuf, String>, String> {
    let link = Regex::new(r"\]\(([^)#?\s]+)").map_err(|error| error.to_string())?;
    let targets = |from: &Path, text: &str| -> Vec<PathBuf> {
        let folder = from.parent().unwrap_or(Path::new(""));
        let links = link.captures_iter(text).map(|found| found[1].to_owned());
        let inside = links.filter(|target| !target.contains(':'));
        inside.map(|target| document(root, normal(&folder.join(target)))).collect()
    };
    let mut waiting: Vec<PathBuf> =
        pages.iter().flat_map(|(from, text)| targets(from, text)).collect();
    let mut seen: BTreeSet<PathBuf> = pages.keys().cloned().collect();
    let mut found = BTreeMap::new();
    while let Some(path) = waiting.pop() {
        // What lies in docs is a page already, or a file that mdBook copies.
        if path.starts_with("docs") || !seen.insert(path.clone()) {
            continue;
        }
        if let Some(text) = text(&root.join(&path)) {
            if is_markdown(&path) {
                waiting.extend(targets(&path, &text));
            }
            found.insert(path, text);
        }
    }
    Ok(found)
}

/// The document of a folder, which is its README.
pub(crate) fn document(root: &Path, path: PathBuf) -> PathBuf {
    let readme = path.join("README.md");
    if root.join(&readme).is_file() { readme } else { path }
}

/// The text of a file that can be shown.
fn text(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    (size <= LONGEST).then(|| fs::read_to_string(path).ok())?
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Appends these files as pages, below one entry of the table of contents.
pub(crate) fn add(book: &mut Book, files: BTreeMap<PathBuf, String>) {
    if files.is_empty() {
        return;
    }
    let numbered =
        |item: &&BookItem| matches!(item, BookItem::Chapter(one) if one.number.is_some());
    let number = u32::try_from(book.items.iter().filter(numbered).count()).unwrap_or(0) + 1;
    let mut group = Chapter::new_draft(TITLE, Vec::new());
    group.number = Some(SectionNumber::new([number]));
    for (at, (path, text)) in (1..).zip(files) {
        let name = path.display().to_string();
        let content = match is_markdown(&path) {
            true => text,
            false => listing(&name, &text),
        };
        let outside = Path::new("..").join(&path);
        let mut chapter = Chapter::new(&name, content, outside, vec![TITLE.to_owned()]);
        chapter.path = Some(page(&path));
        chapter.number = Some(SectionNumber::new([number, at]));
        group.sub_items.push(chapter.into());
    }
    book.push_item(group);
}

/// A page with the text of a source file.
fn listing(name: &str, text: &str) -> String {
    let language = match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "rs" => "rust",
        "sh" => "sh",
        "toml" => "toml",
        "lua" => "lua",
        _ => "text",
    };
    let marks = "`".repeat(8);
    format!("# {name}\n\n{marks}{language}\n{text}\n{marks}\n")
}

/// The path without its `.` and `..`.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_the_whole_name_of_its_file() {
        assert_eq!(page(Path::new("../../a/b.rs")), Path::new("repository/a/b.rs.md"));
        assert_eq!(page(Path::new("../README.md")), Path::new("repository/README.md.md"));
    }
}
