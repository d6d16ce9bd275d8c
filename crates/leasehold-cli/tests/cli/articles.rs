//! The commands that answer the articles print what the pages promise.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use leasehold_conformance::examples;

use crate::support::{Done, LEASEHOLD, WorkDir};

/// Where `sh` and the like are.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn each_command_that_answers_an_article_prints_what_its_row_promises() {
    let source = read("docs/articles.tsv");
    let shown = examples::phrases(&source);
    let commands = shown
        .iter()
        .filter_map(|(piece, phrase)| Some((piece.strip_prefix("command leasehold ")?, phrase)));
    let mut printed: BTreeMap<&str, String> = BTreeMap::new();
    for (command, phrase) in commands {
        let out = printed.entry(command).or_insert_with(|| {
            // A command may run `leasehold` in its turn.
            let path = format!("{}:{}", Path::new(LEASEHOLD).parent().unwrap().display(), PATH);
            let place = WorkDir::new();
            let words: Vec<&str> = command.split(' ').collect();
            let done = Done::new(place.leasehold(&words).env("PATH", path).output().unwrap());
            assert_eq!(done.code, 0, "{command}: {done:?}");
            done.out
        });
        assert!(out.contains(phrase), "{command} does not print `{phrase}`:\n{out}");
    }
    assert!(printed.len() > 30, "{printed:?}");
}

#[test]
fn each_command_of_the_debate_shows_what_the_page_says() {
    const TWO_HOLDERS: &str = "!!";
    // What the output has, and what it has not.
    let shown = [
        ("gc-pause", "refused by the fence", TWO_HOLDERS),
        ("gc-pause --setup redlock-plain", "one update was lost", TWO_HOLDERS),
        ("gc-pause --setup zookeeper", "refused by the fence", ""),
        ("random-value", "client 1 writes: the random value is another one, refused", ""),
        (
            "random-value-late",
            "client 1 writes: the random value is the registered one, accepted",
            "",
        ),
        ("pause-before-replies", "client 2 holds the lock", TWO_HOLDERS),
        ("clock-jump", TWO_HOLDERS, ""),
        ("clock-jump --setup redlock", TWO_HOLDERS, ""),
        ("clock-jump-20", "client 2 holds the lock", TWO_HOLDERS),
        ("node-restart", TWO_HOLDERS, ""),
        ("node-restart --setup redlock", "client 2 holds the lock", TWO_HOLDERS),
        ("majority-restart", "quorum init --after-loss", TWO_HOLDERS),
        ("restart-in-long-pause", "refused by the fence", ""),
        ("watchdog-pause --setup zookeeper", TWO_HOLDERS, ""),
        ("watchdog-pause --setup etcd", TWO_HOLDERS, ""),
        ("handover-crash", "client 2 holds the lock", TWO_HOLDERS),
    ];
    let expected: BTreeSet<&str> = shown.iter().map(|(story, ..)| *story).collect();
    for page in ["docs/debate.md", "docs/zh/debate.md"] {
        let text = read(page);
        let commands = text.split(['`', '\n']).filter_map(|it| it.strip_prefix("leasehold lab "));
        assert_eq!(commands.collect::<BTreeSet<_>>(), expected, "{page}");
    }
    for (story, has, has_not) in shown {
        let arguments: Vec<&str> = ["lab"].into_iter().chain(story.split(' ')).collect();
        let done = WorkDir::new().run(&arguments);
        assert_eq!(done.code, 0, "{story}: {done:?}");
        assert!(done.out.contains(has), "{story}: {}", done.out);
        assert!(has_not.is_empty() || !done.out.contains(has_not), "{story}: {}", done.out);
    }
}
