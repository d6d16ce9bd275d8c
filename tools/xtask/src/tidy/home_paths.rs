//! No file knows the home directory of the one who wrote it.

use super::Violation;
use super::tree::Tree;

/// Put together here, so that this file does not break its own rule.
const HOMES: [&str; 2] = [concat!("/ho", "me/"), concat!("/ro", "ot/")];

/// Checks every text file.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        for (index, line) in text.lines().enumerate() {
            if let Some(home) = HOMES.iter().find(|home| names(line, home)) {
                let what = format!("names a path under `{home}`");
                let next = "make it relative, or take it from the environment";
                found.push(Violation::at(path, index + 1, what, next));
            }
        }
    }
    found
}

/// Whether `home` begins a path there; not in `https://example.org` + `home`.
fn names(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_home_is_found_in_any_file() {
        let planted = format!("first\ncd {}me/leasehold\n", HOMES[0]);
        let url = format!("https://example.org{}page", HOMES[0]);
        let found = check(&Tree::of([("a.sh", &planted), ("b.md", &url)]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].file.as_str(), found[0].line), ("a.sh", Some(2)));
    }
}
