//! The list of all libraries in the program, in the form of CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::Release;
use super::build::Target;
use crate::run::{cargo, quiet, root};

/// The package of the program.
const PROGRAM: &str = "leasehold-cli";

/// A library in the program.
#[derive(Clone, Debug)]
pub(super) struct Library {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: String,
    pub(super) authors: Vec<String>,
    pub(super) folder: PathBuf,
    /// It is one of this workspace.
    pub(super) is_ours: bool,
    /// The SHA-256 of its package in the registry.
    pub(super) checksum: Option<String>,
    /// Names and versions of what it needs.
    pub(super) needs: Vec<(String, String)>,
}

/// Returns the list as JSON.
pub(super) fn of(release: &Release, libraries: &[Library]) -> Result<String, String> {
    let rust = quiet(Command::new("rustc").current_dir(root()).arg("--version"))?;
    let rust = rust.split(' ').nth(1).unwrap_or_default();
    let text = serde_json::to_string_pretty(&document(&release.version, rust, libraries));
    text.map(|text| text + "\n").map_err(|error| error.to_string())
}

/// Beside the packages of Cargo.lock, the program has the standard library of this Rust, which brings musl.
fn document(version: &str, rust: &str, libraries: &[Library]) -> Value {
    let url = |name: &str, version: &str| format!("pkg:cargo/{name}@{version}");
    let component = |library: &Library| {
        let reference = url(&library.name, &library.version);
        let mut component = json!({
            "type": "library",
            "bom-ref": reference,
            "name": library.name,
            "version": library.version,
            "licenses": [{ "expression": library.license }],
            "purl": reference,
        });
        if let Some(checksum) = &library.checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let known: BTreeSet<(&str, &str)> =
        libraries.iter().map(|one| (one.name.as_str(), one.version.as_str())).collect();
    let needs = |library: &Library| {
        let needs = library
            .needs
            .iter()
            .filter(|(name, version)| known.contains(&(name.as_str(), version.as_str())));
        let needs: BTreeSet<String> = needs.map(|(name, version)| url(name, version)).collect();
        json!({ "ref": url(&library.name, &library.version), "dependsOn": needs })
    };
    let (program, others): (Vec<_>, Vec<_>) = libraries.iter().partition(|one| one.name == PROGRAM);
    let mut main = program.first().map_or(json!({}), |program| component(program));
    main["type"] = "application".into();
    let of_rust = |name: &str, license: &str| {
        json!({
            "type": "library",
            "bom-ref": format!("rust-{rust}/{name}"),
            "name": name,
            "description": format!("as the toolchain of Rust {rust} has it"),
            "licenses": [{ "expression": license }],
        })
    };
    let rust = [of_rust("std", "MIT OR Apache-2.0"), of_rust("musl", "MIT AND BSD-2-Clause")];
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": main,
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist", "version": version }] },
        },
        "components": others.into_iter().map(component).chain(rust).collect::<Vec<_>>(),
        "dependencies": libraries.iter().map(needs).collect::<Vec<_>>(),
    })
}

