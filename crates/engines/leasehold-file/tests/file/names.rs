//! Names that try to leave the directory, to collide, or to be too long.

use leasehold_core::backend::Backend;
use leasehold_core::clock::ManualClock;

use crate::kit::{Kit, attempt, walk};

#[tokio::test]
async fn hostile_names_lock_independently_and_stay_inside() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let kit = Kit::open(&store);
    let mut names: Vec<String> = [
        "../../x",
        "a/b",
        ".",
        "..",
        "...",
        "%2e",
        "%2E",
        ".json",
        "a",
        "A",
        "a.lock",
        "a.json",
        "a.wait",
        "caf\u{e9}",
        "cafe\u{301}",
        "~",
        "format",
        "locks",
        "-",
        "/etc/passwd",
        "{a}",
        " ",
        "$(touch x)",
        "名字",
    ]
    .map(String::from)
    .to_vec();
    names.extend(["x", "y", "é"].map(|end| format!("{}{end}", "n".repeat(200))));
    names.extend([" ".repeat(512), "名".repeat(170), "/".repeat(512), "x".repeat(512)]);
    let mut held = Vec::new();
    for name in &names {
        held.push(kit.try_lock(name).await.unwrap_or_else(|| panic!("{name:?} meets another")));
    }
    for name in &names {
        assert!(kit.try_lock(name).await.is_none(), "{name:?}");
        assert_eq!(kit.status(name).await.name.as_str(), name);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let files = walk(&store);
    assert_eq!(files.len(), 1 + 2 * names.len(), "{files:?}");
    let inside =
        |file: &str| file == "format" || file.starts_with("locks/") && !file[6..].contains('/');
    assert!(files.iter().all(|file| inside(file)), "{files:?}");
    let mut listed: Vec<String> = Vec::new();
    for status in kit.backend.list("", 1000).await.unwrap() {
        listed.push(status.name.as_str().to_owned());
    }
    names.sort();
    assert_eq!(listed, names);
    for (name, (attempt, grant)) in listed.iter().zip(&held) {
        kit.release(name, *attempt, grant.tokens.base()).await;
    }
}

#[tokio::test]
async fn a_list_is_sorted_limited_and_filtered_by_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    for name in ["b", "orders/2", "orders/1", "Orders/1", "orders/10"] {
        let (attempt, grant) = kit.try_lock(name).await.unwrap();
        kit.release(name, attempt, grant.tokens.base()).await;
    }
    let list = async |prefix, limit| {
        let found = kit.backend.list(prefix, limit).await.unwrap();
        found.into_iter().map(|status| status.name.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("orders/", 9).await, ["orders/1", "orders/10", "orders/2"]);
    assert_eq!(list("orders/", 2).await, ["orders/1", "orders/10"]);
    assert_eq!(list("", 1).await, ["Orders/1"]);
    assert!(list("x", 9).await.is_empty());
}

#[tokio::test]
async fn forgetting_removes_the_free_locks_of_a_prefix_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let kit = Kit::open(&store);
    for name in ["bench/1", "bench/2", "benchmark", "other"] {
        let (attempt, _) = kit.try_lock(name).await.unwrap();
        kit.end_attempt(name, attempt).await;
    }
    let (held, _) = kit.try_lock("bench/3").await.unwrap();
    assert_eq!(kit.backend.forget("bench/").unwrap(), 2);
    let listed = kit.backend.list("", 10).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["bench/3", "benchmark", "other"]);
    let waiter = attempt();
    kit.ask("bench/3", waiter, true).await.unwrap();
    kit.end_attempt("bench/3", held).await;
    assert_eq!(kit.backend.forget("bench/").unwrap(), 0, "a waiter is about to get it");
    kit.end_attempt("bench/3", waiter).await;
    assert_eq!((kit.backend.forget("bench/").unwrap(), kit.backend.forget("x").unwrap()), (1, 0));
}

/// The file name of a long name is cut and ends in a hash, so only its record tells the whole name.
#[tokio::test]
async fn forgetting_removes_the_files_of_long_names_too() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let names = ["a".repeat(512), "a".repeat(511), format!("{}b", "A/".repeat(200))];
    for name in &names {
        let (attempt, _) = kit.try_lock(name).await.unwrap();
        kit.end_attempt(name, attempt).await;
    }
    let left = || std::fs::read_dir(dir.path().join("locks")).unwrap().count();
    assert_eq!(kit.backend.forget("b").unwrap(), 0);
    assert_eq!((kit.backend.forget("A/A").unwrap(), left()), (1, 4));
    assert_eq!((kit.backend.forget(&names[0]).unwrap(), left()), (1, 2));
    assert_eq!((kit.backend.forget("").unwrap(), left()), (1, 0));
}

/// Without its record, the lock's next token would be the clock's.
#[tokio::test]
async fn a_token_that_the_clock_has_not_passed_is_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let hand = ManualClock::new();
    let kit = Kit::with_clock(dir.path(), hand.clock());
    let (attempt, grant) = kit.try_lock("a").await.unwrap();
    kit.end_attempt("a", attempt).await;
    hand.step_wall(-3600);
    assert_eq!(kit.backend.forget("a").unwrap(), 0);
    let (attempt, next) = kit.try_lock("a").await.unwrap();
    assert!(next.tokens.base() > grant.tokens.base());
    kit.end_attempt("a", attempt).await;
    hand.step_wall(3601);
    assert_eq!(kit.backend.forget("a").unwrap(), 1);
    let (_, last) = kit.try_lock("a").await.unwrap();
    assert!(last.tokens.base() > next.tokens.base());
}
