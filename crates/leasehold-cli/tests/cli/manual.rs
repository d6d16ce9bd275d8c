//! Manual pages and completions render.

use std::fs;
use std::path::Path;

use crate::support::Place;

#[test]
fn the_manual_has_every_section() {
    let done = Place::new().run(&["man"]);
    assert_eq!(done.code, 0);
    for section in ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"] {
        let found = [format!(".SH {section}"), format!(".SH \"{section}\"")];
        assert!(found.iter().any(|head| done.out.contains(head)), "{section}");
    }
    assert!(!done.out.contains("__supervise"));
}

#[test]
fn all_pages_are_written_into_a_directory() {
    let place = Place::new();
    assert_eq!(place.run(&["man", "--dir", "man"]).code, 0);
    for page in ["leasehold", "leasehold-run", "leasehold-status", "leasehold-force-release"] {
        let text = place.read(&format!("man/{page}.1"));
        assert!(text.contains(".SH NAME") && text.contains("EXIT STATUS"), "{page}");
    }
    let run = place.read("man/leasehold-run.1");
    assert!(run.contains("min\\-hold") && run.contains("leasehold run"), "{run}");
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = Place::new().run(&["completions", shell]);
        assert!(done.code == 0 && done.out.contains("force-release"), "{shell}");
    }
}

/// Every row of docs/command.md names a test, and none that does not exist.
#[test]
fn the_document_names_the_tests_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("../../docs/command.md")).unwrap();
    let mut named = 0;
    for reference in document.split('`').filter(|word| word.contains("::")) {
        let (module, test) = reference.split_once("::").unwrap();
        let Ok(source) = fs::read_to_string(root.join(format!("tests/cli/{module}.rs"))) else {
            assert!(module.trim().is_empty(), "no module {module}"); // How a test is named.
            continue;
        };
        assert!(test == "*" || source.contains(&format!("fn {test}()")), "no test {reference}");
        named += 1;
    }
    assert!(named > 60, "{named}");
}
