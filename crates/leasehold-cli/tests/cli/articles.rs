//! The commands that answer the articles run, and the Rust blocks of the pages are compiled.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::WorkDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The commands in the column `shown` of the source, each once.
fn commands(source: &str) -> BTreeSet<&str> {
    let shown = source.lines().skip(1).filter_map(|line| line.split('\t').nth(5));
    shown.flat_map(|cell| cell.split(" + ")).filter_map(|it| it.strip_prefix("command ")).collect()
}

#[test]
fn each_command_that_answers_an_article_runs_without_a_server() {
    let source = read("docs/articles.tsv");
    let commands = commands(&source);
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let mut words = command.split(' ');
        assert_eq!(words.next(), Some("leasehold"), "{command}");
        let done = WorkDir::new().run(&words.collect::<Vec<_>>());
        assert_eq!(done.code, 0, "{command}: {done:?}");
    }
}

#[test]
fn each_command_of_the_debate_shows_what_the_page_says() {
    const TWO_HOLDERS: &str = "!!";
    // What the output has, and what it has not.
    let shown = [
        ("gc-pause", "refused by the fence", TWO_HOLDERS),
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

/// The lines of a Rust text without comments, empty lines and indentation.
fn code(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.split_once("// ").map_or(line, |(code, _)| code));
    lines.map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[test]
fn each_rust_block_of_the_articles_is_a_part_of_an_example() {
    let examples = [
        "crates/leasehold/examples/articles.rs",
        "crates/leasehold-cache/examples/cache_articles.rs",
    ];
    let examples = examples.map(read);
    for page in ["docs/articles.md", "docs/zh/articles.md"] {
        let text = read(page);
        let blocks = text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
        let blocks: Vec<&str> = blocks.collect();
        assert!(blocks.len() >= 8, "{page}");
        for block in blocks {
            let shown = code(block);
            let is_part = |example: &String| {
                let lines = code(example);
                lines.windows(shown.len()).any(|window| window == shown)
            };
            assert!(examples.iter().any(is_part), "{page}: not in an example:\n{block}");
        }
    }
}
