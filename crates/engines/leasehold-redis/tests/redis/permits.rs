//! Permits of semaphores when replies are lost, requests are repeated or late, clients die, and the
//! server loses data; and names that are used for a lock and a semaphore.

use std::time::Duration;

use leasehold_conformance::until;
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, Event, Grant, LimitChange, LimitChanged, Mode, ReleaseRequest,
    Renewal, Renewed, Verdict,
};
use leasehold_core::proto::semaphore::{Demand, Limit};
use leasehold_core::{ErrorKind, LossReason, Result, State, StoreUrl};
use leasehold_test_servers::{Pattern, Proxy, RedisServer, Value};

use crate::earlier;
use crate::side::{Side, name, unheard};
use crate::{Test, calls, connect, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_lost_reply_to_any_request_for_a_permit_changes_nothing),
    test!(every_request_for_a_permit_repeated_does_what_it_does_once),
    test!(every_request_for_a_permit_delayed_past_its_end_leaves_the_next_one_alone),
    test!(a_cut_off_holder_gives_exactly_its_slots_back),
    test!(a_waiter_that_hears_nothing_keeps_its_slots_for_an_offer_only),
    test!(a_dead_first_waiter_for_many_slots_blocks_no_one_for_longer_than_its_lease),
    test!(a_waiter_that_needs_more_than_a_new_limit_is_refused_at_once),
    test!(a_flushed_server_is_a_loss_of_permits_and_tokens_grow),
    test!(a_restart_without_data_is_a_loss_of_permits_and_tokens_grow),
    test!(a_name_is_a_lock_or_a_semaphore),
    test!(clients_of_an_earlier_version_do_not_take_a_semaphore),
    test!(forget_leaves_a_semaphore_with_permits_waiters_or_a_changed_limit),
    test!(a_limit_that_was_changed_does_not_expire),
    test!(one_call_renews_all_permits_of_a_semaphore),
    test!(an_acquire_takes_as_many_commands_beside_thousands_of_slots_as_beside_none),
];

pub(crate) const LIMIT: u32 = 3;

/// What a client asks a semaphore for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Acquire,
    Renew,
    Release,
    Cancel,
    Rotate,
    Limit,
    Force,
}

pub(crate) const KINDS: [Kind; 7] = [
    Kind::Acquire,
    Kind::Renew,
    Kind::Release,
    Kind::Cancel,
    Kind::Rotate,
    Kind::Limit,
    Kind::Force,
];

fn about_a() -> Pattern {
    Pattern::command("EVALSHA").and("{a}")
}

pub(crate) type Held = (Grant, Vec<u32>);

pub(crate) fn asks(side: &mut Side, ttl: Duration, slots: u32) -> AcquireRequest {
    side.request(ttl).with_tokens(1).with_demand(Demand::new(slots, LIMIT).unwrap())
}

pub(crate) async fn granted(side: &Side, request: &AcquireRequest) -> Held {
    match side.acquire(request).await {
        Answer::Permit { grant, slots } => (grant, slots),
        other => panic!("{other:?}"),
    }
}

fn gone(request: &AcquireRequest) -> ReleaseRequest {
    unheard(request).with_slot(None)
}

pub(crate) fn end(request: &AcquireRequest, (grant, slots): &Held) -> ReleaseRequest {
    let base = grant.tokens.base();
    unheard(request).with_base(base).with_last(base).with_slot(slots[0])
}

pub(crate) async fn renew(side: &Side, request: &AcquireRequest, held: &Held) -> Result<Renewed> {
    let base = held.0.tokens.base();
    let lease = Renewal::new(request.name.clone(), request.attempt, base, request.ttl);
    side.backend.renew(&[lease.of_permit()]).await.pop().unwrap()
}

/// An attempt for two slots, its permit if the kind of request needs one, and the next attempt.
pub(crate) struct Scene {
    request: AcquireRequest,
    next: AcquireRequest,
    held: Option<Held>,
}

impl Scene {
    pub(crate) async fn set(side: &mut Side, kind: Kind, ttl: Duration) -> Self {
        let (request, next) = (asks(side, ttl, 2), asks(side, ttl, 1));
        let held = match kind {
            Kind::Acquire => None,
            _ => Some(granted(side, &request).await),
        };
        Self { request, next, held }
    }