/// Returns the libraries of the program for a target, in the order of their names.
pub(super) fn libraries(target: &Target) -> Result<Vec<Library>, String> {
    let tree = ["tree", "--locked", "-p", PROGRAM, "--features", "full", "--target", target.triple];
    let shown = ["-e", "normal", "--prefix", "none", "--format", "{p}"];
    let tree = quiet(cargo(tree).args(shown).env("CARGO_TERM_COLOR", "never"))?;
    let wanted: BTreeSet<(String, String)> = tree.lines().filter_map(in_tree).collect();
    let metadata =
        quiet(&mut cargo(["metadata", "--locked", "--all-features", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).map_err(|error| error.to_string())?;
    let found = described(&metadata, &wanted, &checksums(&lock));
    match found.len() == wanted.len() {
        true => Ok(found),
        false => Err(format!(
            "cargo tree names {} libraries, and cargo metadata {}",
            wanted.len(),
            found.len()
        )),
    }
}

/// Reads `name v1.2.3 (where it is)`.
fn in_tree(line: &str) -> Option<(String, String)> {
    let mut words = line.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some((name.to_owned(), version.to_owned()))
}

fn described(
    metadata: &Value,
    wanted: &BTreeSet<(String, String)>,
    checksums: &BTreeMap<(String, String), String>,
) -> Vec<Library> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = items(&metadata["packages"]);
    let key = |package: &Value| (text(&package["name"]), text(&package["version"]));
    let by_id: BTreeMap<String, (String, String)> =
        packages.iter().map(|package| (text(&package["id"]), key(package))).collect();
    let nodes = items(&metadata["resolve"]["nodes"]);
    let needs: BTreeMap<String, Vec<(String, String)>> = nodes
        .iter()
        .map(|node| {
            let all = items(&node["dependencies"]);
            let all = all.iter().filter_map(|id| by_id.get(id.as_str()?).cloned());
            (text(&node["id"]), all.collect())
        })
        .collect();
    let mut found: Vec<Library> = packages
        .iter()
        .filter(|package| wanted.contains(&key(package)))
        .map(|package| {
            let (name, version) = key(package);
            // The form of earlier years: `MIT/Apache-2.0`, `MIT / Apache-2.0`.
            let license = text(&package["license"]);
            let license = license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
            Library {
                authors: items(&package["authors"]).iter().map(text).collect(),
                license: if license.is_empty() { "NOASSERTION".to_owned() } else { license },
                folder: PathBuf::from(text(&package["manifest_path"])).with_file_name(""),
                is_ours: package["source"].is_null(),
                checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
                needs: needs.get(&text(&package["id"])).cloned().unwrap_or_default(),
                name,
                version,
            }
        })
        .collect();
    found.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    found
}

/// Reads the checksums of the packages in Cargo.lock.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")))?;
        Some(line.trim_matches('"').to_owned())
    };
    let package = |text: &str| {
        Some(((field(text, "name")?, field(text, "version")?), field(text, "checksum")?))
    };
    lock.split("[[package]]").filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n\n[[package]]\nname = \"leasehold-cli\"\nversion = \"0.2.0\"\n";

    #[test]
    fn the_list_has_each_library_with_licence_hash_and_needs() {
        let metadata = json!({
            "packages": [
                { "id": "cli", "name": "leasehold-cli", "version": "0.2.0", "license": "MIT OR Apache-2.0", "manifest_path": "/w/c/Cargo.toml", "source": null },
                { "id": "a", "name": "a", "version": "1.0.0", "license": "MIT / Apache-2.0", "manifest_path": "/r/a/Cargo.toml", "source": "registry" },
                { "id": "b", "name": "b", "version": "2.0.0", "license": "MIT", "manifest_path": "/r/b/Cargo.toml", "source": "registry" },
            ],
            "resolve": { "nodes": [
                { "id": "cli", "dependencies": ["a", "b"] },
                { "id": "a", "dependencies": [] },
            ]},
        });
        let tree = "leasehold-cli v0.2.0 (/w/c)\na v1.0.0\na v1.0.0 (*)\n";
        let wanted = tree.lines().filter_map(in_tree).collect();
        let libraries = described(&metadata, &wanted, &checksums(LOCK));
        let names: Vec<_> = libraries.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "leasehold-cli"], "b is only needed elsewhere");
        assert!(libraries[1].is_ours && !libraries[0].is_ours);
        let list = document("0.2.0", "1.95.0", &libraries);
        assert_eq!(list["metadata"]["component"]["name"], "leasehold-cli");
        assert_eq!(list["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(list["components"][0]["hashes"][0]["content"], "ab");
        assert_eq!(list["components"][1]["name"], "std");
        assert_eq!(list["components"][2]["bom-ref"], "rust-1.95.0/musl");
        assert_eq!(list["dependencies"][1]["dependsOn"], json!(["pkg:cargo/a@1.0.0"]));
    }
}
