//! No circles between the modules of a crate, and pictures that show the structure as it is.

use std::fs;

use super::Violation;
use super::structure::{Graph, crates, modules, modules_by_folder, svg};
use super::tree::{Package, Tree};
use crate::run::root;

/// The circles that are allowed, by crate. `decisions/0021-circles-between-modules.md` says why.
const ALLOWED: &[(&str, &[&[&str]])] = &[
    ("leasehold-core", &[&["client", "guard", "lock"]]),
    ("leasehold-sim", &[&["lab/stories", "lab/tale"]]),
];

/// The crates whose modules are drawn.
const DRAWN: &[&str] = &["leasehold-core", "leasehold-proto"];

/// Circles that are not allowed, circles that are allowed and gone, and pictures that are out of date.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in &tree.packages {
        let graphs = modules_by_folder(tree, &sources(package));
        let circles: Vec<Vec<&str>> = graphs.iter().flat_map(Graph::circles).collect();
        let allowed = allowed(&package.name);
        for circle in circles.iter().filter(|circle| !allowed.contains(&circle.as_slice())) {
            let what = format!("its modules use each other in a circle: {}", circle.join(", "));
            let next = "move what ties them into a module below, or change the list in \
                        tools/xtask/src/tidy/circles.rs and say why in decisions/0021";
            found.push(Violation::of(&package.manifest, what, next));
        }
        for gone in allowed.iter().filter(|one| !circles.iter().any(|circle| circle == *one)) {
            let what = format!("the allowed circle of {} is gone or has changed", gone.join(", "));
            let next = "take it out of the list in tools/xtask/src/tidy/circles.rs";
            found.push(Violation::of(&package.manifest, what, next));
        }
    }
    let stale = |(file, text): &(String, String)| tree.files.get(file) != Some(text);
    for (file, _) in pictures(tree).iter().filter(|picture| stale(picture)) {
        found.push(Violation::of(
            file,
            "does not show the structure as it is",
            "cargo xtask graph",
        ));
    }
    found
}

/// Writes the pictures.
pub(crate) fn write() -> Result<(), String> {
    for (file, text) in pictures(&Tree::read()?) {
        fs::write(root().join(&file), text).map_err(|error| format!("{file}: {error}"))?;
        println!("{file}");
    }
    Ok(())
}

fn pictures(tree: &Tree) -> Vec<(String, String)> {
    let crates =
        svg("The crates of Leasehold: each may use all that can be reached from it", &crates(tree));
    let mut all = vec![("docs/pictures/crates.svg".to_owned(), crates)];
    for package in tree.packages.iter().filter(|one| DRAWN.contains(&one.name.as_str())) {
        let title = format!(
            "The modules of {}: each may use all that can be reached from it",
            package.name
        );
        let text = svg(&title, &modules(tree, &sources(package)));
        all.push((format!("docs/pictures/{}.svg", package.name), text));
    }
    all
}

fn sources(package: &Package) -> String {
    package.manifest.replace("Cargo.toml", "src")
}

fn allowed(name: &str) -> &'static [&'static [&'static str]] {
    ALLOWED.iter().find(|(package, _)| *package == name).map_or(&[], |(_, circles)| circles)
}
