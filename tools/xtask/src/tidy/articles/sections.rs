//! Links from the tables to a section of a page, in the language of the reader.

use crate::tidy::markdown::split;
use crate::tidy::tree::Tree;

/// Returns what is wrong with the column `page`: `NAME.md` or `NAME.md#SECTION` of the English page.
pub(super) fn fault(tree: &Tree, page: &str) -> Option<String> {
    let (name, section) = parts(page);
    let Some(english) = tree.files.get(&format!("docs/{name}")) else {
        return Some(format!("names the page `{name}`, which does not exist"));
    };
    let section = section?;
    let english = headings(english);
    let Some(at) = english.iter().position(|heading| slug(heading) == section) else {
        return Some(format!("names `{page}`, and {name} has no such section"));
    };
    let chinese = tree.files.get(&format!("docs/zh/{name}")).map(|text| headings(text));
    let pairs = chinese.is_none_or(|chinese| chinese.len() == english.len() && at > 0);
    (!pairs).then(|| format!("names `{page}`: docs/zh/{name} has other headings than docs/{name}"))
}

/// Returns the link to the section, from a page in this folder: to the page in the same language if there is one.
pub(super) fn link(tree: &Tree, folder: &str, page: &str) -> String {
    let (name, section) = parts(page);
    let near = format!("{folder}/{name}");
    let (file, to) = match tree.files.get(&near) {
        Some(file) => (file, name.to_owned()),
        None => match tree.files.get(&format!("docs/{name}")) {
            Some(file) => (file, format!("../{name}")),
            None => return String::new(),
        },
    };
    let headings = headings(file);
    let title = headings.first().map_or("", String::as_str);
    let title = title.split([':', '：', '（', '(']).next().unwrap_or_default().trim();
    let section = section.and_then(|section| {
        // The headings of a page and of its translation stand in the same order.
        let english = self::headings(tree.files.get(&format!("docs/{name}"))?);
        let at = english.iter().position(|heading| slug(heading) == section)?;
        headings.get(at).map(|heading| format!("#{}", slug(heading)))
    });
    format!("[{title}]({to}{})", section.unwrap_or_default())
}

fn parts(page: &str) -> (&str, Option<&str>) {
    page.split_once('#').map_or((page, None), |(name, section)| (name, Some(section)))
}

/// Returns the headings of a page, its title first, without their marks.
fn headings(text: &str) -> Vec<String> {
    let lines = split(text).0.into_iter();
    let heading = |(_, line): (usize, &str)| {
        let bare = line.trim_start_matches('#');
        (bare != line && bare.starts_with(' ')).then(|| bare.trim().replace('`', ""))
    };
    lines.filter_map(heading).collect()
}

/// Returns the anchor of a heading, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    let chars = heading.chars().flat_map(char::to_lowercase);
    let kept = chars.filter_map(|c| match c {
        c if c.is_whitespace() => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "# The cache: a page\n\n```sh\n# no heading\n```\n\n## Work: `RunOnce`\n";
    const CHINESE: &str = "# 缓存：一页\n\n## 工作：`RunOnce`\n";

    fn tree() -> Tree {
        let pages =
            [("docs/cache.md", ENGLISH), ("docs/zh/cache.md", CHINESE), ("docs/own.md", ENGLISH)];
        Tree::of(pages)
    }

    #[test]
    fn a_link_leads_to_the_section_in_the_language_of_the_page() {
        let tree = tree();
        let english = link(&tree, "docs", "cache.md#work-runonce");
        assert_eq!(english, "[The cache](cache.md#work-runonce)");
        assert_eq!(link(&tree, "docs/zh", "cache.md#work-runonce"), "[缓存](cache.md#工作runonce)");
        assert_eq!(link(&tree, "docs/zh", "own.md"), "[The cache](../own.md)");
        assert_eq!(
            link(&tree, "docs/zh", "own.md#work-runonce"),
            "[The cache](../own.md#work-runonce)"
        );
    }

    #[test]
    fn a_section_that_is_missing_or_has_no_pair_is_a_fault() {
        let mut tree = tree();
        assert_eq!(fault(&tree, "cache.md#work-runonce"), None);
        assert_eq!(fault(&tree, "cache.md"), None);
        for page in ["no.md", "no.md#work-runonce", "cache.md#no"] {
            assert!(fault(&tree, page).is_some(), "{page}");
        }
        tree.files.insert("docs/zh/cache.md".into(), "# 缓存\n".into());
        assert!(fault(&tree, "cache.md#work-runonce").unwrap().contains("other headings"));
    }
}