    /// Sends the request once.
    pub(crate) async fn send(&self, side: &Side, kind: Kind) -> Result<()> {
        let Self { request, next, held } = self;
        let end = || held.as_ref().map_or_else(|| gone(request), |held| end(request, held));
        match kind {
            Kind::Acquire => side.backend.acquire(request.clone()).await.map(drop),
            Kind::Renew => renew(side, request, held.as_ref().unwrap()).await.map(drop),
            Kind::Release => side.release(&end()).await.map(drop),
            Kind::Cancel => side.release(&gone(request).with_suspect(true)).await.map(drop),
            Kind::Rotate => side.release(&end().with_then(next.clone())).await.map(drop),
            Kind::Limit => {
                let change = LimitChange::new(name(), 1, Limit::new(LIMIT + 1).unwrap());
                side.backend.set_limit(change).await.map(drop)
            }
            Kind::Force => {
                let token = held.as_ref().unwrap().0.tokens.base();
                side.backend.force_release(&name(), token).await.map(drop)
            }
        }
    }

    /// Checks the effect of the request.
    async fn check(&self, side: &Side, kind: Kind) {
        let status = side.status().await;
        assert_eq!(status.waiters.as_deref(), Some(&[][..]), "{kind:?}");
        let permits = status.permits.unwrap();
        let held: Vec<_> =
            permits.holders.iter().map(|one| (one.holder.attempt, one.slots.clone())).collect();
        let expected = match kind {
            Kind::Acquire | Kind::Renew | Kind::Limit => {
                vec![(self.request.attempt, vec![0, 1])]
            }
            Kind::Rotate => vec![(self.next.attempt, vec![0])],
            Kind::Release | Kind::Cancel | Kind::Force => vec![],
        };
        assert_eq!(held, expected, "{kind:?}");
        let slots: usize = expected.iter().map(|(_, slots)| slots.len()).sum();
        assert_eq!(permits.held as usize, slots, "{kind:?}");
        let limit = if kind == Kind::Limit { (LIMIT + 1, 2) } else { (LIMIT, 1) };
        assert_eq!((permits.limit, permits.version), limit, "{kind:?}");
        let stored = side.backend.limit(&name()).await.unwrap().unwrap();
        assert_eq!((stored.limit.get(), stored.version), limit, "{kind:?}");
    }
}

async fn a_lost_reply_to_any_request_for_a_permit_changes_nothing() {
    for kind in KINDS {
        let server = plain();
        let proxy = Proxy::start(&server).unwrap();
        let mut side = Side::connect(&proxy.url()).await;
        let scene = Scene::set(&mut side, kind, secs(30)).await;
        let shot = proxy.reset_at_reply_to(about_a());
        let error = scene.send(&side, kind).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{kind:?}");
        assert!(shot.happened());
        until("it is answered", || async { scene.send(&side, kind).await.is_ok() }).await.unwrap();
        scene.check(&side, kind).await;
    }
}

async fn every_request_for_a_permit_repeated_does_what_it_does_once() {
    for kind in KINDS {
        let server = plain();
        let proxy = Proxy::start(&server).unwrap();
        let mut side = Side::connect(&proxy.url()).await;
        let scene = Scene::set(&mut side, kind, secs(30)).await;
        let runs = calls(&server);
        let shot = proxy.duplicate(about_a());
        scene.send(&side, kind).await.unwrap();
        until("it was repeated", || async { calls(&server) >= runs + 2 }).await.unwrap();
        assert!(shot.happened());
        scene.check(&side, kind).await;
    }
}

