//! Decision records have one numbering, `decisions/0001-words.md`, and an index with all of them.

use std::collections::BTreeMap;

use super::Violation;
use super::tree::Tree;

const FOLDER: &str = "decisions/";
const INDEX: &str = "decisions/README.md";

/// Checks the names of the records, their numbers and the index.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let (mut found, mut numbers) = (Vec::new(), BTreeMap::new());
    let index = tree.files.get(INDEX).map_or("", String::as_str);
    let records = tree.files.keys().filter(|path| path.starts_with(FOLDER) && *path != INDEX);
    for path in records {
        let name = path.strip_prefix(FOLDER).unwrap_or_default();
        let Some(number) = number(name) else {
            let next = "name it NNNN-words.md, with the next free number";
            found.push(Violation::of(path, "a decision record without a number", next));
            continue;
        };
        if let Some(other) = numbers.insert(number, path) {
            let what = format!("has the number of {other}");
            found.push(Violation::of(path, what, "take the next free number"));
        }
        if !index.contains(&format!("({name})")) {
            let what = "is not in the index of the decision records";
            found.push(Violation::of(path, what, format!("add a line to {INDEX}")));
        }
    }
    found
}

fn number(name: &str) -> Option<u32> {
    let (digits, _) = name.split_once('-')?;
    (digits.len() == 4).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_without_a_number_of_their_own_and_a_line_in_the_index_are_found() {
        let index = (INDEX, "- [One](0001-one.md)\n- [Two](0002-two.md)\n");
        let one = ("decisions/0001-one.md", "# One\n");
        assert_eq!(check(&Tree::of([index, one, ("decisions/0002-two.md", "")])).len(), 0);
        assert_eq!(check(&Tree::of([index, one, ("decisions/two.md", "")])).len(), 1);
        assert_eq!(check(&Tree::of([index, one, ("decisions/0003-three.md", "")])).len(), 1);
        let twice = check(&Tree::of([index, one, ("decisions/0001-other.md", "")]));
        assert_eq!(twice.len(), 2, "the number, and the index: {twice:?}");
    }
}
