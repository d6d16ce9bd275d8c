//! What the rules look at: the files of the repository and the packages of the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::{cargo, quiet, root};

/// The tree, read once.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Text by path from the root, with forward slashes; empty for what is not text.
    pub(super) files: BTreeMap<String, String>,
    /// The members of the workspace.
    pub(super) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    /// Path of its Cargo.toml from the root.
    pub(super) manifest: String,
    /// Whether it may be published: `publish` is not false.
    pub(super) is_published: bool,
    pub(super) needs: Vec<Dependency>,
}

/// What a package depends on, once per kind.
#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// A dev-dependency.
    pub(super) dev: bool,
    /// Behind a feature.
    pub(super) optional: bool,
}

impl Tree {
    /// Reads the files that git has or would take, or, without git, all but build products.
    pub(super) fn read() -> Result<Self, String> {
        let root = root();
        let git = quiet(Command::new("git").current_dir(&root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]));
        let mut paths = Vec::new();
        match git {
            Ok(list) => paths.extend(list.split_terminator('\0').map(str::to_owned)),
            Err(_) => walk(&root, "", &mut paths)
                .map_err(|error| format!("cannot read {}: {error}", root.display()))?,
        }
        let mut files = BTreeMap::new();
        for path in paths {
            let file = root.join(&path);
            // A symbolic link shows a file that is read under its own path, where its links lead somewhere.
            if file.is_symlink() {
                continue;
            }
            // A path in git's list may have been deleted since.
            if let Ok(bytes) = fs::read(file) {
                files.insert(path, String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(Self { files, packages: members()? })
    }

    /// The Rust sources.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Markdown documents.
    pub(super) fn markdown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(|(path, _)| path.ends_with(".md"))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Whether there is a file or a folder of this path.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// A tree of these files, for the tests of the rules.
    #[cfg(test)]
    pub(super) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        Self { files: files.into(), packages: Vec::new() }
    }
}

/// The members of this workspace.
pub(super) fn members() -> Result<Vec<Package>, String> {
    let metadata = quiet(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| format!("cannot read what cargo metadata says: {error}"))?;
    Ok(packages(&metadata))
}

/// The members that `cargo metadata` lists, with paths from the root.
pub(super) fn packages(metadata: &Value) -> Vec<Package> {
    let root = format!("{}/", text(&metadata["workspace_root"]).replace('\\', "/"));
    let dependency = |value: &Value| Dependency {
        name: text(&value["name"]),
        dev: value["kind"] == "dev",
        optional: value["optional"] == true,
    };
    let package = |value: &Value| Package {
        name: text(&value["name"]),
        manifest: text(&value["manifest_path"]).replace('\\', "/").replacen(&root, "", 1),
        is_published: value["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
        needs: items(&value["dependencies"]).iter().map(dependency).collect(),
    };
    items(&metadata["packages"]).iter().map(package).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn walk(dir: &Path, prefix: &str, into: &mut Vec<String>) -> std::io::Result<()> {
    for entry in dir.read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if name != ".git" && name != "target" {
                walk(&entry.path(), &format!("{path}/"), into)?;
            }
        } else {
            into.push(path);
        }
    }
    Ok(())
}
