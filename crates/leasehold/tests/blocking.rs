//! The blocking API: it has what the async API has, and it may wait where blocking is allowed.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use leasehold::{ErrorKind, blocking};

/// Async methods that blocking types have no counterpart of, with the reason.
const ASYNC_ONLY: &[(&str, &str)] = &[
    (
        "Client::new",
        "a blocking client connects by a URL: its runtime must exist before the backend",
    ),
    ("Client::with_settings", "the same; `blocking::connect_with` takes the settings"),
    ("Client::on_own_thread", "a blocking client always has a thread of its own"),
];

/// Returns the public methods of `impl TYPE` in a source file.
fn methods(path: &str, of: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(&path).unwrap();
    let (_, rest) = text.split_once(&format!("\nimpl {of} {{\n")).expect("the type has methods");
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let names = body.lines().filter_map(|line| {
        let line = line.strip_prefix("    pub ")?;
        let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        let end = line.find(['(', '<'])?;
        Some(format!("{of}::{}", &line[..end]))
    });
    names.collect()
}

#[test]
fn blocking_types_have_every_method_of_the_async_types() {
    for (of, path) in [("Lock", "lock.rs"), ("Guard", "guard.rs"), ("Client", "client.rs")] {
        let ours = methods("src/blocking.rs", of);
        let theirs = methods(&format!("../leasehold-core/src/{path}"), of);
        assert!(theirs.len() > 5, "{of}: {theirs:?}");
        for method in theirs {
            let excused = ASYNC_ONLY.iter().any(|(name, _)| *name == method);
            assert_ne!(ours.contains(&method), excused, "{method}: in blocking, and in ASYNC_ONLY");
        }
    }
}

fn pass(client: &blocking::Client) -> leasehold::Result<()> {
    let guard = client.lock("a").acquire()?;
    assert!(client.lock("a").try_acquire()?.is_none());
    guard.release()?;
    drop(client.lock("a").acquire()?);
    client.lock("a").try_acquire()?.expect("a drop waits for its release").release()
}

fn refused(client: &blocking::Client, held: blocking::Guard) {
    for error in [
        client.lock("b").acquire().unwrap_err(),
        client.close().unwrap_err(),
        blocking::connect("memory:").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains("spawn_blocking"), "{error}");
    }
    drop(held); // Released in the background.
}

#[test]
fn it_waits_inside_spawn_blocking_and_refuses_inside_a_task_on_both_runtimes() {
    let multi = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let current = tokio::runtime::Builder::new_current_thread().enable_all().build();
    for runtime in [multi.unwrap(), current.unwrap()] {
        runtime.block_on(async {
            let blocking = tokio::task::spawn_blocking(|| {
                let client = blocking::connect("memory:")?;
                pass(&client)?;
                let held = client.lock("c").acquire()?;
                Ok::<_, leasehold::Error>((client, held))
            });
            let (client, held) = blocking.await.unwrap().unwrap();
            let again = client.clone();
            let task = tokio::spawn(async move { refused(&client, held) });
            task.await.unwrap();
            let free = move || again.lock("c").acquire_within(std::time::Duration::from_secs(5));
            let free =
                tokio::task::spawn_blocking(move || free().and_then(|guard| guard.release()));
            free.await.unwrap().unwrap();
        });
    }
}

#[test]
fn it_waits_inside_block_in_place() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let work = || pass(&blocking::connect("memory:")?);
    let task = async move { tokio::task::block_in_place(work) };
    runtime.unwrap().block_on(async { tokio::spawn(task).await.unwrap().unwrap() });
}
