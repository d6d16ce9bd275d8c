//! A guard that is dropped right before its program ends leaves a free lock: real processes, real
//! servers.

#![allow(clippy::unwrap_used)]

mod engines;
mod program;
mod stores;

use std::process::ExitCode;
use std::time::Duration;

use leasehold::{Client, State};
use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::test;
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};

use program::{MANY, Meeting, program};

const TESTS: &[Test] = &[
    test!(a_lock_is_free_when_main_has_returned_after_close),
    test!(a_lock_is_free_when_main_has_returned_after_a_drop),
    test!(a_lock_is_free_when_a_runtime_of_one_thread_has_ended_after_a_drop),
    test!(a_blocking_drop_has_released_when_it_returns),
    test!(a_program_ends_in_time_while_the_server_is_stopped),
    test!(many_unfinished_releases_take_one_connection),
    test!(many_guards_dropped_after_their_runtime_take_one_connection),
    test!(a_lock_that_cannot_be_released_does_not_keep_others_taken),
    test!(blocking_drops_at_a_stopped_server_wait_once),
    test!(a_blocking_drop_waits_again_when_the_server_has_answered),
];

/// Without the release a run in two, or in twenty, left the lock taken.
const RUNS: usize = 25;

fn main() -> ExitCode {
    if program::is_asked_for() {
        return ExitCode::SUCCESS;
    }
    let groups = [("ending", TESTS), ("engines", engines::TESTS)];
    runner::run(Needs::Redis, Duration::from_secs(120), &groups)
}

/// Runs what blocks beside the test's runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Runs the program often; the lock is free each time that it has ended.
async fn ends_with_a_free_lock(role: &str, url: &str, runs: usize) {
    let client: Client = leasehold::connect(url).await.unwrap();
    let mut taken = 0;
    for _ in 0..runs {
        let mut program = program(role, url);
        let ended = blocking(move || program.status()).await.unwrap();
        assert!(ended.success(), "{role}: {ended}");
        let status = client.lock("job").status().await.unwrap();
        if status.state != State::Free {
            taken += 1;
            client.lock("job").force_release(status.token.unwrap()).await.unwrap();
        }
    }
    assert_eq!(taken, 0, "{role}: the lock stayed taken in {taken} of {runs} runs");
    client.close().await;
}

async fn redis_ends_with_a_free_lock(role: &str) {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    ends_with_a_free_lock(role, &server.url(), RUNS).await;
}

async fn a_lock_is_free_when_main_has_returned_after_close() {
    redis_ends_with_a_free_lock("close").await;
}

async fn a_lock_is_free_when_main_has_returned_after_a_drop() {
    redis_ends_with_a_free_lock("drop").await;
}

async fn a_lock_is_free_when_a_runtime_of_one_thread_has_ended_after_a_drop() {
    redis_ends_with_a_free_lock("drop on one thread").await;
}

async fn a_blocking_drop_has_released_when_it_returns() {
    redis_ends_with_a_free_lock("blocking").await;
}

/// The release is tried for a second in all.
async fn a_program_ends_in_time_while_the_server_is_stopped() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut program = Meeting::start("stopped", &server.url());
    blocking(move || {
        program.until_ready();
        server.stop().unwrap();
        program.resume();
        program.until_ended();
        server.resume().unwrap();
    })
    .await;
}

/// The connections that a server was asked for, this one included.
fn connections(server: &RedisServer) -> u64 {
    let stats = server.admin(&["INFO", "stats"]).unwrap().text();
    let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.unwrap().trim().parse().unwrap()
}

/// Many leases are ended without the runtime, and over one connection more than each program has.
async fn many_are_ended_over_one_connection(role: &'static str) {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let url = server.url();
    let took = |role| {
        let (before, ended) = (connections(&server), program(role, &url).status().unwrap());
        assert!(ended.success(), "{role}: {ended}");
        connections(&server) - before
    };
    let (alone, many) = (took("close"), took(role));
    assert!(many <= alone + 4, "{many} connections, where a program without them takes {alone}");
    let client = leasehold::connect(&url).await.unwrap();
    for status in client.list("job/", MANY).await.unwrap() {
        assert_eq!(status.state, State::Free, "{}", status.name);
    }
    client.close().await;
}

async fn many_unfinished_releases_take_one_connection() {
    many_are_ended_over_one_connection("unfinished").await;
}

async fn many_guards_dropped_after_their_runtime_take_one_connection() {
    many_are_ended_over_one_connection("outlive").await;
}

async fn a_lock_that_cannot_be_released_does_not_keep_others_taken() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let url = server.url();
    let mut program = Meeting::start("two", &url);
    let server = blocking(move || {
        program.until_ready();
        server.admin(&["SET", "leasehold:{first}", "not a lock"]).unwrap();
        program.resume();
        program.until_ended();
        server
    })
    .await;
    let client = leasehold::connect(&url).await.unwrap();
    assert_eq!(client.lock("second").status().await.unwrap().state, State::Free);
    client.close().await;
    drop(server);
}

async fn blocking_drops_at_a_stopped_server_wait_once() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let mut program = Meeting::start("blocking many", &server.url());
    blocking(move || {
        program.until_ready();
        server.stop().unwrap();
        program.resume();
        program.until_ended();
        server.resume().unwrap();
    })
    .await;
}

async fn a_blocking_drop_waits_again_when_the_server_has_answered() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let url = server.url();
    let mut program = Meeting::start("blocking again", &url);
    let server = blocking(move || {
        program.until_ready();
        server.stop().unwrap();
        program.resume();
        program.until_ready();
        server.resume().unwrap();
        program.resume();
        program.until_ended();
        server
    })
    .await;
    let client = leasehold::connect(&url).await.unwrap();
    assert_eq!(client.lock("job").status().await.unwrap().state, State::Free);
    client.close().await;
    drop(server);
}
