//! The structure of the code: which module of a crate uses which, and which crate which.

mod draw;
mod uses;

use std::collections::{BTreeMap, BTreeSet};

use super::code::code_outside_tests;
use super::tree::Tree;

pub(crate) use draw::svg;
pub(super) use uses::declared;

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

/// A source: the path of its module from the root of the crate, and its code.
type Source<'a> = (Vec<&'a str>, String);

/// The modules at the top of the crate whose sources are below `folder` (`.../src`), and which uses
/// which. A module stands for all below it. Names that the root exports count for the module that
/// has them; before `::`, a name is the module of that name if there is one.
pub(crate) fn modules(tree: &Tree, folder: &str) -> Graph {
    modules_in(&sources(tree, folder), &[])
}

/// The same for the modules at the top, and then for the modules inside each module that has some,
/// which are named by their path.
pub(crate) fn modules_by_folder(tree: &Tree, folder: &str) -> Vec<Graph> {
    let sources = sources(tree, folder);
    let folders: BTreeSet<&[&str]> = sources
        .iter()
        .filter_map(|(place, _)| place.split_last())
        .map(|(_, above)| above)
        .collect();
    folders.into_iter().map(|above| modules_in(&sources, above)).collect()
}

fn sources<'a>(tree: &'a Tree, folder: &str) -> Vec<Source<'a>> {
    let prefix = format!("{folder}/");
    tree.rust()
        .filter(|(path, _)| !path.ends_with("tests.rs"))
        .filter_map(|(path, text)| Some((place(path.strip_prefix(&prefix)?), text)))
        .map(|(place, text)| (place, code_outside_tests(text)))
        .collect()
}

/// The modules inside the module `above`, and which uses which. What `above` itself has counts for
/// none of them.
fn modules_in(sources: &[Source<'_>], above: &[&str]) -> Graph {
    let full = |name: &str| above.iter().chain([&name]).copied().collect::<Vec<_>>().join("/");
    let inside = |place: &[&str]| place.strip_prefix(above)?.first().map(|name| full(name));
    let mut graph = Graph::default();
    for module in sources.iter().filter_map(|(place, _)| inside(place)) {
        graph.uses.entry(module).or_default();
    }
    let mut exported = BTreeMap::new();
    for (_, code) in sources.iter().filter(|(place, _)| place == above) {
        for (path, name) in uses::declared(code) {
            let home = path.iter().find(|part| !matches!(part.as_str(), "self" | "crate"));
            if let Some(home) =
                home.map(|home| full(home)).filter(|home| graph.uses.contains_key(home))
            {
                exported.insert(name, home);
            }
        }
    }
    for (place, code) in sources {
        let Some(module) = inside(place) else { continue };
        for path in uses::paths(code, place) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let Some((name, rest)) = path.strip_prefix(above).and_then(<[&str]>::split_first)
            else {
                continue;
            };
            let named = full(name);
            let is_module = !rest.is_empty() && graph.uses.contains_key(&named);
            let home = exported.get(*name).filter(|_| !is_module).unwrap_or(&named);
            graph.add(&module, home);
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
    fn before_a_path_separator_a_module_wins_over_an_exported_name() {
        let tree = |b: &str| {
            tree(&[
                ("lib.rs", "mod a; mod b; mod c; pub use c::a;"),
                ("a.rs", ""),
                ("b.rs", b),
                ("c.rs", ""),
            ])
        };
        let used = |b| modules(&tree(b), "c/src").uses["b"].iter().cloned().collect::<Vec<_>>();
        assert_eq!(used("fn f() { crate::a::g() }"), ["a"]);
        assert_eq!(used("use crate::{a::g};"), ["a"]);
        assert_eq!(used("fn f() { crate::a() }"), ["c"]);
        assert_eq!(used("use crate::{a};"), ["c"]);
    }

    #[test]
    fn a_circle_inside_a_folder_is_found_and_use_of_the_file_above_is_none() {
        let tree = tree(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; mod d; pub use c::Thing; struct Own; use b::X;"),
            ("a/b.rs", "use super::{Own, Thing};"),
            ("a/c.rs", "mod e; fn f() { crate::a::b::g() }"),
            ("a/c/e.rs", "use super::super::{d::{Y, Z}};"),
            ("a/d.rs", "use super::Own;"),
        ]);
        let graphs = modules_by_folder(&tree, "c/src");
        assert_eq!(graphs[1].uses["a/c"].iter().collect::<Vec<_>>(), ["a/b", "a/d"]);
        let circles: Vec<_> = graphs.iter().flat_map(Graph::circles).collect();
        assert_eq!(circles, [["a/b", "a/c"]]);
    }

    #[test]
    fn a_path_in_the_middle_of_an_expression_counts() {
        let tree = tree(&[("lib.rs", ""), ("a.rs", "fn f() { crate::b::g() }"), ("b.rs", "")]);
        assert!(modules(&tree, "c/src").uses["a"].contains("b"));
    }
}