async fn every_request_for_a_permit_delayed_past_its_end_leaves_the_next_one_alone() {
    for kind in KINDS {
        let server = plain();
        let proxy = Proxy::start(&server).unwrap();
        let mut other = Side::connect(&server.url()).await;
        let mut side = Side::connect(&proxy.url()).await;
        let scene = Scene::set(&mut side, kind, secs(30)).await;
        let held = proxy.hold(about_a());
        // Its client gives up and ends the attempts in another way; then another client acquires all slots.
        let sending = scene.send(&side, kind);
        let moving = async {
            until("it is on its way", || async { held.is_caught() }).await.unwrap();
            for request in [&scene.request, &scene.next] {
                other.release(&gone(request).with_suspect(true)).await.unwrap();
            }
            let change =
                |version, limit| LimitChange::new(name(), version, Limit::new(limit).unwrap());
            if kind == Kind::Limit {
                for (version, limit) in [(1, 5), (2, LIMIT)] {
                    let changed = other.backend.set_limit(change(version, limit)).await.unwrap();
                    assert_eq!(changed, LimitChanged::Changed(version + 1));
                }
            }
            let request = asks(&mut other, secs(30), LIMIT);
            let permit = granted(&other, &request).await;
            let runs = calls(&server);
            held.release();
            until("it has arrived", || async { calls(&server) > runs }).await.unwrap();
            let status = other.status().await;
            assert_eq!(status.waiters, Some(Vec::new()), "{kind:?}");
            let permits = status.permits.unwrap();
            assert_eq!((permits.held, permits.limit), (LIMIT, LIMIT), "{kind:?}");
            assert_eq!(permits.holders[0].holder.attempt, request.attempt, "{kind:?}");
            assert_eq!(other.verdict(&end(&request, &permit)).await, Verdict::Released, "{kind:?}");
        };
        let (_late, ()) = tokio::join!(sending, moving);
    }
}

/// redisson#3046: the permits of a holder that crashed never came back.
async fn a_cut_off_holder_gives_exactly_its_slots_back() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (cut, beside) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let semaphore = beside.semaphore("a", LIMIT).ttl(secs(2));
    let stays = semaphore.acquire().await.unwrap();
    let lost = cut.semaphore("a", LIMIT).ttl(secs(2)).acquire_many(2).await.unwrap();
    proxy.cut_all();
    let next = semaphore.acquire_many_within(2, secs(30)).await.unwrap();
    assert!(!lost.is_valid(), "two valid permits of one slot");
    assert_eq!((next.slots(), lost.slots()), (&[1, 2][..], &[1, 2][..]));
    assert!(next.token() > lost.token());
    proxy.heal();
    lost.release().await.unwrap_err();
    assert!(stays.is_valid() && next.is_valid());
    assert_eq!(semaphore.status().await.unwrap().permits.unwrap().held, LIMIT);
    stays.release().await.unwrap();
    next.release().await.unwrap();
}

async fn a_waiter_that_hears_nothing_keeps_its_slots_for_an_offer_only() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (mut side, mut dead) =
        (Side::connect(&server.url()).await, Side::connect(&proxy.url()).await);
    let holder = asks(&mut side, secs(30), LIMIT);
    let held = granted(&side, &holder).await;
    let waiter = asks(&mut dead, secs(30), 2);
    dead.queued(&waiter).await;
    let behind = asks(&mut side, secs(30), 2);
    side.queued(&behind).await;
    // The server still has its subscription.
    proxy.cut_all();
    side.release(&end(&holder, &held)).await.unwrap();
    let offered = side.status().await.permits.unwrap();
    assert_eq!(offered.holders[0].holder.attempt, waiter.attempt);
    until("the next one is served", || async {
        matches!(side.acquire(&behind).await, Answer::Permit { .. })
    })
    .await
    .unwrap();
    let permits = side.status().await.permits.unwrap();
    assert_eq!((permits.held, permits.holders[0].holder.attempt), (2, behind.attempt));
}

async fn a_dead_first_waiter_for_many_slots_blocks_no_one_for_longer_than_its_lease() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (mut side, mut dead) =
        (Side::connect(&server.url()).await, Side::connect(&proxy.url()).await);
    let holder = asks(&mut side, secs(60), 1);
    granted(&side, &holder).await;
    let heavy = asks(&mut dead, secs(60), LIMIT);
    dead.queued(&heavy).await;
    // The server still has its subscription.
    proxy.cut_all();
    let behind = asks(&mut side, secs(60), 1);
    side.queued(&behind).await;
    let asked = |seconds_ago: u64| {
        let time = server.admin(&["TIME"]).unwrap();
        let now: u64 = time.items()[0].text().parse().unwrap();
        let seen = format!("{}000000", now - seconds_ago);
        server.admin(&["ZADD", "leasehold:{a}:ps", &seen, &heavy.attempt.to_string()]).unwrap();
    };
    asked(20);
    side.queued(&behind).await;
    // Three of its polls are missing.
    asked(46);
    let (_, slots) = granted(&side, &behind).await;
    assert_eq!(slots, [1]);
    assert_eq!(side.status().await.waiters, Some(Vec::new()));
}

