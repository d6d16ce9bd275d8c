//! The links of the built books: those into the repository are settled, the others checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;
use regex::{Captures, Regex};

use crate::pages;

/// What a link leads to.
enum Target {
    /// A page or file of the books, or another site.
    Here,
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
    /// The anchors of each page.
    anchors: BTreeMap<PathBuf, BTreeSet<String>>,
}

/// Rewrites the links that lead out of the books into the repository, and returns those that lead
/// nowhere.
pub(crate) fn settle(
    root: &Path,
    output: &Path,
    repository: Option<&str>,
) -> Result<Vec<String>, String> {
    let pattern = |text| Regex::new(text).map_err(|error: regex::Error| error.to_string());
    let link = pattern(r#"\b(href|src)="([^"]*)""#)?;
    let id = pattern(r#"\sid="([^"]*)""#)?;
    let mut anchors = BTreeMap::new();
    let all = pages::below(output)?;
    for page in &all {
        let text = pages::read(page)?;
        let ids = id.captures_iter(&text).map(|found| found[1].to_owned()).collect();
        anchors.insert(page.clone(), ids);
    }
    let places = Places { root, output, anchors };
    let mut wrong = Vec::new();
    for page in &all {
        let text = pages::read(page)?;
        let settled =
            link.replace_all(&text, |found: &Captures<'_>| match places.target(page, &found[2]) {
                Target::Here => found[0].to_owned(),
                Target::Repository(path) => match repository {
                    Some(url) => format!("href=\"{}/blob/main/{path}\"", url.trim_end_matches('/')),
                    None => format!("title=\"{path} in the repository\""),
                },
                Target::Nowhere(why) => {
                    let page = page.strip_prefix(output).unwrap_or(page).display();
                    wrong.push(format!("{page}: {why}"));
                    found[0].to_owned()
                }
            });
        if settled != text {
            pages::write(page, &settled)?;
        }
    }
    Ok(wrong)
}

impl Places<'_> {
    /// What the link of this page leads to.
    fn target(&self, page: &Path, link: &str) -> Target {
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
        match self.in_repository(&target) {
            Some(path) => Target::Repository(path),
            None => Target::Nowhere(format!("no file for {link}")),
        }
    }

    /// The path in the repository of what would lie here beside the books.
    ///
    /// The books lie where `docs` lies, so a step out of them is a step out of `docs`. mdBook has
    /// replaced `.md` by `.html`.
    fn in_repository(&self, target: &Path) -> Option<String> {
        let outside = target.strip_prefix(self.output.parent()?);
        let path = match target.strip_prefix(self.output) {
            Ok(inside) => Path::new("docs").join(inside),
            Err(_) => outside.ok()?.to_owned(),
        };
        [path.clone(), path.with_extension("md")]
            .into_iter()
            .find(|path| self.root.join(path).exists())
            .map(|path| path.display().to_string())
    }
}

/// The path without its `.` and `..`.
fn normal(path: &Path) -> PathBuf {
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
