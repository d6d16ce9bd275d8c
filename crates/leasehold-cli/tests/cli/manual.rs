//! Manual pages and completions render.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::screen::Terminal;
use crate::support::WorkDir;

#[test]
fn the_manual_has_every_section() {
    let done = WorkDir::new().run(&["man"]);
    assert_eq!(done.code, 0);
    for section in ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"] {
        let found = [format!(".SH {section}"), format!(".SH \"{section}\"")];
        assert!(found.iter().any(|head| done.out.contains(head)), "{section}");
    }
    assert!(!done.out.contains("__supervise"));
}

#[test]
fn all_pages_are_written_into_a_directory() {
    let place = WorkDir::new();
    assert_eq!(place.run(&["man", "--dir", "man"]).code, 0);
    for page in ["leasehold", "leasehold-run", "leasehold-status", "leasehold-force-release"] {
        let text = place.read(&format!("man/{page}.1"));
        assert!(text.contains(".SH NAME") && text.contains("EXIT STATUS"), "{page}");
    }
    let run = place.read("man/leasehold-run.1");
    assert!(run.contains("min\\-hold") && run.contains("leasehold run"), "{run}");
}

#[test]
fn a_page_has_values_in_its_synopsis_and_names_no_page_that_is_not_there() {
    let place = WorkDir::new();
    for (page, parts) in [
        (None, ["[\\-\\-store <URL>]", "<COMMAND>", "leasehold\\-list(1)"]),
        (
            Some("run"),
            ["[\\-w|\\-\\-wait <DUR>]", "<NAME> [\\-\\-] <CMD>...", "<NAME> \\-c <LINE>"],
        ),
        (Some("list"), ["[\\-\\-held]", "[\\-\\-limit <NUMBER>]", "[PREFIX]"]),
        (Some("force-release"), ["[\\-\\-json]", "\\-\\-token <TOKEN>", "<NAME>"]),
    ] {
        let done = place.run(&[&["man"], page.as_slice()].concat());
        assert_eq!(done.code, 0, "{done:?}");
        assert!(parts.iter().all(|part| done.out.contains(part)), "{page:?}: {}", done.out);
        assert!(!done.out.contains("help(1)") && !done.out.contains("see a summary"), "{page:?}");
    }
    let done = place.run(&["man", "nope"]);
    assert_eq!(done.code, 125);
    assert!(done.err.contains("nope") && done.err.contains("force-release"), "{done:?}");
    assert_eq!(place.run(&["man", "help"]).code, 125);
}

#[cfg(feature = "bench")]
#[test]
fn a_subcommand_of_a_subcommand_has_a_page_too() {
    let place = WorkDir::new();
    assert_eq!(place.run(&["man", "--dir", "man"]).code, 0);
    let bench = place.read("man/leasehold-bench.1");
    for name in ["pairs", "contention", "hold"] {
        assert!(bench.contains(&format!("leasehold\\-bench\\-{name}(1)")), "{bench}");
        let page = place.read(&format!("man/leasehold-bench-{name}.1"));
        assert!(page.contains("\\-\\-quick"), "{page}");
        assert_eq!(place.run(&["man", &format!("bench-{name}")]).out, page);
    }
    assert!(!place.path("man/leasehold-bench-contender.1").exists());
    assert_eq!(place.run(&["man", "bench-contender"]).code, 125);
}

#[test]
fn the_examples_have_a_whole_line_for_a_crontab() {
    let page = WorkDir::new().run(&["man", "run"]).out.replace("\\-", "-");
    let line = page.lines().find(|line| line.starts_with("15 3 * * * ")).unwrap();
    assert!(line.contains(" /usr/local/bin/leasehold run -n -E 75 "), "{line}");
    assert!(line.ends_with("-- /usr/local/bin/report"), "{line}");
}

/// A `man` in the directory of the place that does this, and the page of `run` on a terminal.
fn page_on_a_terminal(place: &WorkDir, man: Option<&str>) -> Terminal {
    let path = place.path("bin");
    fs::create_dir_all(&path).unwrap();
    if let Some(script) = man {
        let file = place.write("bin/man", &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let line = format!("PATH={}; exec $LEASEHOLD man run", path.display());
    Terminal::start(place, "/bin/sh", &["-c", &line])
}

#[test]
fn on_a_terminal_man_shows_the_page_and_elsewhere_its_source() {
    let place = WorkDir::new();
    let script = "echo called with $*; while read -r line; do echo \"got $line\"; done";
    let mut terminal = page_on_a_terminal(&place, Some(script));
    terminal.expect("called with -l -");
    terminal.expect("got .SH NAME");
    terminal.expect("got .SH EXAMPLES");
    assert_eq!(terminal.end(), 0);
    assert!(place.run(&["man", "run"]).out.contains("\n.SH NAME\n"));
}

#[test]
fn a_terminal_without_man_gets_the_page_as_plain_text() {
    for man in [None, Some("echo man: there is none here >&2; exit 3")] {
        let place = WorkDir::new();
        let mut terminal = page_on_a_terminal(&place, man);
        for part in [
            "NAME\r\n",
            "    leasehold-run - Run a command while holding a lock",
            "\nSYNOPSIS\r\n",
            "-w, --wait <DUR>",
            "\nEXIT STATUS\r\n",
            "\nEXAMPLES\r\n",
            "leasehold run -n -E 75 --min-hold 30s nightly -- /usr/local/bin/report",
        ] {
            terminal.expect(part);
        }
        let seen = terminal.seen();
        for roff in ["\\-", "\\fB", "\\fR", "\n.SH", "\n.TP", "\n.PP", "there is none here"] {
            assert!(!seen.contains(roff), "{roff}: {seen}");
        }
        assert_eq!(terminal.end(), 0);
    }
}

#[test]
fn the_help_of_completions_says_where_the_file_goes() {
    let help = WorkDir::new().run(&["completions", "--help"]).out;
    for part in [
        "~/.local/share/bash-completion/completions/leasehold",
        "/_leasehold",
        "~/.config/fish/completions/leasehold.fish",
        "rc.elv",
        "$PROFILE",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = WorkDir::new().run(&["completions", shell]);
        assert!(done.code == 0 && done.out.contains("force-release"), "{shell}");
    }
}

/// Returns the tests that a document names, in order.
fn tests_named_in(document: &str) -> Vec<&str> {
    document.split('`').filter(|word| word.contains("::")).collect()
}

/// Every row of docs/command.md names a test, and none that does not exist. The Chinese page names
/// the same tests.
#[test]
fn the_document_names_the_tests_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |page: &str| fs::read_to_string(root.join("../../docs").join(page)).unwrap();
    let document = read("command.md");
    let mut named = 0;
    for reference in tests_named_in(&document) {
        let (module, test) = reference.rsplit_once("::").unwrap();
        let file = format!("tests/cli/{}.rs", module.replace("::", "/"));
        let Ok(source) = fs::read_to_string(root.join(file)) else {
            assert!(module.trim().is_empty(), "no module {module}"); // How a test is named.
            continue;
        };
        // `some_*` stands for every test whose name starts so.
        let written =
            test.strip_suffix('*').map_or(format!("fn {test}()"), |start| format!("fn {start}"));
        assert!(source.contains(&written), "no test {reference}");
        named += 1;
    }
    assert!(named > 160, "{named}");
    assert_eq!(tests_named_in(&document), tests_named_in(&read("zh/command.md")));
}
