//! Readers and writers of one lock when replies are lost, requests are repeated or late, and clients
//! die; and clients of a version without read-write locks.

use leasehold_conformance::until;
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, ConvertRequest, Converted, Grant, Mode, Renewed, Verdict,
};
use leasehold_core::{ErrorKind, Result, State, StoreUrl};
use leasehold_test_servers::{Pattern, Proxy, RedisServer, Value};

use crate::earlier;
use crate::side::{Side, name, release, unheard};
use crate::{Test, calls, connect, ms, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_lost_reply_to_any_request_of_a_reader_changes_nothing),
    test!(every_request_of_a_reader_repeated_does_what_it_does_once),
    test!(every_request_of_a_reader_delayed_past_a_writer_leaves_it_alone),
    test!(a_cut_off_reader_keeps_a_writer_out_for_its_own_ttl),
    test!(a_lock_whose_readers_have_left_is_an_exclusive_one_again),
    test!(clients_of_an_earlier_version_do_not_take_a_lock_that_clients_read_under),
    test!(forget_leaves_a_lock_that_clients_read_under_or_wait_for),
];

/// The requests of one reading attempt, and of the conversions between it and a writing one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Acquire,
    Renew,
    Release,
    Cancel,
    Rotate,
    Downgrade,
    Upgrade,
    Force,
}

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Acquire,
    Kind::Renew,
    Kind::Release,
    Kind::Cancel,
    Kind::Rotate,
    Kind::Downgrade,
    Kind::Upgrade,
    Kind::Force,
];

fn about_a() -> Pattern {
    Pattern::command("EVALSHA").and("{a}")
}

/// An attempt, the grant that it has if the kind of request needs one, and the attempt that follows.
pub(crate) struct Scene {
    request: AcquireRequest,
    next: AcquireRequest,
    pub(crate) grant: Option<Grant>,
}

impl Scene {
    pub(crate) async fn set(side: &mut Side, kind: Kind, ttl: std::time::Duration) -> Self {
        let reads = |request: AcquireRequest| request.with_mode(Mode::Shared).with_tokens(1);
        let (request, next) = match kind {
            Kind::Downgrade => (side.request(ttl), reads(side.request(ttl))),
            Kind::Upgrade => (reads(side.request(ttl)), side.request(ttl)),
            _ => (reads(side.request(ttl)), reads(side.request(ttl))),
        };
        let grant = match kind {
            Kind::Acquire => None,
            _ => Some(side.granted(&request).await),
        };
        Self { request, next, grant }
    }

    fn conversion(&self) -> ConvertRequest {
        let grant = self.grant.expect("a conversion names a lease");
        ConvertRequest::new(release(&self.request, grant), self.next.clone())
    }

    /// Sends the request once.
    pub(crate) async fn send(&self, side: &Side, kind: Kind) -> Result<()> {
        let Self { request, next, grant } = self;
        let end = || grant.map_or_else(|| unheard(request), |grant| release(request, grant));
        let base = grant.map(|grant| grant.tokens.base());
        match kind {
            Kind::Acquire => side.backend.acquire(request.clone()).await.map(drop),
            Kind::Renew => side.renew(request, grant.expect("a lease")).await.map(drop),
            Kind::Release => side.release(&end()).await.map(drop),
            Kind::Cancel => side.release(&unheard(request).with_suspect(true)).await.map(drop),
            Kind::Rotate => side.release(&end().with_then(next.clone())).await.map(drop),
            Kind::Downgrade | Kind::Upgrade => {
                side.backend.convert(self.conversion()).await.map(drop)
            }
            Kind::Force => {
                side.backend.force_release(&name(), base.expect("a lease")).await.map(drop)
            }
        }
    }

    /// Checks the effect of the request.
    async fn check(&self, side: &Side, kind: Kind) {
        let status = side.status().await;
        let readers: Vec<_> = status.readers.iter().map(|reader| reader.attempt).collect();
        assert_eq!(status.waiters.as_deref(), Some(&[][..]), "{kind:?}");
        match kind {
            Kind::Acquire | Kind::Renew => {
                assert_eq!((status.state, readers), (State::Shared, vec![self.request.attempt]));
            }
            Kind::Rotate | Kind::Downgrade => {
                assert_eq!((status.state, readers), (State::Shared, vec![self.next.attempt]));
            }
            Kind::Upgrade => {
                assert_eq!((status.state, readers), (State::Held, vec![]));
                assert_eq!(status.holder.unwrap().attempt, self.next.attempt);
            }
            Kind::Release | Kind::Cancel | Kind::Force => {
                assert_eq!((status.state, readers), (State::Free, vec![]), "{kind:?}");
            }
        }
    }

