//! The lines of README.md and README.zh-CN.md do what stands beside them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

use crate::support::{Done, LEASEHOLD, WorkDir};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines that run a job on one machine of many: without their comments, and without the times of a
/// crontab.
fn lines_for_many_machines(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let lines = text.lines().filter(|line| line.contains("--store redis://"));
    let runs = lines.filter_map(|line| Some((line.find("leasehold run ")?, line)));
    runs.map(|(at, line)| line[at..].split('#').next().unwrap().trim().to_owned()).collect()
}

#[test]
fn the_line_for_many_machines_runs_a_short_job_once_on_two_that_start_a_second_apart() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let all = ["README.md", "README.zh-CN.md"].map(lines_for_many_machines);
    assert_eq!(all[0].len(), 2, "a line for a shell and one for a crontab: {all:?}");
    assert_eq!(all[0], all[1]);
    for line in &all[0] {
        server.admin(&["FLUSHALL"]).unwrap();
        let place = WorkDir::new();
        let ours = line
            .replace("redis://locks.internal", &server.url())
            .replace("/opt/report.sh", "./report.sh")
            .replace("./report.sh", "sh -c 'echo ran >> log'")
            .replacen("leasehold", LEASEHOLD, 1);
        assert!(ours.contains("log") && ours.contains(&server.url()), "{ours}");
        let mut machines = [0, 1].map(|_| place.program("sh"));
        let first = Done::new(machines[0].args(["-c", &ours]).output().unwrap());
        assert_eq!(first.code, 0, "{line}: {first:?}");
        std::thread::sleep(Duration::from_secs(1)); // The clock of the other is this much behind.
        let second = Done::new(machines[1].args(["-c", &ours]).output().unwrap());
        assert_eq!(place.read("log"), "ran\n", "{line}: {second:?}");
        let skipped = if line.contains("-E 75") { 75 } else { 1 };
        assert_eq!(second.code, skipped, "{line}: {second:?}");
    }
}

/// The lines of a Rust text without comments, empty lines and `pub(crate)`, by which tests see an example.
fn code(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| match line.find("// ") {
        Some(at) => line[..at].trim(),
        None => line.trim(),
    });
    let lines = lines.map(|line| line.trim_start_matches("pub(crate) "));
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect()
}

/// The texts of all examples, which the build compiles.
fn examples() -> Vec<String> {
    let mut texts = Vec::new();
    for package in fs::read_dir(root().join("crates")).unwrap().flatten() {
        let Ok(files) = fs::read_dir(package.path().join("examples")) else { continue };
        let files = files.flatten().map(|file| file.path()).filter(|path| path.is_file());
        texts.extend(files.map(|path| fs::read_to_string(path).unwrap()));
    }
    texts
}

#[test]
fn each_rust_block_of_the_readmes_is_a_part_of_an_example_that_is_compiled() {
    let examples = examples();
    for document in ["README.md", "README.zh-CN.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let blocks = text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
        let mut seen = 0;
        for block in blocks {
            let shown = code(block);
            let in_order = |example: &String| {
                let mut lines = code(example).into_iter();
                shown.iter().all(|line| lines.any(|compiled| compiled == *line))
            };
            assert!(examples.iter().any(in_order), "{document}: no example has {shown:#?}");
            seen += 1;
        }
        assert!(seen >= 3, "{document}: {seen}");
    }
}

/// The pages that show command lines, and what the command itself prints.
fn all_texts(place: &WorkDir) -> Vec<(String, String)> {
    let docs = fs::read_dir(root().join("docs")).unwrap().flatten().map(|entry| entry.path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let readmes = ["README.md", "README.zh-CN.md"].map(|name| root().join(name));
    let files = pages.chain(readmes).map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        (path.display().to_string(), text)
    });
    let printed = [&["--help"][..], &["run", "--help"], &["man"], &["man", "run"]];
    let printed = printed.map(|call| (call.join(" "), place.run(call).out.replace("\\-", "-")));
    files.chain(printed).collect()
}

#[test]
fn every_line_for_a_crontab_or_for_many_machines_has_a_minimum_hold() {
    let mut seen = 0;
    for (place, text) in all_texts(&WorkDir::new()) {
        for line in text.lines().filter(|line| line.contains("leasehold run ")) {
            let no_wait = line.split(' ').any(|word| word == "-n");
            if line.contains(" * * * ") || (no_wait && line.contains("--store redis://")) {
                assert!(line.contains("--min-hold "), "{place}: {line}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 6, "{seen}");
}
