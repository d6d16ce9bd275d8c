//! The usual recipes, driven by hand into the order that leaves an old value behind for good; and
//! ours in the same order.

use std::collections::HashMap;

use super::{Database, Test, exists, ms, open, quiet, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(update_after_commit_with_two_writers),
    test!(delete_before_commit),
    test!(delete_after_commit),
    test!(delayed_double_delete),
    test!(a_lease_compared_by_order),
    test!(a_token_for_each_client),
    test!(the_process_before_redis),
    test!(an_invalidation_queued_after_it_failed),
    test!(cache_first),
];

const K: &str = "k";

/// A cache and a database as the recipes see them.
#[derive(Debug, Default)]
struct Plain {
    cache: HashMap<&'static str, u64>,
    database: HashMap<&'static str, u64>,
}

impl Plain {
    /// The database says 1, the cache nothing.
    fn new() -> Self {
        Self { database: HashMap::from([(K, 1)]), ..Self::default() }
    }

    fn read(&self) -> u64 {
        self.database[K]
    }

    fn commit(&mut self, value: u64) {
        self.database.insert(K, value);
    }

    fn fill(&mut self, value: u64) {
        self.cache.insert(K, value);
    }

    fn delete(&mut self) {
        self.cache.remove(K);
    }

    /// Nothing is under way any more, and the cache says something else than the database.
    fn lies(&self) -> bool {
        self.cache.get(K).is_some_and(|value| *value != self.read())
    }
}

async fn update_after_commit_with_two_writers() {
    let mut plain = Plain::new();
    plain.commit(2);
    plain.commit(3);
    plain.fill(3);
    plain.fill(2);
    assert!(plain.lies());

    let (server, database) = (server(), Database::default());
    let (one, two) = (open(&server), open(&server));
    let first = one.begin_write(&[K]).await.unwrap();
    let second = two.begin_write(&[K]).await.unwrap();
    database.commit(K, 2);
    database.commit(K, 3);
    assert_eq!(second.committed_with(&[Some(3)]).await.unwrap().filled, 0);
    assert_eq!(first.committed_with(&[Some(2)]).await.unwrap().filled, 0);
    assert_eq!(database.get(&one, K).await, Some(3));

    // The other way round, the later commit told first.
    let first = one.begin_write(&[K]).await.unwrap();
    let second = two.begin_write(&[K]).await.unwrap();
    database.commit(K, 5);
    database.commit(K, 4);
    assert_eq!(first.committed_with(&[Some(4)]).await.unwrap().filled, 0);
    assert_eq!(second.committed_with(&[Some(5)]).await.unwrap().filled, 0);
    assert_eq!(database.get(&two, K).await, Some(4));

    // Alone, the value is taken, and no client loads.
    let (alone, reads) = (one.begin_write(&[K]).await.unwrap(), database.reads());
    database.commit(K, 6);
    assert_eq!(alone.committed_with(&[Some(6)]).await.unwrap().filled, 1);
    assert_eq!((database.get(&two, K).await, database.reads()), (Some(6), reads));
}

async fn delete_before_commit() {
    let mut plain = Plain::new();
    plain.delete();
    let read = plain.read();
    plain.commit(2);
    plain.fill(read);
    assert!(plain.lies());

    let (server, database) = (server(), Database::default());
    let (reader, writer) = (open(&server), open(&server));
    database.commit(K, 1);
    let write = writer.begin_write(&[K]).await.unwrap();
    let (go, slow) = database.slow(&reader, K).await;
    database.commit(K, 2);
    write.committed().await.unwrap();
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(1), "it was asked before the commit");
    assert_eq!(database.get(&reader, K).await, Some(2));
    assert_eq!(database.get(&writer, K).await, Some(2));
}

async fn delete_after_commit() {
    let mut plain = Plain::new();
    let read = plain.read();
    plain.commit(2);
    plain.delete();
    plain.fill(read);
    assert!(plain.lies());

    let (server, database) = (server(), Database::default());
    let (reader, writer) = (open(&server), open(&server));
    database.commit(K, 1);
    let (go, slow) = database.slow(&reader, K).await;
    database.commit(K, 2);
    writer.invalidate(&[K]).await.unwrap();
    go.send(()).unwrap();
    assert_eq!(slow.await.unwrap(), Some(1));
    assert_eq!(reader.stats().refused_fills, 1);
    assert_eq!(database.get(&writer, K).await, Some(2));
    assert_eq!(database.get(&reader, K).await, Some(2));
}

async fn delayed_double_delete() {
    let mut plain = Plain::new();
    plain.delete();
    let read = plain.read();
    plain.commit(2);
    plain.delete();
    // Later than the delay.
    plain.fill(read);
    assert!(plain.lies());

    let (server, database) = (server(), Database::default());
    let (reader, writer) = (open(&server), open(&server));
    database.commit(K, 1);
    writer.invalidate(&[K]).await.unwrap();
    let (go, slow) = database.slow(&reader, K).await;
    database.commit(K, 2);
    writer.invalidate(&[K]).await.unwrap();
    go.send(()).unwrap();
    slow.await.unwrap();
    assert_eq!(database.get(&reader, K).await, Some(2));
}

