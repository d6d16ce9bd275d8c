//! The licences of the libraries in the program, with their texts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::build::Target;
use super::sbom::{Library, libraries};

/// How the names of the files begin that have the text of a licence, in capital letters.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Lists the libraries of other authors, and each text once.
pub(super) fn of(target: &Target) -> Result<String, String> {
    Ok(text(&libraries(target)?))
}

fn text(libraries: &[Library]) -> String {
    let mut list = String::from("The program contains these libraries:\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for library in libraries.iter().filter(|library| !library.is_ours) {
        let name = format!("{} {}", library.name, library.version);
        list += &format!("{name}: {}\n", library.license);
        for text in license_texts(&library.folder) {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    for (text, names) in texts {
        list += &format!("\n{}\n{}\n\n{}\n", "=".repeat(80), names.join(", "), text.trim_end());
    }
    list
}

fn license_texts(folder: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    let is_license = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        NAMES.iter().any(|start| name.starts_with(start))
    };
    paths.iter().filter(is_license).filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_stands_once_with_the_libraries_that_have_it() {
        let place = tempfile::tempdir().unwrap();
        let library = |name: &str, is_ours: bool| {
            let folder = place.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("license-mit.txt"), "the same text\n").unwrap();
            Library {
                name: name.into(),
                version: "1.0.0".into(),
                license: "MIT".into(),
                folder,
                is_ours,
                checksum: None,
                needs: Vec::new(),
            }
        };
        let text = text(&[library("a", false), library("b", false), library("ours", true)]);
        assert_eq!(text.matches("the same text").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0, b 1.0.0") && text.contains("b 1.0.0: MIT"), "{text}");
        assert!(!text.contains("ours"), "{text}");
    }
}
