//! Each example is run by a test of its package.

use std::collections::BTreeSet;

use super::Violation;
use super::tree::Tree;

const FOLDER: &str = "/examples/";

/// Finds the examples of the crates that no test of their package names.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let files = tree.rust().filter(|(path, _)| path.starts_with("crates/"));
    let examples: BTreeSet<_> = files.filter_map(|(path, _)| example(path)).collect();
    let unrun = examples.into_iter().filter(|(folder, name)| !is_run(tree, folder, name));
    let violation = |(folder, name): (&str, &str)| {
        let what = format!("no test runs the example `{name}`");
        let next = "call `leasehold_conformance::examples::run`, and look at what it prints";
        Violation::of(&format!("{folder}{FOLDER}{name}"), what, next)
    };
    unrun.map(violation).collect()
}

/// Returns the folder of the package, and the name of the example that has this file.
fn example(path: &str) -> Option<(&str, &str)> {
    let (folder, rest) = path.split_once(FOLDER)?;
    let name = rest.split('/').next()?;
    Some((folder, name.strip_suffix(".rs").unwrap_or(name)))
}

/// Returns true if a test starts the example by its name, or has a file of it as a module.
fn is_run(tree: &Tree, folder: &str, name: &str) -> bool {
    let tests = format!("{folder}/tests/");
    let texts =
        [format!("\"{name}\""), format!("../examples/{name}.rs\""), format!("../examples/{name}/")];
    let mut tests = tree.rust().filter(|(path, _)| path.starts_with(&tests));
    tests.any(|(_, text)| {
        text.contains("examples") && texts.iter().any(|has| text.contains(has.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_no_test_of_its_package_runs_is_found() {
        let tree = Tree::of([
            ("crates/a/examples/one.rs", ""),
            ("crates/a/examples/two/main.rs", ""),
            ("crates/a/examples/two/part.rs", ""),
            ("crates/a/examples/three.rs", ""),
            ("crates/a/examples/four.rs", ""),
            ("tools/b/examples/model.rs", ""),
            (
                "crates/a/tests/examples.rs",
                "#[path = \"../examples/one.rs\"]\nmod one;\n\
                 #[path = \"../examples/two/part.rs\"]\nmod part;\nfn f() { run(\"three\") }\n",
            ),
            ("crates/b/tests/examples.rs", "run(\"four\")"),
        ]);
        let found = check(&tree);
        let files: Vec<_> = found.iter().map(|violation| violation.file.as_str()).collect();
        assert_eq!(files, ["crates/a/examples/four"]);
    }
}
