//! The licences of the libraries in the program, with their texts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::failed;
use super::sbom::Library;
use crate::run::{quiet, root};

/// How the names of the files begin that have the text of a licence, in capital letters.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The notices of musl, which is in every program: the Rust toolchain brings it without them.
const MUSL: &str = include_str!("musl.txt");

/// The licence of etcd, from whose `.proto` files code of the program is generated.
const ETCD: &str = include_str!("../../../../crates/engines/leasehold-etcd-api/proto/LICENSE");

/// The name of the file with these lists.
pub(super) const FILE: &str = "THIRD-PARTY.txt";

/// The name of the file with the notices of Rust's standard library, which is in every program too.
pub(super) const STANDARD_LIBRARY: &str = "THIRD-PARTY-RUST.html";

/// Lists the libraries of other authors, and each text once.
///
/// # Errors
/// Names the libraries without a text.
pub(super) fn of(libraries: &[Library]) -> Result<String, String> {
    let licenses = ["LICENSE-APACHE", "LICENSE-MIT"].map(|name| {
        let path = root().join(name);
        fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))
    });
    let [apache, mit] = licenses;
    text(libraries, &apache?, &mit?)
}

/// Returns the notices of Rust's standard library, as the toolchain has them.
pub(super) fn standard_library() -> Result<String, String> {
    let sysroot = quiet(Command::new("rustc").current_dir(root()).args(["--print", "sysroot"]))?;
    let path = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    fs::read_to_string(&path).map_err(|error| {
        let why = failed("read", &path, &error);
        format!(
            "{why}; a toolchain of rustup has it: rustup toolchain install stable --profile minimal"
        )
    })
}

fn text(libraries: &[Library], apache: &str, mit: &str) -> Result<String, String> {
    let mut list = format!(
        "The program contains these libraries, code of etcd's API, musl and Rust's standard library \
         ({STANDARD_LIBRARY}):\n\n"
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for library in libraries.iter().filter(|library| !library.is_ours) {
        let name = format!("{} {}", library.name, library.version);
        list += &format!("{name}: {}\n", library.license);
        let mut found = license_texts(&library.folder);
        if found.is_empty() {
            found.extend(usual_text(library, apache, mit));
        }
        if found.is_empty() {
            without.push(format!("{name} ({})", library.license));
        }
        for text in found {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    if !without.is_empty() {
        return Err(format!(
            "no text of the licence of {}: add it to tools/xtask/src/dist/notices.rs",
            without.join(", ")
        ));
    }
    texts.insert(MUSL.to_owned(), vec!["musl".to_owned()]);
    texts.entry(ETCD.to_owned()).or_default().push("code of etcd's API".to_owned());
    for (text, names) in texts {
        list += &format!("\n{}\n{}\n\n{}\n", "=".repeat(80), names.join(", "), text.trim_end());
    }
    Ok(list)
}

/// The text of a licence whose package does not have it, from our own copy of the same licence.
fn usual_text(library: &Library, apache: &str, mit: &str) -> Option<String> {
    let offered: Vec<&str> = library.license.split(" OR ").collect();
    if offered.contains(&"Apache-2.0") {
        return Some(apache.to_owned());
    }
    let (_, terms) = mit.split_once("\n\nPermission")?;
    let authors = match library.authors.as_slice() {
        [] => format!("The authors of {}", library.name),
        authors => authors.join(", "),
    };
    offered
        .contains(&"MIT")
        .then(|| format!("MIT License\n\nCopyright (c) {authors}\n\nPermission{terms}"))
}

/// The texts in a package: files of these names, and files in folders of these names.
fn license_texts(folder: &Path) -> Vec<String> {
    let is_license = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        NAMES.iter().any(|start| name.starts_with(start))
    };
    let found = sorted(folder);
    let found = found.iter().filter(is_license);
    let files =
        found.flat_map(|path| if path.is_dir() { sorted(path) } else { vec![path.clone()] });
    files.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

fn sorted(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(place: &Path, name: &str, license: &str) -> Library {
        Library {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.into(),
            authors: vec!["A. Writer".into()],
            folder: place.join(name),
            is_ours: name == "ours",
            checksum: None,
            needs: Vec::new(),
        }
    }

    #[test]
    fn each_text_stands_once_with_the_libraries_that_have_it() {
        let place = tempfile::tempdir().unwrap();
        let libraries = ["a", "b", "ours"].map(|name| library(place.path(), name, "MIT"));
        for library in &libraries {
            fs::create_dir_all(&library.folder).unwrap();
            fs::write(library.folder.join("license-mit.txt"), "the same text\n").unwrap();
        }
        fs::create_dir(libraries[1].folder.join("LICENSES")).unwrap();
        fs::write(libraries[1].folder.join("LICENSES/MIT.txt"), "in a folder\n").unwrap();
        let text = text(&libraries, "apache", "mit").unwrap();
        assert_eq!(text.matches("the same text").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0, b 1.0.0") && text.contains("b 1.0.0: MIT"), "{text}");
        assert!(
            text.contains("in a folder")
                && text.contains("Rich Felker")
                && text.contains("The etcd Authors"),
            "{text}"
        );
        assert!(!text.contains("ours"), "{text}");
    }

    #[test]
    fn a_library_without_a_text_gets_that_of_its_licence_or_is_named() {
        let place = tempfile::tempdir().unwrap();
        let of = |license: &str| {
            let libraries = [library(place.path(), "bare", license)];
            text(
                &libraries,
                "the Apache text",
                "MIT License\n\nCopyright us\n\nPermission is granted",
            )
        };
        assert!(of("MIT OR Apache-2.0").unwrap().contains("the Apache text"));
        let mit = of("MIT").unwrap();
        assert!(mit.contains("Copyright (c) A. Writer\n\nPermission is granted"), "{mit}");
        assert!(!mit.contains("Copyright us"), "{mit}");
        assert!(of("MPL-2.0").unwrap_err().contains("bare 1.0.0 (MPL-2.0)"));
    }
}
