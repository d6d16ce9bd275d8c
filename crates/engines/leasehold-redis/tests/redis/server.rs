//! Servers that lose data, refuse, are full, busy, loading, stopped, or have data of other
//! programs.

use leasehold_conformance::until;
use leasehold_core::{ErrorKind, Forced, LossReason, State, StoreUrl};
use leasehold_test_servers::{ClockShim, RedisServer, RedisSettings};

use crate::{Test, connect, ms, plain, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(scripts_that_were_flushed_are_loaded_again),
    test!(a_client_loads_only_the_scripts_that_it_calls),
    test!(a_flushed_server_is_a_loss_at_the_next_renewal_and_tokens_grow),
    test!(a_deleted_record_is_a_loss),
    test!(a_foreign_value_is_refused_and_left_alone),
    test!(a_record_of_a_newer_version_is_refused_and_left_alone),
    test!(the_doctor_reports_records_that_cannot_be_read),
    test!(a_full_server_still_lets_go_and_renews),
    test!(a_full_server_takes_the_scripts_that_end_what_is_held),
    test!(a_loading_server_is_waited_for),
    test!(a_busy_server_is_waited_for),
    test!(a_restart_with_its_data_is_not_noticed),
    test!(a_restart_without_data_is_a_loss_and_tokens_grow),
    test!(a_lost_tail_of_the_append_only_file_is_a_loss_and_tokens_grow),
    test!(a_clock_that_jumps_past_the_ttl_lets_another_in_and_tokens_tell_them_apart),
    test!(a_clock_that_goes_back_an_hour_is_seen_and_ended_by_force),
    test!(a_stopped_server_is_a_loss_told_before_the_deadline),
    test!(forgetting_removes_the_free_locks_of_a_prefix_and_no_others),
];

async fn scripts_that_were_flushed_are_loaded_again() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    server.admin(&["SCRIPT", "FLUSH"]).unwrap();
    guard.release().await.unwrap();
    server.admin(&["SCRIPT", "FLUSH"]).unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_client_loads_only_the_scripts_that_it_calls() {
    let server = plain();
    let client = connect(&server.url()).await;
    let loaded = || {
        let memory = server.admin(&["INFO", "memory"]).unwrap().text();
        let (_, count) = memory.split_once("number_of_cached_scripts:").unwrap();
        count.lines().next().unwrap().parse::<u32>().unwrap()
    };
    let guard = client.lock("a").acquire().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(loaded(), 4);
    client.lock("a").status().await.unwrap();
    assert_eq!(loaded(), 5);
    client.semaphore("s", 2).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(loaded(), 7);
    connect(&server.url()).await.rw_lock("r").read().await.unwrap().release().await.unwrap();
    assert_eq!(loaded(), 9);
}

async fn a_flushed_server_is_a_loss_at_the_next_renewal_and_tokens_grow() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(1)).acquire().await.unwrap();
    server.admin(&["FLUSHALL"]).unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    let next = client.lock("a").acquire().await.unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.is_valid());
    next.release().await.unwrap();
}

async fn a_deleted_record_is_a_loss() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(1)).acquire().await.unwrap();
    server.admin(&["DEL", "leasehold:{a}"]).unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
}

async fn a_foreign_value_is_refused_and_left_alone() {
    let server = plain();
    let client = connect(&server.url()).await;
    server.admin(&["SET", "leasehold:{text}", "550e8400-e29b-41d4"]).unwrap();
    server.admin(&["HSET", "leasehold:{hash}", "a", "1"]).unwrap();
    for name in ["text", "hash"] {
        let error = client.lock(name).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains(&format!("leasehold:{{{name}}}")), "{error}");
        assert_eq!(client.lock(name).status().await.unwrap_err().kind(), ErrorKind::Foreign);
    }
    let text = server.admin(&["GET", "leasehold:{text}"]).unwrap().text();
    assert_eq!(text, "550e8400-e29b-41d4");
    // A bad request in a batch does not affect the others.
    let mut asking = Vec::new();
    for number in 0..64 {
        let name = if number == 7 { "hash".to_owned() } else { format!("n{number}") };
        let lock = client.lock(name);
        asking.push(tokio::spawn(async move { lock.try_acquire().await.is_ok() }));
    }
    let mut good = 0;
    for task in asking {
        good += usize::from(task.await.unwrap());
    }
    assert_eq!(good, 63);
}