async fn a_waiter_that_needs_more_than_a_new_limit_is_refused_at_once() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let holder = asks(&mut side, secs(30), LIMIT);
    granted(&side, &holder).await;
    let waiter = asks(&mut side, secs(30), LIMIT);
    side.queued(&waiter).await;
    let change = LimitChange::new(name(), 1, Limit::new(2).unwrap());
    assert_eq!(side.backend.set_limit(change).await.unwrap(), LimitChanged::Changed(2));
    let refused = loop {
        match side.next_event().await {
            Event::Refused { attempt, limit, .. } => break (attempt, limit.get()),
            Event::Next { .. } | Event::Reset => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused, (waiter.attempt, 2));
    let error = side.backend.acquire(waiter).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("limit 2"), "{error}");
    // The same for a program: its acquire ends with the error.
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let held = one.semaphore("b", 2).acquire_many(2).await.unwrap();
    let waiting = tokio::spawn(async move { two.semaphore("b", 2).acquire_many(2).await });
    let semaphore = one.semaphore("b", 2);
    until("it waits", || async { semaphore.status().await.unwrap().waiters.unwrap().len() == 1 })
        .await
        .unwrap();
    semaphore.set_limit(1).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Invalid);
    assert!(held.is_valid());
}

async fn a_flushed_server_is_a_loss_of_permits_and_tokens_grow() {
    let server = plain();
    let client = connect(&server.url()).await;
    let semaphore = client.semaphore("a", LIMIT).ttl(secs(1));
    let permit = semaphore.acquire_many(2).await.unwrap();
    server.admin(&["SCRIPT", "FLUSH"]).unwrap();
    let beside = semaphore.acquire().await.unwrap();
    server.admin(&["FLUSHALL"]).unwrap();
    assert_eq!(permit.lost().await, LossReason::NotOwner);
    assert_eq!(beside.lost().await, LossReason::NotOwner);
    let next = semaphore.acquire_many(LIMIT).await.unwrap();
    assert!(next.token() > permit.token() && next.token() > beside.token());
    assert_eq!(permit.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.is_valid());
    next.release().await.unwrap();
}

async fn a_restart_without_data_is_a_loss_of_permits_and_tokens_grow() {
    let mut server = plain();
    let client = connect(&server.url()).await;
    let semaphore = client.semaphore("a", LIMIT).ttl(secs(3));
    let permit = semaphore.acquire_many(2).await.unwrap();
    server.restart_empty().unwrap();
    assert_eq!(permit.lost().await, LossReason::NotOwner);
    let next = semaphore.acquire_many_within(LIMIT, secs(30)).await.unwrap();
    assert!(next.token() > permit.token());
    next.release().await.unwrap();
}

/// Returns the keys of the server, in order, and their content.
pub(crate) fn content(server: &RedisServer) -> Vec<(String, Value)> {
    let mut keys: Vec<String> =
        server.admin(&["KEYS", "*"]).unwrap().items().iter().map(Value::text).collect();
    keys.sort();
    keys.into_iter().map(|key| (key.clone(), server.admin(&["DUMP", &key]).unwrap())).collect()
}

