//! Control sequences are for terminals: no subcommand writes one into a pipe.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Done, WorkDir};

/// How each subcommand is called here. A word in capitals stands for a store.
const CALLS: &[(&str, &[&[&str]])] = &[
    (
        "run",
        &[
            &["free", "--", "true"],
            &["free", "--", "no-such-command-anywhere"],
            &["free", "--", "no-such-\u{1b}[2J\r"],
            &["--min-hold", "500ms", "free", "--", "true"],
            &["-n", "held", "--", "true"],
            &["-w", "500ms", "held", "--", "true"],
            &["--store", "REDIS", "--max-hold", "500ms", "free", "--", "sleep", "60"],
        ],
    ),
    ("list", &[&[], &["--held", "--json"], &["--store", "REDIS"]]),
    ("status", &[&["held"], &["held", "--json"], &["free"], &["\u{1b}[2J\r"]]),
    ("limit", &[&["free"], &["free", "3"], &["held"], &["\u{1b}[2J\r"]]),
    (
        "latch",
        &[
            &["free", "--parties", "2"],
            &["free", "--parties", "2", "--count-down", "a", "--json"],
            &["held", "--parties", "2"],
            &["\u{1b}[2J\r", "--parties", "1", "--count-down", "\u{1b}[2J\r"],
        ],
    ),
    ("serve", &[&["--listen", "192.0.2.1:80"], &["--store", "\u{1b}[2J\r"]]),
    ("watch", &[&["--interval", "20ms"], &["held", "--json"]]),
    (
        "force-release",
        &[
            &["held", "--token", "1"],
            &["held", "--token", "1", "--json"],
            &["held", "--attempt", "0123456789abcdef0123456789abcdef"],
        ],
    ),
    (
        "elect",
        &[&["--candidate", "10.0.0.7", "free", "--", "true"], &["\u{1b}[2J\r", "--", "true"]],
    ),
    ("leader", &[&["held"], &["held", "--json"], &["free"], &["\u{1b}[2J\r"]]),
    ("init", &[&[], &["--store", "SQLITE"], &["--store", "SQLITE", "--print"]]),
    (
        "quorum init",
        &[
            &["--store", "QUORUM"],
            &["--store", "QUORUM", "--yes"],
            &["--store", "QUORUM", "--yes", "--after-loss", "--max-ttl", "1s"],
        ],
    ),
    ("quorum status", &[&["--store", "QUORUM"], &["--store", "QUORUM", "--json"]]),
    ("doctor", &[&[], &["--json"], &["REDIS"], &["SQLITE"], &["QUORUM"]]),
    ("bench pairs", &[&["--quick", "--rounds", "1", "--runtime", "current", "--tasks", "1"]]),
    ("bench contention", &[&["--quick", "--rounds", "1", "--runtime", "current", "--hold", "0"]]),
    (
        "bench hold",
        &[&[
            "--quick",
            "--rounds",
            "1",
            "--runtime",
            "current",
            "--locks",
            "2",
            "--waiters",
            "2",
            "--seconds",
            "1",
        ]],
    ),
    ("cache init", &[&["--database", "SQLITE"], &["--database", "SQLITE", "--print"]]),
    (
        "cache relay",
        &[
            &["--store", "REDIS", "--database", "SQLITE", "--once"],
            &["--store", "REDIS", "--database", "SQLITE", "--once", "--json"],
        ],
    ),
    ("cache apply", &[&["--store", "REDIS", "--from", "nats://127.0.0.1:1", "--once"]]),
    (
        "lab",
        &[
            &[],
            &["list", "--json"],
            &["gc-pause"],
            &["walk-through"],
            &["matrix", "--seeds", "1"],
            &["matrix", "--seeds", "1", "--markdown"],
            &["\u{1b}[2J\r"],
        ],
    ),
    ("completions", &[&["bash"], &["zsh"], &["fish"], &["elvish"], &["powershell"], &["no-such"]]),
    ("man", &[&[], &["run"], &["no-such"], &["--dir", "pages"]]),
];

/// All subcommands, and those below them, as `--help` lists them.
fn subcommands(place: &WorkDir, above: &[&str]) -> Vec<String> {
    let help = place.run(&[above, &["-h"]].concat()).out;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty()).filter_map(|line| {
        line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty())
    });
    let mut found = Vec::new();
    for name in names.filter(|name| *name != "help") {
        let path = [above, &[name]].concat();
        let below = subcommands(place, &path);
        if below.is_empty() { found.push(path.join(" ")) } else { found.extend(below) }
    }
    found
}

/// Runs a command whose stdout and stderr are pipes, to its end; one that has none is interrupted
/// after its first line.
fn piped(mut command: Command, has_no_end: bool) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    if has_no_end {
        BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    }
    let mut output = child.wait_with_output().unwrap();
    output.stdout.splice(..0, first.into_bytes());
    output
}

#[test]
fn no_subcommand_writes_a_control_sequence_into_a_pipe() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let place = WorkDir::new();
    let metadata = "\u{1b}[31mred\r";
    let hold = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";
    let _holder = place.start_ready(&["--metadata", metadata, "held"], hold);
    let redis = RedisServer::start(RedisSettings::new()).unwrap();
    let node = RedisServer::start(RedisSettings::new()).unwrap();
    let url = |word: &str| match word {
        "REDIS" => redis.url(),
        "QUORUM" => format!("redlock://{}?max-ttl=1s", node.address()),
        "SQLITE" => format!("sqlite:{}", place.path("locks.db").display()),
        other => other.to_owned(),
    };
    let all = subcommands(&place, &[]);
    assert!(all.len() >= 10 && all.contains(&"quorum init".to_owned()), "{all:?}");
    for name in all {
        let call = CALLS.iter().find(|(known, _)| *known == name);
        let (_, ways) = call.unwrap_or_else(|| panic!("say in CALLS how {name} is called"));
        let wrong: [&[&str]; 2] = [&["--help"], &["--no-such-\u{1b}[2J\r"]];
        for way in wrong.iter().chain(*ways) {
            for said in [&[][..], &["-q"], &["-v"]] {
                let mut command = place.leasehold(said);
                command.args(name.split(' ')).args(way.iter().map(|word| url(word)));
                command.env("TERM", "xterm").env_remove("CLICOLOR_FORCE");
                if said.is_empty() {
                    command.env("NO_COLOR", "1");
                }
                let has_no_end = name == "watch" && !wrong.contains(way);
                let done = Done::new(piped(command, has_no_end));
                assert!(
                    !format!("{}{}", done.out, done.err).contains(['\u{1b}', '\r']),
                    "leasehold {said:?} {name} {way:?}: {done:?}"
                );
            }
        }
    }
}
