//! Work that is done once for each request id, on a real Redis server.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used)]

use std::process::ExitCode;
use std::time::Duration;

use leasehold_conformance::runner::{self, Test};
use leasehold_conformance::test;
use leasehold_once::{Begun, ErrorKind, Run, RunOnce};
use leasehold_test_servers::{Needs, RedisServer, RedisSettings, Value};

const TESTS: &[Test] = &[
    test!(a_result_is_remembered),
    test!(one_of_many_runs),
    test!(a_killed_holder_costs_its_lease),
    test!(a_holder_whose_lease_has_ended_changes_nothing),
    test!(a_renewed_lease_goes_on),
    test!(another_payload_is_refused),
    test!(a_failure_for_good_is_remembered_and_another_is_not),
    test!(an_abandoned_run_leaves_its_tries),
    test!(a_dropped_run_keeps_the_next_out_until_its_lease_ends),
    test!(a_result_survives_an_outage_shorter_than_the_lease),
    test!(a_run_outlives_an_error_and_completes_later),
    test!(a_dead_holder_is_remembered_longer_than_his_lease),
    test!(what_is_no_record_is_left_alone),
    test!(while_redis_is_down_nothing_begins),
    test!(bad_settings_of_a_run_are_named),
];

fn main() -> ExitCode {
    runner::run(Needs::Redis, secs(90), &[("once", TESTS)])
}

