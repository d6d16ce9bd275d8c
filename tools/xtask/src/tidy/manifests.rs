//! Every crate takes its version, licence and lints from the workspace.

use super::Violation;
use super::tree::Tree;

const INHERITED: [(&str, &str); 3] =
    [("package", "version"), ("package", "license"), ("lints", "")];

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
    fn what_is_not_inherited_is_found() {
        let all = "[package]\nname = \"a\"\nversion.workspace = true\nlicense.workspace = true\n\
                   [lints]\nworkspace = true # all of them\n";
        assert_eq!(planted(all), 0);
        assert_eq!(planted(&all.replace("version.workspace = true", "version = \"1.0.0\"")), 1);
        assert_eq!(planted(&all.replace("[lints]", "[features]")), 1);
        assert_eq!(planted(""), 3);
    }
}
