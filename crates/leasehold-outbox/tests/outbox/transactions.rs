//! Writes as closures in transactions of their own.

use leasehold_cache::{BoxError, Cache, Error, ErrorKind};
use leasehold_test_servers::{RedisServer, Value};
use sqlx::{Pool, Transaction};
use tokio::sync::oneshot;

use super::database::{self, Talk};
use super::{cache, ms, read, secs, server, until};

/// A table of one row with the amount 1, and caches of a writer and of a reader, who has read it.
async fn set_up<E: Talk>(pool: &Pool<E>) -> (RedisServer, Cache<str, i64>, Cache<str, i64>) {
    let redis = server();
    database::stock(pool, 1).await;
    let patient = Cache::builder("test").jitter(0.0).early(0.0).local_size(0).ttl(secs(600));
    let patient = patient.redis_limit(secs(10)).write_hold(secs(3600));
    let (writer, reader) = (patient.open(&redis.url()).unwrap(), cache(&redis.url()));
    assert_eq!(read(&reader, pool).await, 1);
    (redis, writer, reader)
}

async fn change<E: Talk>(tx: &mut Transaction<'_, E>, amount: i64) -> Result<(), BoxError> {
    let sql = format!("UPDATE stock SET amount = {amount} WHERE item = 1");
    Ok(E::exec(&mut **tx, &sql).await?)
}

fn is_held(redis: &RedisServer) -> bool {
    redis.admin(&["EXISTS", "{leasehold-cache:test:1}:h"]).unwrap() != Value::Integer(0)
}

/// Nothing is held, and what is in the database is filled by the first reader.
async fn is_released<E: Talk>(
    redis: &RedisServer,
    reader: &Cache<str, i64>,
    pool: &Pool<E>,
    amount: i64,
) {
    until("the hold ends", || std::future::ready(!is_held(redis))).await;
    assert_eq!(read(reader, pool).await, amount);
    let loads = reader.stats().loads;
    assert_eq!(read(reader, pool).await, amount);
    assert_eq!(reader.stats().loads, loads, "filled");
}

pub(crate) async fn a_closure_that_succeeds_is_committed_and_seen<E: Talk>(pool: Pool<E>) {
    let (redis, writer, reader) = set_up(&pool).await;
    let done = writer.write_in_tx(&pool, &["1"], async |tx| {
        change(tx, 2).await?;
        assert!(is_held(&redis));
        Ok::<_, BoxError>("done")
    });
    assert_eq!(done.await.unwrap(), "done");
    assert!(!is_held(&redis));
    assert_eq!(read(&reader, &pool).await, 2);
    is_released(&redis, &reader, &pool, 2).await;
}

pub(crate) async fn a_closure_that_fails_or_panics_is_rolled_back<E: Talk>(pool: Pool<E>) {
    let (redis, writer, reader) = set_up(&pool).await;
    let failed = writer.write_in_tx(&pool, &["1"], async |tx| {
        change(tx, 2).await?;
        Err::<(), BoxError>("no".into())
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "no");
    assert!(!is_held(&redis));
    is_released(&redis, &reader, &pool, 1).await;

    let (panics, there) = (writer.clone(), pool.clone());
    let panicked = tokio::spawn(async move {
        let work = async |tx: &mut Transaction<'_, E>| -> Result<(), BoxError> {
            change(tx, 2).await?;
            panic!("a bug")
        };
        panics.write_in_tx(&there, &["1"], work).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    is_released(&redis, &reader, &pool, 1).await;
}

pub(crate) async fn a_closure_that_is_cancelled_is_rolled_back<E: Talk>(pool: Pool<E>) {
    let (redis, writer, reader) = set_up(&pool).await;
    let (began, begins) = oneshot::channel();
    let (waits, there) = (writer.clone(), pool.clone());
    let waiting = tokio::spawn(async move {
        let work = async |tx: &mut Transaction<'_, E>| {
            change(tx, 2).await?;
            began.send(()).unwrap();
            std::future::pending::<Result<(), BoxError>>().await
        };
        waits.write_in_tx(&there, &["1"], work).await
    });
    begins.await.unwrap();
    waiting.abort();
    is_released(&redis, &reader, &pool, 1).await;
    // The row is not locked any more.
    let done = writer.write_in_tx(&pool, &["1"], async |tx| change(tx, 3).await);
    done.await.unwrap();
    assert_eq!(read(&reader, &pool).await, 3);
}

pub(crate) async fn a_transaction_that_is_longer_than_its_hold_is_rolled_back<E: Talk>(
    pool: Pool<E>,
) {
    let (redis, _, reader) = set_up(&pool).await;
    let short = Cache::<str, i64>::builder("test").write_hold(ms(300)).redis_limit(secs(10));
    let short = short.open(&redis.url()).unwrap();
    let late = short.write_in_tx(&pool, &["1"], async |tx| {
        change(tx, 2).await.unwrap();
        tokio::time::sleep(ms(400)).await;
        Ok::<_, Error>(())
    });
    let late = late.await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Timeout);
    assert!(late.to_string().contains("write_hold"), "{late}");
    is_released(&redis, &reader, &pool, 1).await;
}

pub(crate) async fn nothing_is_written_when_redis_refuses_the_hold<E: Talk>(pool: Pool<E>) {
    let (mut redis, _, _) = set_up(&pool).await;
    let writer = Cache::<str, i64>::builder("test").redis_limit(ms(300));
    let writer = writer.open(&redis.url()).unwrap();
    redis.kill();
    let refused = writer.write_in_tx(&pool, &["1"], async |tx| {
        change(tx, 2).await.unwrap();
        Ok::<_, Error>(())
    });
    assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Unavailable);
    let amount = database::number(&pool, "SELECT amount FROM stock WHERE item = 1").await;
    assert_eq!(amount, 1);
}

/// The outcome of a failed commit may not be known: readers go past the cache for a moment, and see
/// what the database has.
pub(crate) async fn a_commit_that_fails_releases_its_keys<E: Talk>(pool: Pool<E>) {
    let (redis, writer, reader) = set_up(&pool).await;
    let is_mysql = E::NAME == "MySQL";
    if !is_mysql {
        let parts = "CREATE TABLE parts (item BIGINT REFERENCES stock (item) DEFERRABLE INITIALLY DEFERRED)";
        database::exec(&pool, parts).await;
    }
    let failed = writer.write_in_tx(&pool, &["1"], async |tx| {
        change(tx, 2).await.unwrap();
        match is_mysql {
            // Its constraints are not looked at by the commit.
            true => drop(E::exec(&mut **tx, "KILL CONNECTION_ID()").await),
            false => E::exec(&mut **tx, "INSERT INTO parts (item) VALUES (99)").await.unwrap(),
        }
        Ok::<_, Error>(())
    });
    assert_eq!(failed.await.unwrap_err().kind(), ErrorKind::Database);
    is_released(&redis, &reader, &pool, 1).await;
}
