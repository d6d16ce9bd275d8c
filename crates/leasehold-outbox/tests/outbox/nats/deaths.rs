//! Servers, relays and receivers die at the worst moment.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold_outbox::Result;
use leasehold_outbox::{Change, NatsTransport, Receiver, Refused, Transport};
use leasehold_test_servers::{Direction, Proxy};
use sqlx::{Pool, Sqlite};

use super::super::recorder::Recorder;
use super::super::{outbox, rows, secs, start, until, until_stats};
use super::{broker, changes, keys, left, messages, receive, until_received};

/// The server has stored the messages, and dies before the relay gets the acknowledgement.
pub(super) async fn a_server_killed_before_it_has_acknowledged_loses_nothing(pool: Pool<Sqlite>) {
    let mut nats = broker().await;
    let proxy = Proxy::opaque(nats.address()).unwrap();
    let (outbox, relay) = outbox(&pool).await;
    let relay = relay.tries(1).open(&format!("nats://{}", proxy.address())).unwrap();
    changes(&pool, &outbox, &["first".into()]).await;
    assert_eq!(relay.once().await.unwrap(), 1);
    proxy.cut(Direction::ServerToClient);
    changes(&pool, &outbox, &keys(10)).await;
    let task = start(&relay);
    until("they are stored", || async { messages(&nats) == 11 }).await;
    nats.kill();
    proxy.kill_connections();
    proxy.heal();
    assert_eq!((rows(&pool).await, relay.stats().delivered), (10, 1));
    until_stats("it fails", &relay, |stats| stats.failures >= 2).await;
    assert_eq!(rows(&pool).await, 10, "nothing is deleted before it is acknowledged");
    nats.start_again().unwrap();
    until_stats("all are delivered", &relay, |stats| stats.delivered == 11).await;
    assert_eq!((rows(&pool).await, relay.stats().parked), (0, 0));
    assert_eq!(messages(&nats), 11, "the stream knows what it has, also after a restart");
    let recorder = Recorder::new();
    let receiver = Receiver::builder(&nats.url()).unwrap().to(recorder.clone()).unwrap();
    assert_eq!(receiver.once().await.unwrap(), 11);
    assert_eq!(recorder.delivered().len(), 11);
    task.abort();
}

/// A relay that dies between the acknowledgement and the deletion.
struct Dies(NatsTransport);

impl Transport for Dies {
    fn deliver<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Refused>>> {
        Box::pin(async move {
            self.0.deliver(changes).await?;
            std::future::pending().await
        })
    }
}

pub(super) async fn a_relay_that_dies_after_publishing_puts_nothing_into_the_stream_twice(
    pool: Pool<Sqlite>,
) {
    let nats = broker().await;
    let (outbox, builder) = outbox(&pool).await;
    changes(&pool, &outbox, &keys(20)).await;
    let builder = builder.batch(15).claim(secs(1));
    let dies = Dies(NatsTransport::open(&nats.url()).unwrap());
    let dies = start(&builder.clone().to(dies).unwrap());
    until("a batch is published", || async { messages(&nats) == 15 }).await;
    dies.abort();
    assert!(dies.await.unwrap_err().is_cancelled());
    assert_eq!(rows(&pool).await, 20);
    let lives = builder.open(&nats.url()).unwrap();
    let task = start(&lives);
    until("the outbox is empty", || async { rows(&pool).await == 0 }).await;
    assert_eq!(messages(&nats), 20, "each once, though 15 were published twice");
    task.abort();
}

pub(super) async fn a_receiver_that_dies_in_mid_batch_loses_nothing(pool: Pool<Sqlite>) {
    let nats = broker().await;
    let (outbox, relay) = outbox(&pool).await;
    let keys = keys(40);
    changes(&pool, &outbox, &keys).await;
    assert_eq!(relay.open(&nats.url()).unwrap().once().await.unwrap(), 40);
    let recorder = Recorder::of(0);
    let receiver = || {
        let builder = Receiver::builder(&nats.url()).unwrap().batch(10).claim(secs(1));
        Arc::new(builder.to(recorder.clone()).unwrap())
    };
    let dies = receive(&receiver());
    until("a batch has arrived", || std::future::ready(recorder.arrived() == 10)).await;
    dies.abort();
    assert!(dies.await.unwrap_err().is_cancelled());
    assert_eq!(left(&nats, "leasehold-cache"), 40, "nothing is acknowledged before it is applied");
    recorder.let_through(99);
    let lives = receiver();
    let task = receive(&lives);
    until("all are applied", || async { left(&nats, "leasehold-cache") == 0 }).await;
    let delivered = recorder.delivered();
    assert_eq!(delivered.len(), keys.len(), "{delivered:?}");
    // On a slow machine a claim may end while its batch is under way, and the batch comes again.
    assert!(delivered.values().filter(|times| **times > 1).count() >= 10, "{delivered:?}");
    until_received("it counts them", &lives, |stats| stats.applied >= 40).await;
    task.abort();
}

/// With both sides under way, over and over.
pub(super) async fn a_server_that_was_killed_is_found_again(pool: Pool<Sqlite>) {
    let mut nats = broker().await;
    let (outbox, relay) = outbox(&pool).await;
    let recorder = Recorder::new();
    let relay = relay.batch(5).open(&nats.url()).unwrap();
    let builder = Receiver::builder(&nats.url()).unwrap().batch(5).claim(secs(1));
    let receiver = Arc::new(builder.to(recorder.clone()).unwrap());
    let tasks = [start(&relay), receive(&receiver)];
    let keys = keys(90);
    for (round, page) in keys.chunks(30).enumerate() {
        changes(&pool, &outbox, page).await;
        let some = 30 * round as u64 + 1;
        until_stats("some are delivered", &relay, |stats| stats.delivered >= some).await;
        nats.kill();
        let failed = (relay.stats().failures, receiver.stats().failures);
        changes(&pool, &outbox, &[format!("while it was down {round}")]).await;
        until_stats("the relay fails", &relay, |stats| stats.failures > failed.0).await;
        until_received("so does the receiver", &receiver, |stats| stats.failures > failed.1).await;
        nats.start_again().unwrap();
    }
    until("the outbox is empty", || async { rows(&pool).await == 0 }).await;
    until("all have arrived", || std::future::ready(recorder.delivered().len() == 93)).await;
    until("nothing is left", || async { left(&nats, "leasehold-cache") == 0 }).await;
    until_received("all is well", &receiver, |stats| stats.problem.is_none()).await;
    assert_eq!((relay.stats().parked, receiver.stats().given_up), (0, 0));
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}
