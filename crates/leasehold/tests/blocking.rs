//! The blocking API: it has what the async API has, and it may wait where blocking is allowed.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use leasehold::blocking::route::Routed;
use leasehold::quorum::Founding;
use leasehold::route::{Members, Router};
use leasehold::{ErrorKind, blocking};

/// Async methods and functions that have no blocking counterpart, with the reason.
const ASYNC_ONLY: &[(&str, &str)] = &[
    (
        "Client::new",
        "a blocking client connects by a URL: its runtime must exist before the backend",
    ),
    ("Client::with_settings", "the same; `blocking::connect_with` takes the settings"),
    ("Client::on_own_thread", "a blocking client always has a thread of its own"),
    ("connect.rs::connect_on_own_thread", "the same"),
    ("connect.rs::open", "it returns a backend, which only the async client uses"),
];

/// The sources with async functions, and the sources of their blocking counterparts.
const SOURCES: &[(&str, &str)] = &[
    ("connect.rs", "blocking.rs"),
    ("init.rs", "blocking.rs"),
    ("doctor.rs", "blocking/doctor.rs"),
    ("quorum.rs", "blocking/quorum.rs"),
    ("route/router.rs", "blocking/route.rs"),
];

/// The sources whose async functions take a connection of another crate, which is async itself.
const FOREIGN_CONNECTIONS: &[&str] = &["fence/redis/newer.rs", "fence/redis/owner.rs"];

/// Returns the public methods of `impl TYPE` in a source file, also those that a macro in the
/// file `knobs` writes.
fn methods(path: &str, knobs: &str, of: &str) -> BTreeSet<String> {
    let read = |path| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(path).unwrap()
    };
    let text = read(path);
    let (_, rest) = text.split_once(&format!("\nimpl {of} {{\n")).expect("the type has methods");
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let knobs = read(knobs);
    let written = match knobs.contains(&format!("\nknobs!({of});\n")) {
        true => knobs,
        false => String::new(),
    };
    let names = body.lines().chain(written.lines()).filter_map(|line| {
        let line = line.trim_start().strip_prefix("pub ")?;
        let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        let end = line.find(['(', '<'])?;
        Some(format!("{of}::{}", &line[..end]))
    });
    names.collect()
}

#[test]
fn blocking_types_have_every_method_of_the_async_types() {
    for (of, path, blocking) in [
        ("Lock", "lock.rs", "blocking.rs"),
        ("Guard", "guard.rs", "blocking.rs"),
        ("Client", "client.rs", "blocking.rs"),
        ("Client", "multi_lock.rs", "blocking.rs"),
        ("MultiLock", "multi_lock.rs", "blocking/multi.rs"),
        ("MultiGuard", "multi_guard.rs", "blocking/multi.rs"),
        ("Client", "election.rs", "blocking.rs"),
        ("Election", "election.rs", "blocking/election.rs"),
        ("Term", "leadership.rs", "blocking/election.rs"),
        ("Client", "rw_lock.rs", "blocking.rs"),
        ("RwLock", "rw_lock.rs", "blocking/read_write.rs"),
        ("ReadGuard", "rw_guard.rs", "blocking/read_write.rs"),
        ("WriteGuard", "rw_guard.rs", "blocking/read_write.rs"),
        ("Client", "semaphore.rs", "blocking.rs"),
        ("Semaphore", "semaphore.rs", "blocking/semaphore.rs"),
        ("Permit", "permit.rs", "blocking/semaphore.rs"),
        ("Client", "latch.rs", "blocking.rs"),
        ("Latch", "latch.rs", "blocking/latch.rs"),
    ] {
        let ours = methods(&format!("src/{blocking}"), "src/blocking/knobs.rs", of);
        let core = "../leasehold-core/src";
        let theirs = methods(&format!("{core}/{path}"), &format!("{core}/knobs.rs"), of);
        assert!(!theirs.is_empty(), "{of}: {theirs:?}");
        for method in theirs {
            let excused = ASYNC_ONLY.iter().any(|(name, _)| *name == method);
            assert_ne!(ours.contains(&method), excused, "{method}: in blocking, and in ASYNC_ONLY");
        }
    }
}

/// Returns the names of the functions that a source declares so.
fn functions(path: &Path, declared: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let names = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix(declared)?;
        Some(rest[..rest.find(['(', '<'])?].to_owned())
    });
    names.collect()
}

/// Calls `visit` with each Rust source below a directory.
fn walk(directory: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path);
        }
    }
}

#[test]
fn blocking_functions_exist_for_every_async_function() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    walk(&src, &mut |path| {
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap().replace('\\', "/");
        let theirs = functions(path, "pub async fn ");
        if theirs.is_empty() || FOREIGN_CONNECTIONS.contains(&name.as_str()) {
            return;
        }
        let counterpart = SOURCES.iter().find(|(source, _)| *source == name);
        let (_, ours) = counterpart.unwrap_or_else(|| panic!("{name}: add it to SOURCES"));
        let ours = functions(&src.join(ours), "pub fn ");
        for function in theirs {
            let excused = ASYNC_ONLY.iter().any(|(of, _)| *of == format!("{name}::{function}"));
            assert_ne!(ours.contains(&function), excused, "{name}: {function}");
            seen += 1;
        }
    });
    assert!(seen > 8, "only {seen} async functions were found");
}

