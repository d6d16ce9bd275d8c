//! The links of the built books: those into the repository are settled, the others checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use regex::{Captures, Regex};

use crate::files::{document, normal};
use crate::pages;

/// What a link leads to.
enum Target {
    /// A page or file of the books, or another site.
    Here,
    /// A page of the books that shows this file of the repository: the link to write.
    Page(String),
    /// A file of the repository that is in no book: its path from the root.
    Repository(String),
    /// Nothing; why.
    Nowhere(String),
}

/// Where links are looked up.
struct Places<'a> {
    /// Root of the repository.
    root: &'a Path,
    /// Root of the built books.
    output: &'a Path,
    /// The page, from the root of the books, of each file of the repository.
    pages: &'a BTreeMap<PathBuf, PathBuf>,
    /// The anchors of each page.
    anchors: BTreeMap<PathBuf, BTreeSet<String>>,
}

/// Rewrites the links that lead out of the books into the repository, and returns those that lead
/// nowhere. `shown` has the page of each file of the repository.
pub(crate) fn settle(
    root: &Path,
    output: &Path,
    shown: &BTreeMap<PathBuf, PathBuf>,
    repository: Option<&str>,
) -> Result<Vec<String>, String> {
    let pattern = |text| Regex::new(text).map_err(|error: regex::Error| error.to_string());
    let link = pattern(r#"(<[a-z][^<>]*\s)(href|src)="([^"]*)""#)?;
    let id = pattern(r#"\sid="([^"]*)""#)?;
    let mut anchors = BTreeMap::new();
    let all = pages::below(output)?;
    for page in &all {
        let text = pages::read(page)?;
        let ids = id.captures_iter(&text).map(|found| found[1].to_owned()).collect();
        anchors.insert(page.clone(), ids);
    }
    let sources: BTreeMap<PathBuf, &PathBuf> =
        shown.iter().map(|(source, page)| (output.join(page), source)).collect();
    let places = Places { root, output, pages: shown, anchors };
    let mut wrong = Vec::new();
    for page in &all {
        let text = pages::read(page)?;
        let source = sources.get(page).map(|source| source.as_path());
        let settled = link.replace_all(&text, |found: &Captures<'_>| {
            let attribute = match places.target(page, source, &found[3]) {
                Target::Here => return found[0].to_owned(),
                Target::Page(link) => format!("{}=\"{link}\"", &found[2]),
                Target::Repository(path) => match repository {
                    Some(url) => format!("href=\"{}/blob/main/{path}\"", url.trim_end_matches('/')),
                    None => format!("title=\"{path} in the repository\""),
                },
                Target::Nowhere(why) => {
                    let page = page.strip_prefix(output).unwrap_or(page).display();
                    wrong.push(format!("{page}: {why}"));
                    return found[0].to_owned();
                }
            };
            format!("{}{attribute}", &found[1])
        });
        if settled != text {
            pages::write(page, &settled)?;
        }
    }
    Ok(wrong)
}

impl Places<'_> {
    /// What the link of this page leads to; `source` is the page's file in the repository.
    fn target(&self, page: &Path, source: Option<&Path>, link: &str) -> Target {
        let first = link.split(['/', '#', '?']).next().unwrap_or_default();
        if first.contains(':') {
            return Target::Here;
        }
        let link = percent_decode_str(link).decode_utf8_lossy().into_owned();
        let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = match path {
            "" => page.to_owned(),
            path => normal(&page.parent().unwrap_or(page).join(path)),
        };
        let target = if target.is_dir() { target.join("index.html") } else { target };
        if let Some(anchors) = self.anchors.get(&target) {
            return match anchor.is_empty() || anchors.contains(anchor) {
                true => Target::Here,
                false => Target::Nowhere(format!("no heading for {link}")),
            };
        }
        if target.starts_with(self.output) && target.is_file() {
            return Target::Here;
        }
        let inside = source.and_then(|source| self.in_repository(source, path));
        let Some(file) = inside else {
            return Target::Nowhere(format!("no file for {link}"));
        };
        let shown = self.pages.get(&file).map(|shown| self.output.join(shown));
        match shown.as_ref().and_then(|shown| Some((shown, self.anchors.get(shown)?))) {
            Some((shown, anchors)) if anchor.is_empty() || anchors.contains(anchor) => {
                let from = page.parent().unwrap_or(page);
                let anchor = link.find('#').map_or("", |at| &link[at..]);
                Target::Page(format!("{}{anchor}", between(from, shown)))
            }
            Some(_) => Target::Nowhere(format!("no heading for {link}")),
            None if file.starts_with("docs") && self.copied(&file).is_file() => {
                let from = page.parent().unwrap_or(page);
                Target::Page(between(from, &self.copied(&file)))
            }
            None => Target::Repository(file.display().to_string()),
        }
    }

    /// The path in the repository of what a link in this file leads to. mdBook has replaced `.md` by
    /// `.html`.
    fn in_repository(&self, source: &Path, link: &str) -> Option<PathBuf> {
        let path = normal(&source.parent()?.join(link));
        [path.clone(), path.with_extension("md")]
            .into_iter()
            .find(|path| self.root.join(path).exists())
            .map(|path| document(self.root, path))
    }

    /// Where mdBook has copied a file of `docs` that is no page, such as a picture.
    fn copied(&self, file: &Path) -> PathBuf {
        self.output.join(file.strip_prefix("docs").unwrap_or(file))
    }
}

/// The link from a folder to a file; both are below the same root.
fn between(folder: &Path, file: &Path) -> String {
    let common = folder.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| "..".to_owned());
    let down = file.components().skip(common);
    let down = down.map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_goes_up_to_the_common_folder_and_down() {
        let link = |folder, file| between(Path::new(folder), Path::new(file));
        assert_eq!(link("/book", "/book/zh/a.html"), "zh/a.html");
        assert_eq!(link("/book/zh/b", "/book/c.html"), "../../c.html");
    }
}