async fn a_record_of_a_newer_version_is_refused_and_left_alone() {
    let server = plain();
    let client = connect(&server.url()).await;
    let newer = format!("L3{}", "x".repeat(200));
    server.admin(&["SET", "leasehold:{a}", &newer]).unwrap();
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.to_string().contains("newer"), "{error}");
    assert_eq!(server.admin(&["GET", "leasehold:{a}"]).unwrap().text(), newer);
}

async fn the_doctor_reports_records_that_cannot_be_read() {
    let server = plain();
    let client = connect(&server.url()).await;
    client.lock("lock").acquire().await.unwrap().release().await.unwrap();
    let reader = client.rw_lock("readers").read().await.unwrap();
    let permit = client.semaphore("permits", 2).acquire().await.unwrap();
    client.latch("latch", 2).count_down("a").await.unwrap();
    let found = async |id: &str| {
        let url = StoreUrl::parse(&server.url()).unwrap();
        let found = leasehold_redis::diagnose(url).await.unwrap();
        assert!(found.unseen.is_empty(), "{:?}", found.unseen);
        let mut findings = found.findings.into_iter().filter(|finding| finding.id == id);
        findings.next().map(|finding| finding.what)
    };
    assert_eq!((found("damaged").await, found("newer").await), (None, None));
    server.admin(&["HSET", "leasehold:{hash}", "a", "1"]).unwrap();
    let what = found("damaged").await.unwrap();
    assert_eq!(what, "records cannot be read, those of \"hash\"");
    for name in ["text", "more", "most"] {
        server.admin(&["SET", &format!("leasehold:{{{name}}}"), "550e8400-e29b-41d4"]).unwrap();
    }
    for (name, value) in [("n1", "L3"), ("n2", "S2"), ("n3", "leasehold latch 2\n")] {
        server.admin(&["SET", &format!("leasehold:{{{name}}}"), value]).unwrap();
    }
    let what = found("damaged").await.unwrap();
    assert!(what.ends_with(" and 1 more") && !what.contains("\"n"), "{what}");
    let what = found("newer").await.unwrap();
    assert!(["n1", "n2", "n3"].iter().all(|name| what.contains(name)), "{what}");
    reader.release().await.unwrap();
    permit.release().await.unwrap();
}

async fn a_full_server_still_lets_go_and_renews() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(1)).acquire().await.unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let error = client.lock("b").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("maxmemory"), "{error}");
    let deadline = guard.deadline();
    until("it is renewed", || async { guard.deadline() != deadline }).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(client.lock("a").status().await.unwrap().state, State::Free);
}

async fn a_full_server_takes_the_scripts_that_end_what_is_held() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").acquire().await.unwrap();
    let reader = client.rw_lock("r").read().await.unwrap();
    let permit = client.semaphore("s", 2).acquire().await.unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    server.admin(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    server.admin(&["SCRIPT", "FLUSH"]).unwrap();
    guard.release().await.unwrap();
    reader.release().await.unwrap();
    permit.release().await.unwrap();
    for name in ["a", "r", "s"] {
        assert_eq!(client.lock(name).status().await.unwrap().state, State::Free, "{name}");
    }
}

