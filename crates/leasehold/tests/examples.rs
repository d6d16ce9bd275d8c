//! The examples run, and print what their sources and the answers to the articles promise.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "an example has a `main` too")]

#[cfg(feature = "redis")]
#[path = "../examples/redis_timeout.rs"]
mod redis_timeout;

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use leasehold_conformance::examples;

const PACKAGE: &str = "leasehold";

fn run(name: &str, arguments: &[&str]) -> String {
    examples::run(PACKAGE, name, arguments)
}

/// Checks that the output has these texts, in this order.
fn has_in_order(printed: &str, texts: &[&str]) {
    let mut rest = printed;
    for text in texts {
        let Some((_, behind)) = rest.split_once(text) else {
            panic!("`{text}` is missing or at another place:\n{printed}");
        };
        rest = behind;
    }
}

#[test]
fn the_listings_of_the_articles_run() {
    let printed = run("articles", &[]);
    let texts = ["held: None", "not acquired: ", "timed out after 100ms", "larger token: true"];
    has_in_order(&printed, &texts);
    has_in_order(&printed, &["locked: Held", "unlocked: Free", "step charge", "at most 1 of 10"]);
}

#[test]
fn work_is_stopped_when_an_operator_ends_its_lease() {
    let printed = run("cancel_on_loss", &[]);
    has_in_order(&printed, &["row 1, valid for", "operator: ending the lease", "stopped: "]);
    assert!(!printed.contains("not expected"), "{printed}");
}

#[test]
fn a_paused_holders_write_is_refused_by_the_fence() {
    let printed = run("fenced_write", &[]);
    let texts = ["new -> paid", "knows of no pause", "alice: refused: ", "valid is false"];
    has_in_order(&printed, &texts);
    assert!(!printed.contains("overwritten"), "{printed}");
}

#[test]
fn routing_prints_its_four_tables() {
    let printed = run("routing", &["2000"]);
    let texts = ["2000 keys", "| app-10 | ", "| one of ten leaves | ", "| 4 | ", "| 100 | "];
    has_in_order(&printed, &texts);
}

/// Starts the program twice in a directory of their own; the second when the first has printed `ready`. Returns what
/// each printed.
fn two(name: &str, arguments: &[&str], ready: &str) -> [String; 2] {
    let directory = tempfile::tempdir().unwrap();
    let command = || {
        let mut command = examples::command(PACKAGE, name);
        command.args(arguments).env("TMPDIR", directory.path()).stdout(Stdio::piped());
        command
    };
    let mut first = command().spawn().unwrap();
    let mut lines = BufReader::new(first.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains(ready) {
        assert!(lines.read_line(&mut printed).unwrap() > 0, "no `{ready}` in: {printed}");
    }
    let second = command().output().unwrap();
    lines.read_to_string(&mut printed).unwrap();
    assert!(first.wait().unwrap().success() && second.status.success());
    [printed, String::from_utf8(second.stdout).unwrap()]
}

#[test]
fn a_second_first_lock_waits_for_the_first() {
    let [first, second] = two("first_lock", &[], "acquired with token");
    has_in_order(&first, &["acquired with token", "released"]);
    has_in_order(&second, &["held by ", ", waiting", "acquired with token", "released"]);
    examples::answers(PACKAGE, "first_lock", &second);
}

#[test]
fn a_second_instance_leads_when_the_first_has_resigned() {
    let [first, second] = two("election", &[], "job 1, token ");
    has_in_order(&first, &["job 1, token ", "job 3, token ", "resigned after 3 jobs"]);
    has_in_order(&second, &["leader: instance ", "job 1, token ", "resigned after 3 jobs"]);
}

#[test]
fn jobs_of_two_processes_share_two_devices() {
    for printed in two("semaphore", &[], "on device ") {
        for job in 1..=4 {
            assert_eq!(printed.matches(&format!("job {job} on device ")).count(), 1, "{printed}");
        }
        let devices = [0, 1].map(|slot| printed.matches(&format!("on device {slot}, ")).count());
        assert_eq!(devices.iter().sum::<usize>(), 4, "{printed}");
        has_in_order(&printed, &["on device ", "done, with at most 2 at a time"]);
    }
}

#[test]
fn an_import_writes_alone_beside_reports_of_two_processes() {
    for printed in two("read_write", &[], "token ") {
        for report in 1..=3 {
            assert_eq!(
                printed.matches(&format!("report {report} reads, ")).count(),
                1,
                "{printed}"
            );
        }
        // While it writes, no report of its process begins.
        let (_, behind) = printed.split_once("the import writes, token ").unwrap();
        assert_eq!(behind.lines().nth(1), Some("the import has written"), "{printed}");
        has_in_order(&printed, &["the import has written", "the import reads, token ", "done"]);
    }
}

#[test]
fn transfers_in_a_ring_do_not_deadlock_and_lose_nothing() {
    let printed = run("multi_lock", &[]);
    for (amount, from, to) in [(10, 0, 1), (20, 1, 2), (30, 2, 0)] {
        let line = format!("{amount} from account {from} to {to}: account/");
        assert_eq!(printed.matches(&line).count(), 3, "{printed}");
    }
    has_in_order(&printed, &["account/0 with token ", "balances [160, 70, 70], 300 in all"]);
}

#[test]
fn a_report_waits_for_all_imports() {
    let printed = run("latch", &[]);
    for import in ["customers", "orders", "payments"] {
        assert_eq!(printed.matches(&format!("imported {import}, ")).count(), 1, "{printed}");
    }
    has_in_order(&printed, &["2 are missing", "1 are missing"]);
    has_in_order(&printed, &["1 are missing", "report on generation ", " begins, 3 are missing"]);
}

#[test]
fn a_second_cron_job_finds_that_the_job_is_done() {
    let [first, second] = two("cron_job", &["2"], "done; ");
    has_in_order(&first, &["reporting, token", "done; "]);
    assert_eq!(second, "another instance has done it or is doing it\n");
    examples::answers(PACKAGE, "cron_job", &first);
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_lock_on_redis_writes_with_its_token() {
    use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

    if Needs::Redis.is_skipped() {
        return;
    }
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let client = leasehold::connect(&server.url()).await.unwrap();
    let mut printed = Vec::new();
    redis_timeout::play(client, &mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    has_in_order(&printed, &["order 555 is paid", "a late write is refused", "the work ran"]);
    examples::answers(PACKAGE, "redis_timeout", &printed);
}

#[cfg(all(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[test]
fn stock_prints_the_columns_of_its_page_and_repairs_what_was_oversold() {
    let printed = run("stock", &[]);
    let columns = "way           sold  left  oversold    time";
    for page in ["docs/sql-rows.md", "docs/zh/sql-rows.md"] {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        assert!(text.contains(columns), "{page}");
    }
    has_in_order(&printed, &["64 buyers, 40 pieces", columns]);
    for way in ["pessimistic", "optimistic", "lock"] {
        let line = format!("\n{way:<12}    40     0         0 ");
        assert!(printed.contains(&line), "{printed}");
    }
    has_in_order(&printed, &["failed-lock", "Repaired: ", "40 stand, 0 left", "agree: true"]);
}
