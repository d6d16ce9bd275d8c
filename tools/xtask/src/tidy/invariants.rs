//! Every invariant in docs/invariants.md names the check that holds it, and the check exists.

use super::Violation;
use super::code::lines_with;
use super::markdown::{spans, split};
use super::tree::Tree;

const FILE: &str = "docs/invariants.md";
const FORM: &str = "write `N. **Title.** Text. Checked by: `path::test_name`, `cargo xtask tidy`.`";

/// A numbered item under a heading with "invariant" in it.
struct Invariant {
    line: usize,
    number: usize,
    text: String,
}

/// Checks the form of the list and that each named check is there.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.files.get(FILE) else {
        return vec![Violation::of(FILE, "is missing", "write the list of invariants")];
    };
    let invariants = invariants(text);
    let mut found = Vec::new();
    if invariants.is_empty() {
        let what = "has no numbered list under a heading `Invariants`";
        found.push(Violation::of(FILE, what, FORM));
    }
    for (index, invariant) in invariants.iter().enumerate() {
        let mut report =
            |what: String, next: &str| found.push(Violation::at(FILE, invariant.line, what, next));
        let number = invariant.number;
        if number != index + 1 {
            report(
                format!("invariant {number} stands in place {}", index + 1),
                "number them from 1",
            );
        }
        let checks = invariant.text.split_once("Checked by:").map(|(_, checks)| spans(checks).1);
        match checks {
            Some(checks) if !checks.is_empty() => {
                for check in checks.iter().filter(|check| !exists(tree, check)) {
                    let what = format!("invariant {number} names `{check}`, which does not exist");
                    report(what, "name a test function, a file, or a task of cargo xtask");
                }
            }
            _ => report(format!("invariant {number} names no check"), FORM),
        }
    }
    found
}

fn invariants(text: &str) -> Vec<Invariant> {
    let mut found: Vec<Invariant> = Vec::new();
    let (mut section, mut open) = (false, false);
    for (number, line) in split(text).0 {
        if line.starts_with('#') {
            section = line.to_lowercase().contains("invariant");
            open = false;
        } else if let Some((item, text)) = numbered(line).filter(|_| section) {
            found.push(Invariant { line: number, number: item, text: text.to_owned() });
            open = true;
        } else if line.trim().is_empty() || !open {
            // What is indented below still belongs to the item.
        } else if let Some(last) = found.last_mut() {
            last.text.push(' ');
            last.text.push_str(line.trim());
        }
    }
    found
}

fn numbered(line: &str) -> Option<(usize, &str)> {
    let (number, text) = line.split_once(". ")?;
    Some((number.parse().ok()?, text))
}

/// `cargo xtask TASK`, `path`, `path::test` or `test`. A test is a function, or a name in
/// quotes, as the conformance suite has them.
fn exists(tree: &Tree, check: &str) -> bool {
    if let Some(task) = check.strip_prefix("cargo xtask ") {
        return crate::TASKS.iter().any(|known| Some(known.name) == task.split(' ').next());
    }
    if tree.has(check) {
        return true;
    }
    let (path, test) = check.rsplit_once("::").unwrap_or(("", check));
    let function = format!("fn {test}");
    let quoted = format!("\"{test}\"");
    let defines =
        |text: &str| lines_with(text, &function).next().is_some() || text.contains(&quoted);
    let name = !test.is_empty() && test.chars().all(|c| c.is_alphanumeric() || c == '_');
    let file = path.contains('/').then_some(path);
    name && match file {
        Some(path) => tree.files.get(path).is_some_and(|text| defines(text)),
        None => tree.rust().any(|(_, text)| defines(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(list: &str) -> Vec<String> {
        let page = format!("# Map\n1. not one\n## Invariants\n{list}\n## Other\n7. nor this\n");
        let tree = Tree::of([
            (FILE, &page),
            ("crates/a/src/lease.rs", "#[test]\nfn never_late() {}\n"),
            ("crates/c/tests/suite.rs", "case(\"late_release\")"),
        ]);
        check(&tree).iter().map(|violation| violation.what.clone()).collect()
    }

    #[test]
    fn an_invariant_whose_checks_exist_holds() {
        let list = "1. **A.** Text\n   over lines. Checked by: `crates/a/src/lease.rs::never_late`,\n   \
                    `cargo xtask tidy`.\n\n2. **B.** Checked by: `never_late`, `crates/c/tests/suite.rs`,\n   \
                    `crates/c/tests/suite.rs::late_release`, `a::lease::never_late`.\n";
        assert_eq!(planted(list), [""; 0]);
    }

    #[test]
    fn checks_that_do_not_exist_are_found() {
        for check in [
            "crates/a/src/lease.rs::never",
            "crates/b/src/lease.rs::never_late",
            "crates/c/tests/gone.rs",
            "no_such_test",
            "cargo xtask pray",
        ] {
            assert_eq!(planted(&format!("1. **A.** Checked by: `{check}`.")).len(), 1, "{check}");
        }
    }

    #[test]
    fn a_list_without_checks_or_out_of_order_is_found() {
        assert!(planted("1. **A.** Believed by all.")[0].contains("names no check"));
        assert!(planted("1. **A.** Checked by: hand.")[0].contains("names no check"));
        assert!(planted("2. **A.** Checked by: `never_late`.")[0].contains("stands in place 1"));
        assert!(planted("")[0].contains("no numbered list"));
        assert!(check(&Tree::default())[0].what.contains("missing"));
    }
}
