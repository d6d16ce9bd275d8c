//! Manual pages and completions render.

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