async fn a_name_is_a_lock_or_a_semaphore() {
    let server = plain();
    let client = connect(&server.url()).await;
    let invalid = |error: leasehold_core::Error, kind: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(kind), "{error}");
    };
    let permit = client.semaphore("s", 2).acquire().await.unwrap();
    let guard = client.lock("l").acquire().await.unwrap();
    let read = client.rw_lock("r").read().await.unwrap();
    let free = client.lock("f").acquire().await.unwrap();
    free.release().await.unwrap();
    let before = content(&server);
    for name in ["l", "r", "f"] {
        let semaphore = client.semaphore(name, 2);
        invalid(semaphore.acquire().await.unwrap_err(), "a lock");
        invalid(semaphore.try_acquire().await.unwrap_err(), "a lock");
        invalid(semaphore.limit().await.unwrap_err(), "a lock");
        invalid(semaphore.set_limit(3).await.unwrap_err(), "a lock");
    }
    invalid(client.lock("s").acquire().await.unwrap_err(), "a semaphore");
    invalid(client.lock("s").try_acquire().await.unwrap_err(), "a semaphore");
    invalid(client.rw_lock("s").read().await.unwrap_err(), "a semaphore");
    invalid(client.rw_lock("s").write().await.unwrap_err(), "a semaphore");
    client.settle().await;
    let without_tombstones = |mut all: Vec<(String, Value)>| {
        all.retain(|(key, _)| !key.ends_with(":t"));
        all
    };
    assert_eq!(without_tombstones(content(&server)), before, "a refused request changed something");
    server.admin(&["SET", "leasehold:{x}", "S1 of another program"]).unwrap();
    let error = client.semaphore("x", 2).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    permit.release().await.unwrap();
    guard.release().await.unwrap();
    read.release().await.unwrap();
}

async fn clients_of_an_earlier_version_do_not_take_a_semaphore() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let holder = asks(&mut side, secs(30), 2);
    let held = granted(&side, &holder).await;
    let heavy = asks(&mut side, secs(30), LIMIT);
    side.queued(&heavy).await;
    let before = content(&server);
    let run = |script: String, arguments: &[&str]| {
        let words = [&["EVAL", &script, "1", "leasehold:{a}"], arguments].concat();
        server.admin(&words).unwrap().text()
    };
    let base = format!("{:016}", held.0.tokens.base().get());
    let (stranger, attempt) = ("a".repeat(32), holder.attempt.to_string());
    let says = "300030000000000010002{}";
    let ended = |attempt: &str| format!("{attempt}{base}{base}300000000");
    let ask = format!("{stranger}{says}");
    let answers = [
        run(earlier::acquire(), &[&stranger, says]),
        run(earlier::acquire(), &[&attempt, says]),
        run(earlier::release(), &[&format!("H0{attempt}{base}{base}")]),
        run(earlier::release(), &["", &ended(&attempt)]),
        run(earlier::rotate(), &[&ended(&stranger), &ask]),
        run(earlier::renew(), &[&format!("{attempt}{base}"), "00030000"]),
        run(earlier::force(), &[&base]),
    ];
    assert_eq!(answers, ["XF", "XF", "L", "L", "LXF", "L", "XF"]);
    assert_eq!(content(&server), before, "an earlier version changed the semaphore");
    assert_eq!(renew(&side, &holder, &held).await.unwrap(), Renewed::Renewed);
}

async fn forget_leaves_a_semaphore_with_permits_waiters_or_a_changed_limit() {
    let server = plain();
    let url = server.url();
    let (one, two) = (connect(&url).await, connect(&url).await);
    let forget = || leasehold_redis::forget(StoreUrl::parse(&url).unwrap(), "");
    let semaphore = one.semaphore("a", 1);
    let permit = semaphore.acquire().await.unwrap();
    assert_eq!(forget().await.unwrap(), 0, "a permit is held");
    let waiting = tokio::spawn(async move { two.semaphore("a", 1).acquire().await });
    until("it waits", || async { semaphore.status().await.unwrap().waiters.unwrap().len() == 1 })
        .await
        .unwrap();
    assert_eq!(forget().await.unwrap(), 0, "a permit is held, and a client waits");
    let token = permit.token();
    permit.release().await.unwrap();
    let permit = waiting.await.unwrap().unwrap();
    assert!(permit.token() > token);
    let token = permit.token();
    permit.release().await.unwrap();
    assert_eq!(forget().await.unwrap(), 1);
    let left = content(&server);
    assert!(left.iter().all(|(key, _)| key.ends_with(":t")), "{left:?}");
    let permit = semaphore.acquire().await.unwrap();
    assert!(permit.token() > token);
    permit.release().await.unwrap();
    semaphore.set_limit(2).await.unwrap();
    assert_eq!(forget().await.unwrap(), 0, "the next client would store the previous limit");
    assert_eq!(semaphore.limit().await.unwrap(), Some(2));
}

