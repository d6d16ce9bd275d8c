//! Every kind of request repeated, and delayed past a successor; and a rotation whose reply is
//! lost.

use leasehold_conformance::until;
use leasehold_core::backend::{AcquireRequest, Answer, Backend, Grant, ReleaseRequest, Verdict};
use leasehold_core::{ErrorKind, State, Status};
use leasehold_test_servers::{Pattern, Proxy, RedisServer};

use crate::side::{Side, name, release, unheard};
use crate::{Test, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_swallowed_reply_to_a_rotation_gives_the_same_lease),
    test!(a_swallowed_reply_to_a_rotation_that_waits_keeps_its_place),
    test!(a_rotation_given_up_leaves_nothing_behind),
    test!(every_request_repeated_does_what_it_does_once),
    test!(every_request_delayed_past_a_successor_leaves_it_alone),
];

/// Scripts are called by their hash, so the lock's key identifies a request.
fn about_a() -> Pattern {
    Pattern::command("EVALSHA").and("{a}")
}

/// The requests of one attempt; `next` is the acquire of a rotation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Acquire,
    Renew,
    Release,
    Cancel,
    Rotate,
    Force,
}

const KINDS: [Kind; 6] =
    [Kind::Acquire, Kind::Renew, Kind::Release, Kind::Cancel, Kind::Rotate, Kind::Force];

/// Sends a request, and ignores the answer.
async fn send(
    side: &Side,
    kind: Kind,
    request: &AcquireRequest,
    next: &AcquireRequest,
    grant: Option<Grant>,
) {
    let release = |request| grant.map_or_else(|| unheard(request), |grant| release(request, grant));
    match (kind, grant) {
        (Kind::Acquire, _) => drop(side.backend.acquire(request.clone()).await),
        (Kind::Renew, Some(grant)) => drop(side.renew(request, grant).await),
        (Kind::Release, _) => drop(side.release(&release(request)).await),
        (Kind::Cancel, _) => drop(side.release(&unheard(request).with_suspect(true)).await),
        (Kind::Rotate, _) => {
            drop(side.release(&release(request).with_then(next.clone())).await);
        }
        (Kind::Force, Some(grant)) => {
            drop(side.backend.force_release(&name(), grant.tokens.base()).await);
        }
        (Kind::Renew | Kind::Force, None) => unreachable!("they name a lease"),
    }
}

/// Returns how many scripts the server has run.
fn scripts_run(server: &RedisServer) -> u64 {
    let info = server.admin(&["INFO", "commandstats"]).unwrap().text();
    let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.and_then(|calls| calls.split(',').next()?.parse().ok()).unwrap_or(0)
}

async fn a_swallowed_reply_to_a_rotation_gives_the_same_lease() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let mut side = Side::connect(&proxy.url()).await;
    let (request, next) = (side.request(secs(30)), side.request(secs(30)));
    let grant = side.granted(&request).await;
    let rotate = release(&request, grant).with_then(next.clone());
    let shot = proxy.reset_at_reply_to(about_a());
    assert_eq!(side.release(&rotate).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(shot.happened());
    let ended = again(&side, &rotate.clone().with_suspect(true)).await;
    assert_eq!(ended.verdict, Verdict::Released);
    let Some(Answer::Granted(second)) = ended.then else { panic!("{ended:?}") };
    assert!(second.tokens.base() > grant.tokens.base());
    assert_eq!(again(&side, &rotate).await.then, Some(Answer::Granted(second)), "the same");
    let status = side.status().await;
    assert_eq!(status.holder.unwrap().attempt, next.attempt);
    assert_eq!(side.verdict(&release(&next, second)).await, Verdict::Released);
}

/// Repeats an end until it is answered.
async fn again(side: &Side, release: &ReleaseRequest) -> leasehold_core::backend::Ended {
    for _ in 0..1000 {
        match side.release(release).await {
            Ok(ended) => return ended,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        tokio::time::sleep(ms(10)).await;
    }
    panic!("no answer");
}

async fn a_swallowed_reply_to_a_rotation_that_waits_keeps_its_place() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (mut side, mut other) =
        (Side::connect(&proxy.url()).await, Side::connect(&server.url()).await);
    let (request, next) = (side.request(secs(30)), side.request(secs(30)));
    let grant = side.granted(&request).await;
    let waits = other.request(secs(30));
    other.queued(&waits).await;
    let rotate = release(&request, grant).with_then(next.clone());
    proxy.reset_at_reply_to(about_a());
    side.release(&rotate).await.unwrap_err();
    let (attempt, pushed) = other.pushed().await;
    assert_eq!(attempt, waits.attempt);
    other.renew(&waits, pushed).await.unwrap();
    let last = other.request(secs(30));
    other.queued(&last).await;
    let ended = again(&side, &rotate.with_suspect(true)).await;
    assert_eq!(ended.verdict, Verdict::Released);
    let place = ended
        .then
        .as_ref()
        .is_some_and(|answer| matches!(answer, Answer::Queued { place: Some(0), .. }));
    assert!(place, "{ended:?}");
    other.verdict(&release(&waits, pushed)).await;
    assert_eq!(side.pushed().await.0, next.attempt);
}

