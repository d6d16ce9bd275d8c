//! A transaction waits for locked rows as long as the program says.

use std::time::Duration;

use leasehold_core::ErrorKind;
use leasehold_sql::rows::{Tries, Wait, failure, for_update, retry};
use sqlx::Pool;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::database::{Talk, number, stock};

const ONE: &str = "SELECT item FROM stock WHERE item = 1";

pub(crate) async fn a_locked_row_is_waited_for<E: Talk>(pool: Pool<E>) {
    stock(&pool, 0).await;
    let mut adders = JoinSet::new();
    for _ in 0..40 {
        let pool = pool.clone();
        adders.spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            let rows = for_update(&mut tx, ONE, Wait::AsSet).await.unwrap();
            assert_eq!(rows.len(), 1);
            // Read, think, write: a lost update if another client could do the same meanwhile.
            let amount = "SELECT amount FROM stock WHERE item = 1";
            let amount = E::number(&mut tx, amount).await.unwrap() + 1;
            tokio::task::yield_now().await;
            let update = format!("UPDATE stock SET amount = {amount} WHERE item = 1");
            E::exec(&mut tx, &update).await.unwrap();
            tx.commit().await.unwrap();
        });
    }
    adders.join_all().await;
    assert_eq!(number(&pool, "SELECT amount FROM stock WHERE item = 1").await, 40);
}

pub(crate) async fn without_waiting_a_locked_row_is_a_timeout_at_once<E: Talk>(pool: Pool<E>) {
    stock(&pool, 1).await;
    let mut holder = pool.begin().await.unwrap();
    let commented = format!("{ONE} -- of the one");
    for_update(&mut holder, commented.as_str(), Wait::No).await.unwrap();
    // The pool's own limit is longer than a test may take.
    let mut tx = pool.begin().await.unwrap();
    let error = for_update(&mut tx, ONE, Wait::No).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert_eq!(error.operation(), "for_update");
    tx.rollback().await.unwrap();
    holder.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(for_update(&mut tx, ONE, Wait::No).await.unwrap().len(), 1);
}

pub(crate) async fn a_time_limit_is_kept_and_holds_for_one_statement<E: Talk>(pool: Pool<E>) {
    stock(&pool, 1).await;
    let mut holder = pool.begin().await.unwrap();
    for_update(&mut holder, ONE, Wait::AsSet).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    let request = match E::NAME {
        "PostgreSQL" => {
            "SELECT EXTRACT(EPOCH FROM current_setting('lock_timeout')::interval)::bigint"
        }
        "MySQL" => "SELECT CAST(@@innodb_lock_wait_timeout AS SIGNED)",
        _ => "PRAGMA busy_timeout",
    };
    let set = E::number(&mut connection, request).await.unwrap();
    let limit = Wait::Within(Duration::from_millis(100));
    let mut tx = sqlx::Connection::begin(&mut *connection).await.unwrap();
    let error = for_update(&mut tx, ONE, limit).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    tx.rollback().await.unwrap();
    assert_eq!(E::number(&mut connection, request).await.unwrap(), set);

    // Long enough: it waits for the holder. Then the connection's own limit applies again.
    let mut tx = sqlx::Connection::begin(&mut *connection).await.unwrap();
    let mut patient = Box::pin(for_update(&mut tx, ONE, Wait::Within(Duration::from_secs(60))));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut patient).await;
    assert!(early.is_err(), "it did not wait");
    holder.rollback().await.unwrap();
    assert_eq!(patient.await.unwrap().len(), 1);
    assert_eq!(E::number(&mut tx, request).await.unwrap(), set);
    for bad in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let error = for_update(&mut tx, ONE, Wait::Within(bad)).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().starts_with("wait: "), "{error}");
    }
}

pub(crate) async fn locked_rows_are_skipped<E: Talk>(pool: Pool<E>) {
    stock(&pool, 1).await;
    let mut holder = pool.begin().await.unwrap();
    for_update(&mut holder, ONE, Wait::AsSet).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let all = for_update(&mut tx, "SELECT item FROM stock ORDER BY item;", Wait::Skip).await;
    match (all, E::NAME) {
        (Err(error), "SQLite") => assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}"),
        (rows, _) => assert_eq!(rows.unwrap().len(), 2),
    }
}

pub(crate) async fn a_deadlock_is_a_conflict_and_the_retry_gets_through<E: Talk>(pool: Pool<E>) {
    stock(&pool, 0).await;
    // Both lock their first row before either asks for the second; on SQLite they cannot.
    let both = Barrier::new(2);
    let met = std::sync::atomic::AtomicU32::new(0);
    let conflicts = std::sync::atomic::AtomicU32::new(0);
    let add = async |first: u32, second: u32| {
        let mut meets = E::NAME != "SQLite";
        let meets = std::sync::Mutex::new(std::mem::take(&mut meets));
        retry(Tries::default(), || async {
            let mut tx = pool.begin().await.map_err(failure)?;
            for item in [first, second] {
                let one = format!("SELECT item FROM stock WHERE item = {item}");
                if let Err(error) = for_update(&mut tx, one.as_str(), Wait::AsSet).await {
                    conflicts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    return Err(error);
                }
                let add = format!("UPDATE stock SET amount = amount + 1 WHERE item = {item}");
                E::exec(&mut tx, &add).await?;
                let meets = std::mem::take(&mut *meets.lock().unwrap());
                if meets {
                    met.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    both.wait().await;
                }
            }
            tx.commit().await.map_err(failure)
        })
        .await
        .unwrap();
    };
    tokio::join!(add(1, 2), add(2, 1));
    assert_eq!(number(&pool, "SELECT COUNT(*) FROM stock WHERE amount = 2").await, 2);
    if E::NAME != "SQLite" {
        assert_eq!(met.into_inner(), 2);
        // A retry can take its first row before the other transaction, which waits for it, has woken: then they
        // meet once more.
        assert!(conflicts.into_inner() >= 1, "one of the two had to go");
    }
}