fn pass(client: &blocking::Client) -> leasehold::Result<()> {
    let guard = client.lock("a").acquire()?;
    assert!(client.lock("a").try_acquire()?.is_none());
    guard.release()?;
    drop(client.lock("a").acquire()?);
    client.lock("a").try_acquire()?.expect("a drop waits for its release").release()?;
    let both = client.lock_all(["a", "b"]);
    let guard = both.acquire()?;
    assert!(both.try_acquire()?.is_none() && client.lock("b").try_acquire()?.is_none());
    guard.release()?;
    drop(both.acquire()?);
    both.try_acquire()?.expect("a drop waits for its releases").release()?;
    both.run(|guard| assert!(guard.is_valid()))
}

fn latches(client: &blocking::Client) -> leasehold::Result<()> {
    let latch = client.latch("import", 2).ttl(std::time::Duration::from_secs(60));
    let first = latch.state()?.generation;
    let waiters =
        [latch.clone(), latch.clone()].map(|latch| std::thread::spawn(move || latch.wait()));
    assert_eq!((latch.count_down("a")?, latch.count_down("a")?, latch.count_down("b")?), (1, 1, 0));
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap()?, first);
    }
    assert_eq!(latch.reset()?, first + 1);
    let early = latch.wait_within(std::time::Duration::ZERO).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Timeout, "{early}");
    assert_eq!(latch.of_generation(first).wait()?, first);
    Ok(())
}

fn elections(client: &blocking::Client) -> leasehold::Result<()> {
    let election = client.election("e").candidate("one");
    let mut leaders = election.observe()?;
    let mut seen = || leaders.next().transpose().map(Option::flatten);
    assert_eq!(seen()?, None);
    let mut terms = Vec::new();
    let done = election.run(|leadership| {
        assert_eq!(seen().unwrap().unwrap().token, leadership.token());
        terms.push(leadership.clone());
        if terms.len() == 1 {
            client.lock("e").force_release(leadership.token()).unwrap();
            assert_eq!(seen().unwrap(), None);
            while leadership.is_leader() {
                std::thread::yield_now();
            }
        }
        terms.len()
    })?;
    assert_eq!(done, 2, "it campaigns again after a loss");
    assert!(terms[0].token() < terms[1].token() && !terms[1].is_leader());
    let run = || election.run(|_| panic!("in the work"));
    let panic: Result<leasehold::Result<()>, _> =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    assert!(panic.is_err() && election.leader()?.is_none(), "the term has ended");
    let term = election.campaign()?;
    assert_eq!(election.leader()?.map(|leader| leader.candidate), Some("one".to_owned()));
    let leadership = term.leadership().clone();
    drop(term);
    assert!(!leadership.is_leader() && election.leader()?.is_none(), "a drop waits");
    election.campaign()?.resign()
}

/// Calls the functions that need no client, and the router.
fn commands(client: &blocking::Client) -> leasehold::Result<()> {
    assert_eq!(blocking::forget("memory:", "a")?, 0);
    assert!(!blocking::init("memory:")?, "memory needs no tables");
    blocking::doctor::diagnose("memory:")?;
    let report = blocking::quorum::report("memory:").unwrap_err();
    assert!(report.message().contains("is not a quorum"), "{report}");
    let first = Founding::Vouched;
    let found = blocking::quorum::found("memory:", None, first, |_| ()).unwrap_err();
    assert!(found.message().contains("is not a quorum"), "{found}");
    let router = Router::new("one", Members::new(["one", "two"])?)?;
    let lock = client.lock("orders/555");
    let Routed::Mine(guard) = blocking::route::take_over(&router, &lock, &["two"])? else {
        panic!("the only member left owns every key");
    };
    guard.release()?;
    match blocking::route::acquire(&router, &lock)? {
        Routed::Mine(guard) => guard.release(),
        Routed::NotMine { owner } => {
            assert_eq!(owner, "two");
            Ok(())
        }
        other => panic!("{other:?}"),
    }
}

fn refused(client: &blocking::Client, held: blocking::Guard) {
    for error in [
        client.lock("b").acquire().unwrap_err(),
        client.close().unwrap_err(),
        client.latch("l", 1).wait().map(drop).unwrap_err(),
        client.election("e").campaign().map(drop).unwrap_err(),
        client.election("e").observe().map(drop).unwrap_err(),
        blocking::connect("memory:").unwrap_err(),
        blocking::forget("memory:", "a").unwrap_err(),
        blocking::init("memory:").unwrap_err(),
        blocking::doctor::diagnose("memory:").unwrap_err(),
        blocking::quorum::report("memory:").unwrap_err(),
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
                latches(&client)?;
                elections(&client)?;
                commands(&client)?;
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