async fn a_loading_server_is_waited_for() {
    let mut server = plain();
    let client = connect(&server.url()).await;
    let loading = server.restart_loading().unwrap();
    let lock = client.lock("a");
    let asking = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    tokio::time::sleep(ms(300)).await; // It has reached the loading server by now, or will.
    assert!(!asking.is_finished());
    loading.finish().unwrap();
    asking.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_busy_server_is_waited_for() {
    let server = plain();
    let client = connect(&server.url()).await;
    let busy = server.make_busy().unwrap();
    let lock = client.lock("a");
    let asking = tokio::spawn(async move { lock.acquire_within(secs(30)).await });
    tokio::time::sleep(ms(300)).await;
    assert!(!asking.is_finished());
    drop(busy);
    asking.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_restart_with_its_data_is_not_noticed() {
    let settings = RedisSettings::new().append_only().line("appendfsync always");
    let mut server = RedisServer::start(settings).unwrap();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(10)).acquire().await.unwrap();
    server.kill();
    server.start_again().unwrap();
    let deadline = guard.deadline();
    until("it is renewed", || async { guard.deadline() != deadline }).await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

async fn a_restart_without_data_is_a_loss_and_tokens_grow() {
    let mut server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(3)).acquire().await.unwrap();
    server.restart_empty().unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    let next = client.lock("a").acquire_within(secs(10)).await.unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
}

async fn a_lost_tail_of_the_append_only_file_is_a_loss_and_tokens_grow() {
    let settings = RedisSettings::new().append_only().line("appendfsync always");
    let mut server = RedisServer::start(settings).unwrap();
    let client = connect(&server.url()).await;
    let kept = server.aof_bytes().unwrap();
    let guard = client.lock("a").ttl(secs(3)).acquire().await.unwrap();
    let all = server.aof_bytes().unwrap();
    server.kill();
    server.truncate_aof(all - kept).unwrap();
    server.start_again().unwrap();
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    let next = client.lock("a").acquire_within(secs(10)).await.unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
}

async fn a_clock_that_jumps_past_the_ttl_lets_another_in_and_tokens_tell_them_apart() {
    let shim = ClockShim::build().unwrap();
    let server = RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let guard = one.lock("a").ttl(secs(6)).acquire().await.unwrap();
    shim.set_offset(40.0).unwrap();
    let next = two.lock("a").acquire_within(secs(10)).await.unwrap();
    assert!(next.token() > guard.token(), "only the tokens tell who came later");
    assert_eq!(guard.lost().await, LossReason::NotOwner);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.release().await.unwrap();
}

async fn a_clock_that_goes_back_an_hour_is_seen_and_ended_by_force() {
    let shim = ClockShim::build().unwrap();
    let server = RedisServer::start(shim.on(RedisSettings::new())).unwrap();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(30)).acquire().await.unwrap();
    let token = guard.token();
    std::mem::forget(guard); // Its holder has crashed.
    shim.set_offset(-3600.0).unwrap();
    let status = client.lock("a").status().await.unwrap();
    assert!(status.remaining.unwrap() > secs(3600), "{status:?}");
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(client.lock("a").force_release(token).await.unwrap(), Forced::Ended);
    let next = client.lock("a").acquire_within(secs(10)).await.unwrap();
    assert!(next.token() > token, "tokens went back with the clock");
    next.release().await.unwrap();
}

async fn a_stopped_server_is_a_loss_told_before_the_deadline() {
    let server = plain();
    let client = connect(&server.url()).await;
    let guard = client.lock("a").ttl(secs(2)).acquire().await.unwrap();
    server.stop().unwrap();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(!guard.remaining().is_zero(), "told too late");
    let error = client.lock("b").acquire_within(ms(500)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    server.resume().unwrap();
    let next = client.lock("a").acquire_within(secs(20)).await.unwrap();
    assert!(next.token() > guard.token());
    drop(guard);
    next.release().await.unwrap();
    assert!(try_connect(&server.url()).await.is_ok());
}

async fn forgetting_removes_the_free_locks_of_a_prefix_and_no_others() {
    let server = plain();
    let url = format!("{}?prefix=app", server.url());
    let client = connect(&url).await;
    for name in ["bench/1", "bench/{2}", "benchmark", "other"] {
        client.lock(name).acquire().await.unwrap().release().await.unwrap();
    }
    server.admin(&["SET", "app:{bench/x", "not ours"]).unwrap();
    let held = client.lock("bench/3").acquire().await.unwrap();
    let forget = || leasehold_redis::forget(StoreUrl::parse(&url).unwrap(), "bench/");
    assert_eq!(forget().await.unwrap(), 2);
    let mut keys: Vec<String> =
        server.admin(&["KEYS", "*"]).unwrap().items().iter().map(|key| key.text()).collect();
    keys.sort();
    assert_eq!(keys, ["app:{bench/3}", "app:{bench/x", "app:{benchmark}", "app:{other}"]);
    assert!(held.is_valid());
    held.release().await.unwrap();
    assert_eq!(forget().await.unwrap(), 1);
}
