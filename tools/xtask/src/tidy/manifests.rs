//! Every crate takes its version, licence and lints from the workspace, and says how docs.rs builds it.

use super::Violation;
use super::tree::Tree;

const INHERITED: [(&str, &str); 3] =
    [("package", "version"), ("package", "license"), ("lints", "")];

/// What a library has in its manifest and its root, so that docs.rs shows all features, and which item needs which.
const ON_DOCS_RS: [(&str, &str); 2] = [
    (
        "Cargo.toml",
        "[package.metadata.docs.rs]\nall-features = true\nrustdoc-args = [\"--cfg\", \"docsrs\"]\n",
    ),
    ("src/lib.rs", "#![cfg_attr(docsrs, feature(doc_cfg))]\n"),
];

/// Checks that docs.rs builds each published library below `crates` with all its features.
pub(super) fn docs_rs(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in tree.packages.iter().filter(|package| package.is_published) {
        let folder = package.manifest.trim_end_matches("Cargo.toml");
        if !folder.starts_with("crates/")
            || !tree.files.contains_key(&format!("{folder}src/lib.rs"))
        {
            continue;
        }
        for (file, needed) in ON_DOCS_RS {
            let file = format!("{folder}{file}");
            if !tree.files.get(&file).is_some_and(|text| text.contains(needed)) {
                let what = format!("does not have `{}`", needed.trim_end().replace('\n', " "));
                found.push(Violation::of(
                    &file,
                    what,
                    "add it: docs.rs shows what a feature brings",
                ));
            }
        }
    }
    found
}

/// Checks the manifest of each member.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in &tree.packages {
        let text = tree.files.get(&package.manifest).map_or("", String::as_str);
        for (section, key) in INHERITED {
            let key = if key.is_empty() { "workspace".into() } else { format!("{key}.workspace") };
            if !says(text, section, &key) {
                let what = format!("`{key}` is not set in [{section}]");
                let next = format!("write `{key} = true` in [{section}]");
                found.push(Violation::of(&package.manifest, what, next));
            }
        }
    }
    found
}

/// Whether the section has the line `key = true`.
fn says(manifest: &str, section: &str, key: &str) -> bool {
    let mut inside = false;
    manifest.lines().any(|line| {
        let line: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if line.starts_with('[') {
            inside = line == format!("[{section}]");
        }
        inside && line == format!("{key}=true")
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::Package;
    use super::*;

    fn planted(manifest: &str) -> usize {
        let mut tree = Tree::of([("crates/a/Cargo.toml", manifest)]);
        tree.packages.push(Package {
            name: "a".into(),
            manifest: "crates/a/Cargo.toml".into(),
            is_published: true,
            needs: Vec::new(),
        });
        check(&tree).len()
    }

    #[test]
    fn a_library_that_docs_rs_shows_in_part_is_found() {
        let of = |manifest: &str, root: &str, is_published: bool| {
            let manifest = ("crates/a/Cargo.toml", manifest);
            let mut tree = Tree::of([manifest, ("crates/a/src/lib.rs", root)]);
            tree.packages.push(Package {
                name: "a".into(),
                manifest: "crates/a/Cargo.toml".into(),
                is_published,
                needs: Vec::new(),
            });
            docs_rs(&tree).len()
        };
        let [(_, manifest), (_, root)] = ON_DOCS_RS;
        assert_eq!(of(manifest, root, true), 0);
        assert_eq!((of("", root, true), of(manifest, "", true), of("", "", false)), (1, 1, 0));
    }

    #[test]
    fn what_is_not_inherited_is_found() {
        let all = "[package]\nname = \"a\"\nversion.workspace = true\nlicense.workspace = true\n\
                   [lints]\nworkspace = true # all of them\n";
        assert_eq!(planted(all), 0);
        assert_eq!(planted(&all.replace("version.workspace = true", "version = \"1.0.0\"")), 1);
        assert_eq!(planted(&all.replace("[lints]", "[features]")), 1);
        assert_eq!(planted(""), 3);
    }
}