async fn a_lease_compared_by_order() {
    // Tokens count up; who has no smaller one than the last given may fill.
    let (mut plain, mut last) = (Plain::new(), 0);
    last += 1;
    let (token, read) = (last, plain.read());
    plain.commit(2);
    plain.delete();
    if token >= last {
        plain.fill(read);
    }
    assert!(plain.lies());

    // Ours: a lease that an invalidation took away, and another that was given since.
    let (server, database) = (server(), Database::default());
    let (one, two, writer) = (open(&server), open(&server), open(&server));
    database.commit(K, 1);
    let (go_one, slow_one) = database.slow(&one, K).await;
    database.commit(K, 2);
    writer.invalidate(&[K]).await.unwrap();
    let (go_two, slow_two) = database.slow(&two, K).await;
    go_one.send(()).unwrap();
    assert_eq!(slow_one.await.unwrap(), Some(1));
    go_two.send(()).unwrap();
    assert_eq!(slow_two.await.unwrap(), Some(2));
    assert_eq!((one.stats().refused_fills, two.stats().refused_fills), (1, 0));
    assert_eq!(database.get(&writer, K).await, Some(2));
}

async fn a_token_for_each_client() {
    // One client, two loads, one token.
    let (mut plain, token) = (Plain::new(), 7);
    let mut lease = Some(token);
    let old = plain.read();
    plain.commit(2);
    plain.delete();
    lease.take();
    lease.get_or_insert(token);
    if lease == Some(token) {
        plain.fill(old);
    }
    assert!(plain.lies());

    let (server, database) = (server(), Database::default());
    let (client, writer) = (open(&server), open(&server));
    database.commit(K, 1);
    let (go_old, slow_old) = database.slow(&client, K).await;
    database.commit(K, 2);
    writer.invalidate(&[K]).await.unwrap();
    // The client has to receive it, or the second would share the first load.
    super::until("the invalidation is heard", || client.stats().invalidations == 1).await;
    let (go_new, slow_new) = database.slow(&client, K).await;
    go_old.send(()).unwrap();
    assert_eq!(slow_old.await.unwrap(), Some(1));
    go_new.send(()).unwrap();
    assert_eq!(slow_new.await.unwrap(), Some(2));
    assert_eq!(client.stats().refused_fills, 1);
    assert_eq!(database.get(&writer, K).await, Some(2));
}

async fn the_process_before_redis() {
    let (mut redis, mut process) = (Plain::new(), HashMap::from([(K, 1)]));
    redis.fill(1);
    redis.commit(2);
    process.remove(K);
    // A task in the process asks now.
    process.insert(K, redis.cache[K]);
    redis.delete();
    assert_ne!(process[K], redis.read());

    let (server, database) = (server(), Database::default());
    let caches: Vec<_> =
        (0..2).map(|_| quiet().local_size(100).open(&server.url()).unwrap()).collect();
    database.commit(K, 1);
    for round in 2..100 {
        for cache in &caches {
            database.get(cache, K).await;
        }
        let write = caches[0].begin_write(&[K]).await.unwrap();
        database.commit(K, round);
        let asks = database.get(&caches[1], K);
        let (committed, _) = tokio::join!(write.committed(), asks);
        committed.unwrap();
        assert_eq!(database.get(&caches[0], K).await, Some(round), "read your own writes");
        let heard = round - 1;
        super::until("all is heard", || caches[1].stats().invalidations >= 2 * heard).await;
        assert_eq!(database.get(&caches[1], K).await, Some(round));
    }
}

async fn an_invalidation_queued_after_it_failed() {
    let mut plain = Plain::new();
    plain.fill(1);
    plain.commit(2);
    // The process ends here; the invalidation was to be tried, and queued if it failed.
    assert!(plain.lies());

    let (server, database) = (server(), Database::default());
    let (reader, writer) =
        (open(&server), quiet().write_hold(ms(300)).open(&server.url()).unwrap());
    database.commit(K, 1);
    assert_eq!(database.get(&reader, K).await, Some(1));
    let write = writer.begin_write(&[K]).await.unwrap();
    database.commit(K, 2);
    drop(write);
    assert_eq!(database.get(&reader, K).await, Some(2), "past the cache");
    super::until("the hold ends", || !exists(&server, "{leasehold-cache:test:k}:h")).await;
    assert_eq!(database.get(&reader, K).await, Some(2), "and filled again");
    let reads = database.reads();
    assert_eq!((database.get(&reader, K).await, database.reads()), (Some(2), reads));
}

async fn cache_first() {
    let mut plain = Plain::new();
    plain.fill(2);
    // The transaction fails.
    assert!(plain.lies());

    let (server, database) = (server(), Database::default());
    let cache = open(&server);
    database.commit(K, 1);
    let write = cache.begin_write(&[K]).await.unwrap();
    write.rolled_back().await.unwrap();
    assert_eq!(database.get(&cache, K).await, Some(1));
    let reads = database.reads();
    assert_eq!((database.get(&cache, K).await, database.reads()), (Some(1), reads), "filled");
}