async fn a_rotation_given_up_leaves_nothing_behind() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let mut side = Side::connect(&proxy.url()).await;
    let (request, next) = (side.request(secs(30)), side.request(secs(30)));
    let grant = side.granted(&request).await;
    proxy.reset_at_reply_to(about_a());
    side.release(&release(&request, grant).with_then(next.clone())).await.unwrap_err();
    again(&side, &release(&request, grant).with_suspect(true)).await;
    again(&side, &unheard(&next).with_suspect(true)).await;
    assert_eq!(side.status().await.state, State::Free);
    assert_eq!(side.acquire(&next).await, Answer::Ended);
}

async fn every_request_repeated_does_what_it_does_once() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    for kind in KINDS {
        let mut side = Side::connect(&proxy.url()).await;
        let (request, next) = (side.request(secs(30)), side.request(secs(30)));
        let grant = match kind {
            Kind::Acquire => None,
            _ => Some(side.granted(&request).await),
        };
        let before = side.status().await;
        let runs = scripts_run(&server);
        let shot = proxy.duplicate(about_a());
        send(&side, kind, &request, &next, grant).await;
        until("it was repeated", || async { scripts_run(&server) >= runs + 2 }).await.unwrap();
        assert!(shot.happened());
        let status = side.status().await;
        let holder = |status: &Status| status.holder.as_ref().map(|holder| holder.attempt);
        assert_eq!(status.waiters.as_deref(), Some(&[][..]), "{kind:?}");
        match kind {
            Kind::Acquire => {
                assert_eq!((status.state, holder(&status)), (State::Held, Some(request.attempt)));
            }
            Kind::Renew => {
                assert_eq!((status.state, holder(&status)), (State::Held, holder(&before)));
                assert_eq!(status.token, before.token);
            }
            Kind::Rotate => {
                assert_eq!((status.state, holder(&status)), (State::Held, Some(next.attempt)));
            }
            Kind::Release | Kind::Cancel | Kind::Force => {
                assert_eq!(status.state, State::Free, "{kind:?}");
            }
        }
        for request in [&request, &next] {
            side.release(&unheard(request)).await.unwrap();
        }
    }
}

async fn every_request_delayed_past_a_successor_leaves_it_alone() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let mut other = Side::connect(&server.url()).await;
    for kind in KINDS {
        let mut side = Side::connect(&proxy.url()).await;
        let (request, next) = (side.request(ms(200)), side.request(ms(200)));
        let grant = match kind {
            Kind::Acquire => None,
            _ => Some(side.granted(&request).await),
        };
        let held = proxy.hold(about_a());
        let sent = tokio::spawn({
            let (request, next) = (request.clone(), next.clone());
            async move { send(&side, kind, &request, &next, grant).await }
        });
        until("it is on its way", || async { held.is_caught() }).await.unwrap();
        // Its client times out and ends it in another way; then the successor acquires.
        for request in [&request, &next] {
            other.release(&unheard(request).with_suspect(true)).await.unwrap();
        }
        let successor = other.request(secs(30));
        let lease = other.granted(&successor).await;
        let runs = scripts_run(&server);
        held.release();
        until("it has arrived", || async { scripts_run(&server) > runs }).await.unwrap();
        let status = other.status().await;
        assert_eq!(
            (status.state, status.token),
            (State::Held, Some(lease.tokens.base())),
            "{kind:?}"
        );
        assert_eq!(status.holder.unwrap().attempt, successor.attempt, "{kind:?}");
        assert_eq!(status.waiters, Some(Vec::new()), "{kind:?}");
        assert_eq!(other.verdict(&release(&successor, lease)).await, Verdict::Released);
        sent.await.unwrap();
    }
}
