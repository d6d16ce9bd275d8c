//! Processes and servers die at the worst moment.

use leasehold_test_servers::Proxy;
use sqlx::{ConnectOptions, Pool};

use super::database::{Talk, exec, stock};

use super::recorder::Recorder;
use super::{cache, change, outbox, read, rows, secs, server, start, until, until_stats, writer};

/// The bound: while database and Redis are there, readers see a change within the relay's `poll`
/// (20 ms here) after the relay began; the process that made the change is not needed.
pub(crate) async fn readers_see_what_a_writer_committed_before_it_was_killed<E: Talk>(
    pool: Pool<E>,
) {
    let redis = server();
    let cache = cache(&redis.url());
    let (_, relay) = outbox(&pool).await;
    stock(&pool, 1).await;
    assert_eq!(read(&cache, &pool).await, 1);
    let url = url(&pool);
    for value in 2..5 {
        writer::start(&url, &redis.url(), value).kill();
        assert_eq!(read(&cache, &pool).await, value - 1, "no process has invalidated it");
        let relay = relay.clone().open(&redis.url()).unwrap();
        assert_eq!(relay.once().await.unwrap(), 1);
        assert_eq!(read(&cache, &pool).await, value);
    }
    let task = start(&relay.open(&redis.url()).unwrap());
    let _killed = writer::start(&url, &redis.url(), 5);
    until("the new value is seen", || async { read(&cache, &pool).await == 5 }).await;
    until("the outbox is empty", || async { rows(&pool).await == 0 }).await;
    task.abort();
}

pub(crate) async fn a_relay_that_dies_in_mid_batch_loses_nothing<E: Talk>(pool: Pool<E>) {
    let redis = server();
    let cache = cache(&redis.url());
    let (outbox, builder) = outbox(&pool).await;
    let keys: Vec<String> = (0..40).map(|at| format!("key {at}")).collect();
    for key in &keys {
        change(&pool, &outbox, &cache, &[key]).await;
    }
    let (recorder, builder) = (Recorder::of(0), builder.batch(10).claim(secs(1)));
    let dies = start(&builder.clone().to(recorder.clone()).unwrap());
    until("a batch has arrived", || std::future::ready(recorder.arrived() == 10)).await;
    dies.abort();
    assert!(dies.await.unwrap_err().is_cancelled());
    assert_eq!(rows(&pool).await, 40, "nothing is deleted before it is known to have arrived");
    recorder.let_through(99);
    let lives = builder.to(recorder.clone()).unwrap();
    let task = start(&lives);
    until("all are delivered", || async { rows(&pool).await == 0 }).await;
    let delivered = recorder.delivered();
    assert_eq!(delivered.len(), keys.len(), "{delivered:?}");
    // On a slow machine a claim may end while its batch is under way, and the batch comes again.
    assert!(delivered.values().filter(|times| **times > 1).count() >= 10, "{delivered:?}");
    until_stats("it counts them", &lives, |stats| stats.delivered >= 40).await;
    task.abort();
}

pub(crate) async fn a_server_that_takes_over_is_told_what_the_one_before_had_taken<E: Talk>(
    pool: Pool<E>,
) {
    let (old, new) = (server(), server());
    let proxy = Proxy::start(old.address()).unwrap();
    let (first, second) = (cache(&old.url()), cache(&new.url()));
    let (outbox, relay) = outbox(&pool).await;
    stock(&pool, 1).await;
    let relay = relay.open(&proxy.url()).unwrap();
    let task = start(&relay);
    // The replica has the value, and not its invalidation, which the master has acknowledged.
    assert_eq!((read(&first, &pool).await, read(&second, &pool).await), (1, 1));
    exec(&pool, "UPDATE stock SET amount = 2").await;
    change(&pool, &outbox, &first, &["1"]).await;
    until_stats("it is acknowledged", &relay, |stats| stats.delivered == 1).await;
    assert_eq!((read(&first, &pool).await, read(&second, &pool).await), (2, 1));
    proxy.point_to(new.address());
    proxy.kill_connections();
    until("the new server has the invalidation", || async { read(&second, &pool).await == 2 })
        .await;
    task.abort();
}

/// A failover that closes no connection: the name leads to another server by now.
pub(crate) async fn a_master_that_becomes_a_replica_is_left<E: Talk>(pool: Pool<E>) {
    let (old, new) = (server(), server());
    let proxy = Proxy::start(old.address()).unwrap();
    let (first, second) = (cache(&old.url()), cache(&new.url()));
    let (outbox, relay) = outbox(&pool).await;
    stock(&pool, 1).await;
    let relay = relay.open(&proxy.url()).unwrap();
    let task = start(&relay);
    assert_eq!(read(&second, &pool).await, 1);
    exec(&pool, "UPDATE stock SET amount = 2").await;
    change(&pool, &outbox, &first, &["1"]).await;
    until_stats("it is acknowledged", &relay, |stats| stats.delivered == 1).await;
    proxy.point_to(new.address());
    let port = new.address().port().to_string();
    old.admin(&["CONFIG", "SET", "masterauth", ""]).unwrap();
    old.admin(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    change(&pool, &outbox, &first, &["other"]).await;
    until_stats("the next is delivered", &relay, |stats| stats.delivered == 2).await;
    until("and what was before it", || async { read(&second, &pool).await == 2 }).await;
    task.abort();
}

/// Where another process finds the database.
fn url<E: Talk>(pool: &Pool<E>) -> String {
    let url = pool.connect_options().to_url_lossy();
    url.as_str().split('?').next().unwrap_or_default().to_owned()
}