    async fn end(&self, side: &Side) {
        for request in [&self.request, &self.next] {
            side.release(&unheard(request)).await.unwrap();
        }
    }
}

async fn a_lost_reply_to_any_request_of_a_reader_changes_nothing() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    for kind in KINDS {
        let mut side = Side::connect(&proxy.url()).await;
        let scene = Scene::set(&mut side, kind, secs(30)).await;
        let shot = proxy.reset_at_reply_to(about_a());
        let error = scene.send(&side, kind).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{kind:?}");
        assert!(shot.happened());
        until("it is answered", || async { scene.send(&side, kind).await.is_ok() }).await.unwrap();
        scene.check(&side, kind).await;
        if let Kind::Downgrade | Kind::Upgrade = kind {
            let first = side.backend.convert(scene.conversion().with_again(true)).await.unwrap();
            let second = side.backend.convert(scene.conversion().with_again(true)).await.unwrap();
            assert!(matches!(first, Converted::Granted(_)), "{kind:?}: {first:?}");
            assert_eq!(first, second, "{kind:?}");
        }
        scene.end(&side).await;
    }
}

async fn every_request_of_a_reader_repeated_does_what_it_does_once() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    for kind in KINDS {
        let mut side = Side::connect(&proxy.url()).await;
        let scene = Scene::set(&mut side, kind, secs(30)).await;
        let runs = calls(&server);
        let shot = proxy.duplicate(about_a());
        scene.send(&side, kind).await.unwrap();
        until("it was repeated", || async { calls(&server) >= runs + 2 }).await.unwrap();
        assert!(shot.happened());
        scene.check(&side, kind).await;
        scene.end(&side).await;
    }
}

async fn every_request_of_a_reader_delayed_past_a_writer_leaves_it_alone() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let mut other = Side::connect(&server.url()).await;
    for kind in KINDS {
        let mut side = Side::connect(&proxy.url()).await;
        let scene = Scene::set(&mut side, kind, ms(200)).await;
        let held = proxy.hold(about_a());
        // Its client gives up and ends the attempts in another way; then a writer acquires.
        let sending = scene.send(&side, kind);
        let moving = async {
            until("it is on its way", || async { held.is_caught() }).await.unwrap();
            for request in [&scene.request, &scene.next] {
                other.release(&unheard(request).with_suspect(true)).await.unwrap();
            }
            let writer = other.request(secs(30));
            let lease = other.granted(&writer).await;
            let runs = calls(&server);
            held.release();
            until("it has arrived", || async { calls(&server) > runs }).await.unwrap();
            let status = other.status().await;
            assert_eq!(status.state, State::Held, "{kind:?}");
            assert_eq!(status.token, Some(lease.tokens.base()), "{kind:?}");
            assert_eq!(status.holder.unwrap().attempt, writer.attempt, "{kind:?}");
            assert_eq!(status.waiters, Some(Vec::new()), "{kind:?}");
            assert_eq!(other.verdict(&release(&writer, lease)).await, Verdict::Released);
        };
        let (_late, ()) = tokio::join!(sending, moving);
    }
}

/// Redisson PR 7098 and PR 7251: the renewal of one reader prolonged the lease of another, dead one.
async fn a_cut_off_reader_keeps_a_writer_out_for_its_own_ttl() {
    let server = plain();
    let proxy = Proxy::start(&server).unwrap();
    let (cut, beside) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let writer = connect(&server.url()).await;
    let lost = cut.rw_lock("a").ttl(secs(2)).read().await.unwrap();
    let long = beside.rw_lock("a").ttl(secs(60)).read().await.unwrap();
    assert_eq!(lost.token(), long.token());
    proxy.cut_all();
    let waiting = tokio::spawn({
        let lock = writer.rw_lock("a").ttl(secs(60));
        async move { lock.write_within(secs(30)).await }
    });
    until("the writer waits", || async {
        let status = writer.rw_lock("a").status().await.unwrap();
        status.waiters.unwrap().len() == 1
    })
    .await
    .unwrap();
    // The timer of the writer is that of the long lease; the release tells it the rest.
    long.release().await.unwrap();
    let write = waiting.await.unwrap().unwrap();
    assert!(!lost.is_valid(), "a writer beside a valid reader");
    assert!(write.token() > lost.token());
    assert!(write.is_valid());
    write.release().await.unwrap();
}

/// Returns the keys of the server, in order.
fn keys(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<String> =
        server.admin(&["KEYS", "*"]).unwrap().items().iter().map(Value::text).collect();
    keys.sort();
    keys
}