async fn a_limit_that_was_changed_does_not_expire() {
    let server = plain();
    let client = connect(&server.url()).await;
    let semaphore = client.semaphore("a", 2);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let lives = |key: &str| server.admin(&["PTTL", key]).unwrap().integer().unwrap();
    assert!(lives("leasehold:{a}") > 2_100_000);
    semaphore.set_limit(3).await.unwrap();
    assert_eq!(lives("leasehold:{a}"), -1);
    // After a long pause only the record is left.
    let token = client.semaphore("a", 3).acquire().await.unwrap().token();
    client.settle().await;
    for (key, _) in content(&server) {
        assert!(key == "leasehold:{a}" || lives(&key) > 0, "{key} does not expire");
        if key != "leasehold:{a}" {
            server.admin(&["DEL", &key]).unwrap();
        }
    }
    assert_eq!(semaphore.limit().await.unwrap(), Some(3));
    let error = client.semaphore("a", 2).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let all = client.semaphore("a", 3).acquire_many(3).await.unwrap();
    assert!(all.token() > token);
    assert_eq!(semaphore.status().await.unwrap().state, State::Permits);
}

async fn one_call_renews_all_permits_of_a_semaphore() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let mut leases = Vec::new();
    for number in 0..20 {
        let request = side.request(secs(30)).with_demand(Demand::new(1, 20).unwrap());
        let (grant, _) = granted(&side, &request).await;
        let lease = Renewal::new(name(), request.attempt, grant.tokens.base(), secs(30));
        leases.push(lease.of_permit());
        if number % 5 == 0 {
            let lock = side.request(secs(30));
            let unknown = Renewal::new(lock.name, lock.attempt, grant.tokens.base(), secs(30));
            leases.push(if number % 2 == 0 { unknown } else { unknown.of_permit() });
        }
    }
    // The first call loads its script.
    side.backend.renew(&leases).await;
    let before = calls(&server);
    let renewed = side.backend.renew(&leases).await;
    assert_eq!(calls(&server), before + 2, "one for the permits, one for the locks");
    for (lease, renewed) in leases.iter().zip(renewed) {
        let held = side.status().await.permits.unwrap().holders;
        let known = held.iter().any(|one| one.holder.attempt == lease.attempt);
        let expected = match known && lease.mode == Mode::Permit {
            true => Renewed::Renewed,
            false => Renewed::Lost,
        };
        assert_eq!(renewed.unwrap(), expected, "{lease:?}");
    }
}

/// Returns how many commands of scripts and clients the server has run.
fn commands(server: &RedisServer) -> u64 {
    let info = server.admin(&["INFO", "commandstats"]).unwrap().text();
    let calls = info.lines().filter_map(|line| line.split("calls=").nth(1));
    calls.filter_map(|calls| calls.split(',').next()?.parse::<u64>().ok()).sum()
}

async fn an_acquire_takes_as_many_commands_beside_thousands_of_slots_as_beside_none() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let mut request = |slots| {
        side.request(secs(60)).with_tokens(1).with_demand(Demand::new(slots, 10_000).unwrap())
    };
    let (first, second) = (request(1), request(1));
    let many: Vec<_> = (0..9).map(|_| request(1_024)).collect();
    let singles: Vec<_> = (0..500).map(|_| request(1)).collect();
    // So that the second acquire gets a slot that was used before, as the first one does then.
    let warm_up = request(1);
    let held = granted(&side, &warm_up).await;
    side.release(&end(&warm_up, &held)).await.unwrap();
    let mut taken = Vec::new();
    for (measured, load) in [(first, Vec::new()), (second, [many, singles].concat())] {
        for request in &load {
            granted(&side, request).await;
        }
        let before = commands(&server);
        let held = granted(&side, &measured).await;
        assert_eq!(side.verdict(&end(&measured, &held)).await, Verdict::Released);
        taken.push(commands(&server) - before);
    }
    // A slot that was never used has two tokens more to write.
    assert!(taken[1] <= taken[0] + 4, "{taken:?} commands");
}
