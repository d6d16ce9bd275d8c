//! From the outbox through the stream to Redis, and how both sides end.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_outbox::{NatsTransport, Receiver};
use leasehold_test_servers::{Certificates, Direction, NatsServer, NatsSettings, Proxy};
use sqlx::{Pool, Sqlite};
use tokio::sync::oneshot;

use super::super::database::{exec, stock};
use super::super::recorder::Recorder;
use super::super::{cache, change, outbox, read, rows, secs, server, start, until, until_stats};
use super::{broker, changes, info, keys, left, messages, receive, until_received};

pub(super) async fn each_change_goes_through_once(pool: Pool<Sqlite>) {
    let (redis, nats) = (server(), broker().await);
    let cache = cache(&redis.url());
    let (outbox, relay) = outbox(&pool).await;
    stock(&pool, 1).await;
    assert_eq!(read(&cache, &pool).await, 1);
    let relay = relay.batch(7).open(&nats.url()).unwrap();
    let task = start(&relay);
    let receiver = Receiver::builder(&nats.url()).unwrap();
    let receiver = Arc::new(receiver.open(&redis.url()).unwrap());
    let other = format!("{}?durable=other", nats.url());
    let recorder = Recorder::new();
    let other = Arc::new(Receiver::builder(&other).unwrap().to(recorder.clone()).unwrap());
    let tasks = [receive(&receiver), receive(&other), task];
    exec(&pool, "UPDATE stock SET amount = 2").await;
    change(&pool, &outbox, &cache, &["1"]).await;
    until("the reader sees it", || async { read(&cache, &pool).await == 2 }).await;
    let keys = keys(60);
    changes(&pool, &outbox, &keys).await;
    until_stats("all are delivered", &relay, |stats| stats.delivered == 61).await;
    until_received("all are applied", &receiver, |stats| stats.applied == 61).await;
    until_received("by the other too", &other, |stats| stats.applied == 61).await;
    assert_eq!((rows(&pool).await, messages(&nats)), (0, 61));
    // What docs/cache-outbox.md says a change takes.
    let each = info(&nats)["state"]["bytes"].as_u64().unwrap() / 61;
    assert!((150..=230).contains(&each), "{each}");
    let mut once: HashMap<_, _> = keys.into_iter().map(|key| (key, 1)).collect();
    once.insert("1".into(), 1);
    assert_eq!(recorder.delivered(), once);
    until("nothing is left", || async { left(&nats, "leasehold-cache") == 0 }).await;
    for stats in [receiver.stats(), other.stats()] {
        assert_eq!((stats.refused, stats.given_up, stats.failures), (0, 0, 0), "{stats:?}");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// What the stream has already is dropped there; a row that has joined makes it another message.
pub(super) async fn a_row_more_is_a_message_more(pool: Pool<Sqlite>) {
    let nats = broker().await;
    let (outbox, relay) = outbox(&pool).await;
    let relay = relay.open(&nats.url()).unwrap();
    let twice = "INSERT INTO leasehold_cache_outbox SELECT * FROM kept";
    changes(&pool, &outbox, &["a".into(), "b".into()]).await;
    exec(&pool, "CREATE TABLE kept AS SELECT * FROM leasehold_cache_outbox").await;
    assert_eq!(relay.once().await.unwrap(), 2);
    exec(&pool, twice).await;
    assert_eq!((relay.once().await.unwrap(), messages(&nats)), (2, 2));
    // Another change of a: the reader may have filled in between.
    exec(&pool, twice).await;
    changes(&pool, &outbox, &["a".into()]).await;
    assert_eq!((relay.once().await.unwrap(), messages(&nats)), (3, 3));
    // The same number and key, put in at another time, as after a restore.
    exec(&pool, twice).await;
    exec(&pool, "UPDATE leasehold_cache_outbox SET queued_us = queued_us + 1").await;
    assert_eq!((relay.once().await.unwrap(), messages(&nats)), (2, 5));
    assert_eq!(rows(&pool).await, 0);
}

pub(super) async fn receivers_of_one_durable_share_and_those_of_another_see_all(
    pool: Pool<Sqlite>,
) {
    let nats = broker().await;
    let (outbox, relay) = outbox(&pool).await;
    let recorders = [0; 3].map(|_| Recorder::new());
    let receivers = [0, 1, 2].map(|at| {
        let durable = ["one", "one", "other"][at];
        let builder = Receiver::builder(&format!("{}?durable={durable}", nats.url())).unwrap();
        Arc::new(builder.batch(3).to(recorders[at].clone()).unwrap())
    });
    let tasks = receivers.each_ref().map(receive);
    changes(&pool, &outbox, &keys(90)).await;
    assert_eq!(relay.open(&nats.url()).unwrap().once().await.unwrap(), 90);
    until("all are applied", || {
        let [one, too, other] = receivers.each_ref().map(|receiver| receiver.stats().applied);
        std::future::ready(one + too == 90 && other == 90)
    })
    .await;
    let mut shared = recorders[0].delivered();
    shared.extend(recorders[1].delivered());
    assert_eq!(shared.len(), 90, "each by one of them");
    assert_eq!(recorders[2].delivered().len(), 90);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The server does not answer: the relay waits for no acknowledgement that does not come.
pub(super) async fn a_relay_that_is_stopped_ends_in_time_and_keeps_its_rows(pool: Pool<Sqlite>) {
    let nats = broker().await;
    let proxy = Proxy::opaque(nats.address()).unwrap();
    let (outbox, relay) = outbox(&pool).await;
    let relay = relay.open(&format!("nats://{}", proxy.address())).unwrap();
    changes(&pool, &outbox, &["a".into()]).await;
    assert_eq!(relay.once().await.unwrap(), 1);
    proxy.cut(Direction::ServerToClient);
    changes(&pool, &outbox, &["b".into(), "c".into()]).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let own = relay.clone();
    let task = tokio::spawn(async move { own.run(async { drop(stopped.await) }).await });
    until("it has published", || async { messages(&nats) == 3 }).await;
    stop.send(()).unwrap();
    tokio::time::timeout(secs(30), task).await.expect("it ends").unwrap();
    assert_eq!((relay.stats().delivered, rows(&pool).await), (1, 2));
    proxy.heal();
    assert_eq!(relay.once().await.unwrap(), 2);
    assert_eq!((rows(&pool).await, messages(&nats)), (0, 3));
}

pub(super) async fn a_receiver_that_is_stopped_ends_its_batch_or_gives_it_back(pool: Pool<Sqlite>) {
    let nats = broker().await;
    let (outbox, relay) = outbox(&pool).await;
    changes(&pool, &outbox, &keys(5)).await;
    assert_eq!(relay.open(&nats.url()).unwrap().once().await.unwrap(), 5);
    let recorder = Recorder::of(0);
    let receiver = || {
        let builder = Receiver::builder(&nats.url()).unwrap().batch(3).claim(secs(600));
        Arc::new(builder.to(recorder.clone()).unwrap())
    };
    let run = |receiver: &Arc<Receiver>| {
        let ((stop, stopped), own) = (oneshot::channel::<()>(), Arc::clone(receiver));
        let task = tokio::spawn(async move { own.run(async { drop(stopped.await) }).await });
        (stop, task)
    };
    let first = receiver();
    let (stop, task) = run(&first);
    until("it applies", || std::future::ready(recorder.arrived() == 3)).await;
    stop.send(()).unwrap();
    tokio::task::yield_now().await;
    recorder.let_through(1);
    task.await.unwrap();
    assert_eq!(first.stats().applied, 3);
    until("they are acknowledged", || async { left(&nats, "leasehold-cache") == 2 }).await;
    // What it is not told of in time, others get at once, long before the claim is over.
    let second = receiver();
    let (stop, task) = run(&second);
    until("it applies the rest", || std::future::ready(recorder.arrived() == 5)).await;
    stop.send(()).unwrap();
    task.await.unwrap();
    assert_eq!((second.stats().applied, left(&nats, "leasehold-cache")), (0, 2));
    recorder.let_through(99);
    let third = receiver();
    until("others have it", || async {
        third.once().await.unwrap();
        left(&nats, "leasehold-cache") == 0
    })
    .await;
    assert_eq!(third.stats().applied, 2);
}

pub(super) async fn over_tls(pool: Pool<Sqlite>) {
    let certificates = Certificates::make().unwrap();
    let nats = NatsServer::start(NatsSettings::new().tls(&certificates)).unwrap();
    let (outbox, relay) = outbox(&pool).await;
    changes(&pool, &outbox, &keys(3)).await;
    let url = format!(
        "{}?tls-ca={}&tls-cert={}&tls-key={}",
        nats.url(),
        certificates.authority().display(),
        certificates.client().display(),
        certificates.client_key().display(),
    );
    // Whether the system trusts it is not said here: it does not.
    let error = NatsTransport::open(&nats.url()).unwrap().create().await.unwrap_err();
    assert!(error.to_string().contains(&nats.url()), "{error}");
    NatsTransport::open(&url).unwrap().create().await.unwrap();
    assert_eq!(relay.open(&url).unwrap().once().await.unwrap(), 3);
    let recorder = Recorder::new();
    let receiver = Receiver::builder(&url).unwrap().to(recorder.clone()).unwrap();
    assert_eq!(receiver.once().await.unwrap(), 3);
    assert_eq!(recorder.delivered().len(), 3);
}
