//! The structure of the code: which module of a crate uses which, and which crate which.

mod draw;
mod uses;

use std::collections::{BTreeMap, BTreeSet};

use super::code::code_outside_tests;
use super::tree::Tree;

pub(crate) use draw::svg;

/// Nodes by name, and who uses whom.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) uses: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Adds that `from` uses `to`, if both are nodes.
    fn add(&mut self, from: &str, to: &str) {
        if from != to && self.uses.contains_key(to) {
            self.uses.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
    }

    /// Returns all that a node uses, directly or through others.
    fn reached<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(node) = open.pop() {
            for next in self.uses.get(node).into_iter().flatten() {
                if reached.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        reached
    }

    /// Returns the largest groups of nodes of which each uses each, directly or through others.
    pub(crate) fn circles(&self) -> Vec<Vec<&str>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.uses.keys().map(|node| (node.as_str(), self.reached(node))).collect();
        let mut found = BTreeSet::new();
        for (node, theirs) in &reached {
            let both = |other: &&&str| reached[**other].contains(node);
            let circle: Vec<&str> = theirs.iter().filter(both).copied().collect();
            if circle.len() > 1 {
                found.insert(circle);
            }
        }
        found.into_iter().collect()
    }
}

/// The packages of the workspace, and which uses which outside tests.
pub(crate) fn crates(tree: &Tree) -> Graph {
    let mut graph = Graph::default();
    for package in &tree.packages {
        graph.uses.insert(package.name.clone(), BTreeSet::new());
    }
    for package in &tree.packages {
        for need in package.needs.iter().filter(|need| !need.dev) {
            graph.add(&package.name, &need.name);
        }
    }
    graph
}

/// The modules at the top of the crate whose sources are below `folder` (`.../src`), and which uses
/// which. A module stands for all below it. Names that the root exports count for the module that
/// has them.
pub(crate) fn modules(tree: &Tree, folder: &str) -> Graph {
    let prefix = format!("{folder}/");
    let sources: Vec<(Vec<&str>, String)> = tree
        .rust()
        .filter(|(path, _)| !path.ends_with("tests.rs"))
        .filter_map(|(path, text)| Some((place(path.strip_prefix(&prefix)?), text)))
        .map(|(place, text)| (place, code_outside_tests(text)))
        .collect();
    let mut graph = Graph::default();
    for (place, _) in &sources {
        if let Some(module) = place.first() {
            graph.uses.entry((*module).to_owned()).or_default();
        }
    }
    let mut exported = BTreeMap::new();
    for (_, code) in sources.iter().filter(|(place, _)| place.is_empty()) {
        for (path, name) in uses::declared(code) {
            let home = path.iter().find(|part| !matches!(part.as_str(), "self" | "crate"));
            if let Some(home) = home.filter(|home| graph.uses.contains_key(*home)) {
                exported.insert(name, home.clone());
            }
        }
    }
    for (place, code) in &sources {
        let Some(module) = place.first() else { continue };
        for name in uses::at_root(code, place.len()) {
            let home = exported.get(&name).unwrap_or(&name);
            graph.add(module, home);
        }
    }
    graph
}

/// The module of a file, from the root of its crate; nothing for the root itself.
fn place(path: &str) -> Vec<&str> {
    let mut place: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    if matches!(place.last(), Some(&"mod")) || matches!(place[..], ["lib" | "main"]) {
        place.pop();
    }
    if matches!(place.first(), Some(&"bin")) {
        place.clear();
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| (format!("c/src/{path}"), (*text).to_owned()));
        Tree { files: files.collect(), packages: Vec::new() }
    }

    #[test]
    fn a_circle_through_a_name_that_the_root_exports_is_found() {
        let tree = tree(&[
            ("lib.rs", "mod a; mod b; mod c; pub use b::{deep::Thing as Other};"),
            ("a.rs", "use crate::Other; use crate::c::X;"),
            ("b/deep.rs", "use super::super::a::{self};"),
            ("c.rs", "// use crate::a;\n#[cfg(test)] mod tests { use crate::a; }"),
        ]);
        let graph = modules(&tree, "c/src");
        assert_eq!(graph.uses["a"].iter().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(graph.circles(), [["a", "b"]]);
    }

    #[test]
    fn a_path_in_the_middle_of_an_expression_counts() {
        let tree = tree(&[("lib.rs", ""), ("a.rs", "fn f() { crate::b::g() }"), ("b.rs", "")]);
        assert!(modules(&tree, "c/src").uses["a"].contains("b"));
    }
}