fn server() -> RedisServer {
    RedisServer::start(RedisSettings::new()).unwrap()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const KEY: &str = "{leasehold-once:test:id}";

fn open(server: &RedisServer) -> RunOnce {
    RunOnce::builder("test").lease(secs(600)).redis_limit(secs(10)).open(&server.url()).unwrap()
}

fn brief(server: &RedisServer) -> RunOnce {
    RunOnce::builder("test").lease(ms(50)).redis_limit(secs(10)).open(&server.url()).unwrap()
}

async fn begin(once: &RunOnce) -> Begun<String> {
    once.begin("id", b"payload").await.unwrap()
}

async fn won(once: &RunOnce) -> Run {
    match begin(once).await {
        Begun::Won(run) => run,
        other => panic!("{other:?}"),
    }
}

/// Asks until the one before is taken for dead.
async fn won_at_last(once: &RunOnce) -> Run {
    for _ in 0..5_000 {
        match begin(once).await {
            Begun::Won(run) => return run,
            Begun::Busy(left) => tokio::time::sleep(left.min(ms(10))).await,
            other => panic!("{other:?}"),
        }
    }
    panic!("it stays busy");
}

async fn completed(once: &RunOnce) -> String {
    match begin(once).await {
        Begun::Completed(result) => result,
        other => panic!("{other:?}"),
    }
}

async fn a_result_is_remembered() {
    let server = server();
    let (one, other) = (open(&server), open(&server));
    let mut run = won(&one).await;
    assert_eq!(run.tries(), 1);
    let Begun::Busy(left) = begin(&other).await else { panic!("it is ours") };
    assert!(left > secs(60) && left <= secs(600), "{left:?}");
    run.complete("receipt 1").await.unwrap();
    for once in [&one, &other] {
        assert_eq!(completed(once).await, "receipt 1");
    }
    let Value::Integer(left) = server.admin(&["PTTL", KEY]).unwrap() else { panic!() };
    assert!((86_000_000..=86_400_000).contains(&left), "{left}");
}

async fn one_of_many_runs() {
    let server = server();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..32 {
        let once = open(&server);
        tasks.spawn(async move {
            match begin(&once).await {
                Begun::Won(mut run) => {
                    run.complete(&task.to_string()).await.unwrap();
                    1
                }
                Begun::Busy(_) | Begun::Completed(_) => 0,
                other => panic!("{other:?}"),
            }
        });
    }
    assert_eq!(tasks.join_all().await.into_iter().sum::<u32>(), 1);
}

async fn a_killed_holder_costs_its_lease() {
    let server = server();
    let killed = won(&brief(&server)).await;
    // No destructor of a killed process runs.
    std::mem::forget(killed);
    let mut run = won_at_last(&brief(&server)).await;
    assert_eq!(run.tries(), 2, "who comes after it knows that something was begun");
    run.complete("second").await.unwrap();
    assert_eq!(completed(&open(&server)).await, "second");
}

async fn a_holder_whose_lease_has_ended_changes_nothing() {
    let server = server();
    let late: Vec<Run> = {
        let once = brief(&server);
        let mut late = Vec::new();
        for _ in 0..4 {
            late.push(won_at_last(&once).await);
        }
        late
    };
    let mut holder = won_at_last(&open(&server)).await;
    assert_eq!(holder.tries(), 5);
    let record = || server.admin(&["HGETALL", KEY]).unwrap();
    let before = record();
    let mut late = late.into_iter();
    let mut next = || late.next().unwrap();
    let renewing = next();
    assert_eq!(renewing.renew().await.unwrap_err().kind(), ErrorKind::Lost);
    drop(renewing);
    assert_eq!(next().complete("late").await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(next().fail("late").await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(next().leave().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(record(), before);
    holder.complete("his").await.unwrap();
    assert_eq!(completed(&open(&server)).await, "his");

    // And what has ended is not taken up again.
    let server = self::server();
    let mut late = won(&brief(&server)).await;
    won_at_last(&open(&server)).await.complete("his").await.unwrap();
    assert_eq!(late.complete("late").await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(completed(&open(&server)).await, "his");
}

async fn a_renewed_lease_goes_on() {
    let server = server();
    let once = RunOnce::builder("test").lease(secs(30)).redis_limit(secs(10));
    let mut run = won(&once.open(&server.url()).unwrap()).await;
    let until_ms = || match server.admin(&["HGET", KEY, "until"]).unwrap() {
        Value::Bytes(ms) => String::from_utf8(ms).unwrap().parse::<u64>().unwrap(),
        other => panic!("{other:?}"),
    };
    let first = until_ms();
    tokio::time::sleep(ms(5)).await;
    run.renew().await.unwrap();
    assert!(until_ms() > first);
    run.complete("done").await.unwrap();
}

async fn another_payload_is_refused() {
    let server = server();
    let once = open(&server);
    let mut run = won(&once).await;
    let other = async || once.begin::<String>("id", b"another").await.unwrap_err();
    assert_eq!(other().await.kind(), ErrorKind::Invalid);
    run.complete("done").await.unwrap();
    let error = other().await;
    assert!(error.to_string().contains("another payload"), "{error}");
    assert_eq!(completed(&once).await, "done");
}

async fn a_failure_for_good_is_remembered_and_another_is_not() {
    let server = server();
    let once = open(&server);
    won(&once).await.leave().await.unwrap();
    assert_eq!(server.admin(&["EXISTS", KEY]).unwrap(), Value::Integer(0));
    won(&once).await.fail("no such account").await.unwrap();
    assert!(matches!(begin(&once).await, Begun::Failed(reason) if reason == "no such account"));
}

async fn an_abandoned_run_leaves_its_tries() {
    let server = server();
    let once = open(&server);
    won(&once).await.abandon().await.unwrap();
    let mut run = won(&once).await;
    assert_eq!(run.tries(), 2, "the work may have been done");
    let error = run.complete(&NotEncoded).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    run.abandon().await.unwrap();
    let mut run = won(&once).await;
    assert_eq!(run.tries(), 3, "the work was done");
    run.leave().await.unwrap();
    run.leave().await.unwrap();
    assert_eq!(won(&once).await.tries(), 1);
}

async fn a_dropped_run_keeps_the_next_out_until_its_lease_ends() {
    let server = server();
    let once = open(&server);
    drop(won(&once).await);
    // What a drop may have sent in the background has arrived by the next answers.
    for _ in 0..20 {
        tokio::time::sleep(ms(5)).await;
        assert!(matches!(begin(&once).await, Begun::Busy(_)));
    }
    server.admin(&["HSET", KEY, "until", "0"]).unwrap();
    assert_eq!(won(&once).await.tries(), 2, "its lease has ended");
}

async fn a_result_survives_an_outage_shorter_than_the_lease() {
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    let once = RunOnce::builder("test").lease(secs(600)).redis_limit(ms(200));
    let once = once.open(&server.url()).unwrap();
    let mut run = won(&once).await;
    server.kill();
    // So many failures open the breaker.
    for _ in 0..5 {
        let error = once.begin::<String>("other", b"payload").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
    let completing = tokio::spawn(async move { run.complete("receipt").await });
    tokio::time::sleep(ms(300)).await;
    assert!(!completing.is_finished(), "it goes on while the lease lasts");
    server.restart().unwrap();
    completing.await.unwrap().unwrap();
    assert_eq!(completed(&open(&server)).await, "receipt");
}

async fn a_run_outlives_an_error_and_completes_later() {
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    let once = RunOnce::builder("test").lease(ms(500)).redis_limit(ms(100));
    let mut run = won(&once.open(&server.url()).unwrap()).await;
    server.kill();
    let error = run.complete("receipt").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "the lease has ended");
    server.restart().unwrap();
    // Each call is sent at least once, whatever the breaker says.
    let mut done = run.complete("receipt").await;
    for _ in 0..100 {
        if done.is_ok() {
            break;
        }
        tokio::time::sleep(ms(20)).await;
        done = run.complete("receipt").await;
    }
    done.unwrap();
    assert_eq!(completed(&open(&server)).await, "receipt");
}

struct NotEncoded;

impl serde::Serialize for NotEncoded {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not to be encoded"))
    }
}

async fn a_dead_holder_is_remembered_longer_than_his_lease() {
    let server = server();
    let left = || match server.admin(&["PTTL", KEY]).unwrap() {
        Value::Integer(left) => left,
        other => panic!("{other:?}"),
    };
    let builder = RunOnce::builder("test").redis_limit(secs(10));
    let once = builder.keep(secs(3_600)).lease(secs(7_200)).open(&server.url()).unwrap();
    let mut run = won(&once).await;
    assert!(left() > 7_200_000, "{}", left());
    // As after some hours of renewals.
    server.admin(&["PEXPIRE", KEY, "7200000"]).unwrap();
    run.renew().await.unwrap();
    assert!(left() > 7_200_000, "{}", left());
    run.complete("done").await.unwrap();
    assert!(left() <= 3_600_000, "{}", left());
}

async fn what_is_no_record_is_left_alone() {
    let server = server();
    let once = open(&server);
    for make in
        [vec!["SET", KEY, "x"], vec!["HSET", KEY, "state", "running"], vec!["HSET", KEY, "v", "2"]]
    {
        server.admin(&["DEL", KEY]).unwrap();
        server.admin(&make).unwrap();
        let before = server.admin(&["DUMP", KEY]).unwrap();
        let error = once.begin::<String>("id", b"payload").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{make:?}");
        assert_eq!(server.admin(&["DUMP", KEY]).unwrap(), before);
    }
    server.admin(&["DEL", KEY]).unwrap();
    won(&once).await.complete("text").await.unwrap();
    let error = once.begin::<(String, Vec<u64>)>("id", b"payload").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
}

async fn while_redis_is_down_nothing_begins() {
    let mut server = server();
    let once = open(&server);
    server.kill();
    let error = once.begin::<String>("other", b"payload").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

async fn bad_settings_of_a_run_are_named() {
    type Settings = leasehold_once::RunOnceBuilder;
    type Setting = fn(Settings) -> Settings;
    let wrong: [(&str, Setting); 4] = [
        ("lease", |builder| builder.lease(ms(0))),
        ("keep", |builder| builder.keep(ms(1))),
        ("redis_limit", |builder| builder.redis_limit(ms(0))),
        ("prefix", |builder| builder.prefix("{}")),
    ];
    for (field, wrong) in wrong {
        let error = wrong(RunOnce::builder("test")).open("redis://127.0.0.1:1").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(field), "{error}");
    }
    let server = server();
    let once = open(&server);
    for id in ["", "a\nb", &"x".repeat(513)] {
        let error = once.begin::<String>(id, b"").await.unwrap_err();
        assert!(error.to_string().starts_with("key"), "{error}");
    }
}
