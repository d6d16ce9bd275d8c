//! A guard that is dropped right before its program ends leaves a free lock: real processes, a real
//! Redis.

#![allow(clippy::unwrap_used)]

use std::process::{Command, ExitCode};
use std::time::Duration;

use leasehold::{Client, State};
use leasehold_conformance::kit::{Needs, RedisServer, Settings};
use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::test;

const TESTS: &[Test] = &[
    test!(a_lock_is_free_when_main_has_returned_after_close),
    test!(a_lock_is_free_when_main_has_returned_after_a_drop),
    test!(a_lock_is_free_when_a_runtime_of_one_thread_has_ended_after_a_drop),
    test!(a_blocking_drop_has_released_when_it_returns),
    test!(a_program_ends_in_time_while_the_server_is_stopped),
];

const ROLE: &str = "LEASEHOLD_ENDING_ROLE";
const URL: &str = "LEASEHOLD_ENDING_URL";
/// Without the release a run in two, or in twenty, left the lock taken.
const RUNS: usize = 25;
/// A lock that is left to its ttl is seen as taken.
const TTL: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    if let (Ok(role), Ok(url)) = (std::env::var(ROLE), std::env::var(URL)) {
        play(&role, &url).unwrap();
        return ExitCode::SUCCESS;
    }
    runner::run(Needs::Redis, Duration::from_secs(120), &[("ending", TESTS)])
}

/// A program as the examples have it: it drops its guard and returns from `main`.
fn play(role: &str, url: &str) -> leasehold::Result<()> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let mut one = tokio::runtime::Builder::new_current_thread();
    match role {
        "close" => threads.enable_all().build().unwrap().block_on(work(url, true)),
        "drop" => threads.enable_all().build().unwrap().block_on(work(url, false)),
        "drop on one thread" => one.enable_all().build().unwrap().block_on(work(url, false)),
        "stopped" => threads.enable_all().build().unwrap().block_on(stopped(url)),
        "blocking" => {
            let client = leasehold::blocking::connect(url)?;
            drop(client.lock("job").ttl(TTL).acquire()?);
            // What a killed process would do: nothing runs any more.
            std::process::exit(0);
        }
        _ => unreachable!("{role}"),
    }
}

async fn work(url: &str, close: bool) -> leasehold::Result<()> {
    let client = leasehold::connect(url).await?;
    let guard = client.lock("job").ttl(TTL).acquire().await?;
    drop(guard);
    if close {
        client.close().await;
    }
    Ok(())
}

/// The server stops while the lock is held.
async fn stopped(url: &str) -> leasehold::Result<()> {
    let client = leasehold::connect(url).await?;
    let guard = client.lock("job").ttl(TTL).acquire().await?;
    println!("held");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop(guard);
    Ok(())
}

fn program(role: &str, url: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).env(URL, url);
    command
}

/// Runs the program often; the lock is free each time that it has ended.
async fn ends_with_a_free_lock(role: &str) {
    let server = RedisServer::start(Settings::new()).unwrap();
    let url = server.url();
    let client: Client = leasehold::connect(&url).await.unwrap();
    let mut taken = 0;
    for _ in 0..RUNS {
        let mut program = program(role, &url);
        let ended = tokio::task::spawn_blocking(move || program.status()).await.unwrap().unwrap();
        assert!(ended.success(), "{role}: {ended}");
        let status = client.lock("job").status().await.unwrap();
        assert!(status.token.is_some(), "{role}: it never held the lock");
        if status.state != State::Free {
            taken += 1;
            client.lock("job").force_release(status.token.unwrap()).await.unwrap();
        }
    }
    assert_eq!(taken, 0, "{role}: the lock stayed taken in {taken} of {RUNS} runs");
    client.close().await;
}

async fn a_lock_is_free_when_main_has_returned_after_close() {
    ends_with_a_free_lock("close").await;
}

async fn a_lock_is_free_when_main_has_returned_after_a_drop() {
    ends_with_a_free_lock("drop").await;
}

async fn a_lock_is_free_when_a_runtime_of_one_thread_has_ended_after_a_drop() {
    ends_with_a_free_lock("drop on one thread").await;
}

async fn a_blocking_drop_has_released_when_it_returns() {
    ends_with_a_free_lock("blocking").await;
}

/// The release is tried for a second in all.
async fn a_program_ends_in_time_while_the_server_is_stopped() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let server = RedisServer::start(Settings::new()).unwrap();
    let mut program = program("stopped", &server.url());
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let ended = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        server.stop().unwrap();
        drop(child.stdin.take());
        let ended = child.wait().unwrap();
        server.go_on().unwrap();
        ended
    });
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    assert!(ended.expect("the program hangs at a silent server").unwrap().success());
}