async fn a_lock_whose_readers_have_left_is_an_exclusive_one_again() {
    let server = plain();
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let read = one.rw_lock("a").read().await.unwrap();
    let beside = two.rw_lock("a").read().await.unwrap();
    let record = || server.admin(&["GETRANGE", "leasehold:{a}", "0", "1"]).unwrap().text();
    assert_eq!(record(), "L2");
    let writing = tokio::spawn({
        let lock = two.lock("a");
        async move { lock.acquire().await }
    });
    until("the writer waits", || async {
        one.lock("a").status().await.unwrap().waiters.unwrap().len() == 1
    })
    .await
    .unwrap();
    read.release().await.unwrap();
    beside.release().await.unwrap();
    let write = writing.await.unwrap().unwrap();
    assert_eq!((record().as_str(), keys(&server)), ("L1", vec!["leasehold:{a}".to_owned()]));
    let before = calls(&server);
    write.release().await.unwrap();
    one.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(calls(&server), before + 3, "one call for each operation");
}

async fn clients_of_an_earlier_version_do_not_take_a_lock_that_clients_read_under() {
    let server = plain();
    let mut side = Side::connect(&server.url()).await;
    let reader = side.request(secs(30)).with_mode(Mode::Shared);
    let grant = side.granted(&reader).await;
    let stored = || server.admin(&["GET", "leasehold:{a}"]).unwrap().text();
    let (before, base) = (stored(), format!("{:016}", grant.tokens.base().get()));
    let run = |script: String, arguments: &[&str]| {
        let words = [&["EVAL", &script, "1", "leasehold:{a}"], arguments].concat();
        server.admin(&words).unwrap().text()
    };
    let (stranger, attempt) = ("a".repeat(32), reader.attempt.to_string());
    let says = "300030000000000010002{}";
    let held = format!("H0{attempt}{base}{base}");
    let end = |attempt: &str| format!("{attempt}{base}{base}700000000");
    let ask = format!("{stranger}{says}");
    let answers = [
        run(earlier::acquire(), &[&stranger, says]),
        run(earlier::acquire(), &[&attempt, says]),
        run(earlier::release(), &[&held]),
        run(earlier::release(), &["", &end(&stranger)]),
        run(earlier::rotate(), &[&end(&stranger), &ask]),
        run(earlier::renew(), &[&format!("{attempt}{base}"), "00030000"]),
        run(earlier::force(), &[&base]),
    ];
    assert_eq!(answers, ["XV", "XV", "L", "L", "LXV", "L", "XV"]);
    assert_eq!(stored(), before, "an earlier version changed the record");
    assert_eq!(keys(&server).len(), 3, "{:?}", keys(&server));
    assert_eq!(side.renew(&reader, grant).await.unwrap(), Renewed::Renewed);
    assert_eq!(side.verdict(&release(&reader, grant)).await, Verdict::Released);
    // An exclusive record is theirs again, and they refuse no lock whose readers have left.
    let granted = run(earlier::acquire(), &[&stranger, says]);
    assert!(granted.starts_with(['A', 'G']), "{granted}");
    let next = side.request(secs(30)).with_mode(Mode::Shared).with_wait(false);
    let busy = side.acquire(&next).await;
    assert!(matches!(busy, Answer::Busy { .. }), "a reader beside a writer: {busy:?}");
}

async fn forget_leaves_a_lock_that_clients_read_under_or_wait_for() {
    let server = plain();
    let url = server.url();
    let (one, two) = (connect(&url).await.rw_lock("a"), connect(&url).await.rw_lock("a"));
    let forget = || leasehold_redis::forget(StoreUrl::parse(&url).unwrap(), "");
    let waits = || async {
        let waiting = async || one.status().await.unwrap().waiters.unwrap().len() == 1;
        until("one client waits", waiting).await.unwrap();
    };
    let read = one.read().await.unwrap();
    assert_eq!(forget().await.unwrap(), 0, "a client reads");
    let writing = tokio::spawn(async move { two.write().await });
    waits().await;
    assert_eq!(forget().await.unwrap(), 0, "a client reads, and another waits");
    let token = read.token();
    read.release().await.unwrap();
    let write = writing.await.unwrap().unwrap();
    assert!(write.token() > token);
    let late = tokio::spawn({
        let one = one.clone();
        async move { one.read().await }
    });
    waits().await;
    assert_eq!(forget().await.unwrap(), 0, "a client waits to read");
    let token = write.token();
    write.release().await.unwrap();
    let late = late.await.unwrap().unwrap();
    assert!(late.token() > token);
    let token = late.token();
    late.release().await.unwrap();
    assert_eq!(forget().await.unwrap(), 1);
    let kept = server.admin(&["KEYS", "*"]).unwrap();
    assert_eq!(kept.items().iter().filter(|key| !key.text().ends_with(":t")).count(), 0);
    assert!(one.write().await.unwrap().token() > token);
}
