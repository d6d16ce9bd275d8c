//! The defaults that `docs/defaults.md` and its Chinese twin name are those in the code.

use super::Violation;
use super::tree::Tree;

/// The pages, and how their links to sources begin.
const PAGES: [(&str, &str); 2] =
    [("docs/defaults.md", "](../"), ("docs/zh/defaults.md", "](../../")];

/// The words in backticks after a link to a source must be in that source.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    PAGES.into_iter().flat_map(|(page, link)| check_page(tree, page, link)).collect()
}

fn check_page(tree: &Tree, page: &str, link: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in tree.files.get(page).map_or("", String::as_str).lines().enumerate() {
        let mut pieces = line.split(link);
        pieces.next();
        for piece in pieces {
            let Some((path, rest)) = piece.split_once(')') else { continue };
            let source = tree.files.get(path).map(|text| words(text)).unwrap_or_default();
            // Every other piece stands between two backticks.
            for quoted in rest.split('`').skip(1).step_by(2) {
                if !source.contains(&words(&quoted.replace("\\|", "|"))) {
                    let what = format!("`{quoted}` is not in {path} any more");
                    let next = "write the default that the code has now";
                    found.push(Violation::at(page, index + 1, what, next));
                }
            }
        }
    }
    found
}

/// The text with every run of white space as one blank.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_that_changed_is_found_on_both_pages() {
        let row =
            |link: &str, text: &str| format!("| `ttl` | why<br>[a.rs]({link}src/a.rs) {text} |\n");
        let page = |link: &str| {
            row(link, "`TTL: u32 =\\| 30` `B: u32 = 2`") + &row(link, "`TTL: u32 = 29`")
        };
        let [english, chinese] = PAGES.map(|(path, link)| (path, page(&link[2..])));
        let source = ("src/a.rs", "const TTL: u32 =|\n    30;\nB: u32 = 2;");
        let tree = Tree::of([(english.0, &*english.1), (chinese.0, &*chinese.1), source]);
        let found: Vec<_> = check(&tree).into_iter().map(|v| (v.file, v.line)).collect();
        let expected = PAGES.map(|(path, _)| (path.to_owned(), Some(2)));
        assert_eq!(found, expected);
        assert!(check(&Tree::of([("a.rs", "")])).is_empty());
    }
}
