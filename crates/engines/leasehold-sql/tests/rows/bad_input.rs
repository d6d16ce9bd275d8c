//! Errors of a table, a column or a statement are reported, and change nothing.

use leasehold_core::{Error, ErrorKind, Token};
use leasehold_sql::rows::{Change, FenceTable, RowFence, Updated, Versioned, Wait, for_update};
use sqlx::{Encode, Pool, Type};

use crate::database::{Talk, exec, number, stock};

#[track_caller]
fn says(error: &Error, words: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    for word in words {
        assert!(error.to_string().contains(word), "{error} does not say {word}");
    }
}

pub(crate) async fn what_is_missing_or_of_the_wrong_type_is_named<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
    for<'q> &'q str: Encode<'q, E> + Type<E>,
{
    stock(&pool, 5).await;
    exec(&pool, "CREATE TABLE odd (item BIGINT, word VARCHAR(20), version BIGINT)").await;
    exec(&pool, "INSERT INTO odd VALUES (1, 'seven', NULL), (2, 'x', 1), (2, 'y', 1)").await;
    let token = Token::new(7).unwrap();

    let mut tx = pool.begin().await.unwrap();
    let fence = RowFence::new("no_table", "item", "fence").unwrap();
    says(
        &fence.check(&mut tx, 1_i64, token).await.unwrap_err(),
        &["no_table", "create this table"],
    );
    drop(tx);
    let mut tx = pool.begin().await.unwrap();
    let fence = RowFence::new("stock", "item", "no_column").unwrap();
    says(&fence.check(&mut tx, 1_i64, token).await.unwrap_err(), &["no_column", "add this column"]);
    drop(tx);
    let mut tx = pool.begin().await.unwrap();
    let fence = FenceTable::new("no_table").unwrap();
    says(&fence.check(&mut tx, "a", token).await.unwrap_err(), &["no_table", "create this table"]);
    drop(tx);
    let mut tx = pool.begin().await.unwrap();
    let fence = RowFence::new("odd", "item", "word").unwrap();
    says(&fence.check(&mut tx, 1_i64, token).await.unwrap_err(), &["BIGINT"]);
    drop(tx);
    let mut tx = pool.begin().await.unwrap();
    let fence = RowFence::new("odd", "item", "version").unwrap();
    let error = fence.check(&mut tx, 2_i64, token).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.message().contains("unique"), "{error}");

    drop(tx);

    let none = |_: &E::Row| Ok(None::<Change<'_, E>>);
    let versioned = |table, version| Versioned::new(table, "item", version).unwrap();
    let error = versioned("no_table", "version").update(&pool, 1_i64, none).await.unwrap_err();
    says(&error, &["no_table", "create this table"]);
    let error = versioned("stock", "no_column").update(&pool, 1_i64, none).await.unwrap_err();
    says(&error, &["no_column", "add this column"]);
    let error = versioned("odd", "word").update(&pool, 1_i64, none).await.unwrap_err();
    says(&error, &["word", "BIGINT"]);
    let error = versioned("odd", "version").update(&pool, 1_i64, none).await.unwrap_err();
    says(&error, &["version", "NULL", "NOT NULL DEFAULT 0"]);
    let write = |_: &E::Row| Ok(Some(Change::new().set("no_column", 1_i64)));
    let error = versioned("stock", "version").update(&pool, 1_i64, write).await.unwrap_err();
    says(&error, &["no_column", "add this column"]);
    let write = |_: &E::Row| Ok(Some(Change::new().set("a; DROP TABLE stock", 1_i64)));
    let error = versioned("stock", "version").update(&pool, 1_i64, write).await.unwrap_err();
    says(&error, &["column: ", "is not a valid name"]);
    if E::NAME != "SQLite" {
        // There, any column accepts any value.
        let write = |_: &E::Row| Ok(Some(Change::new().set("amount", "many")));
        let error = versioned("stock", "version").update(&pool, 1_i64, write).await.unwrap_err();
        says(&error, &["amount", "type"]);
    }

    for statement in ["SELECT FROM WHERE", "SELECT no_column FROM stock", "SELECT 1 FROM no_table"]
    {
        let mut tx = pool.begin().await.unwrap();
        let error = for_update(&mut tx, statement, Wait::AsSet).await.err().unwrap();
        says(&error, &["for_update: "]);
    }
}

pub(crate) async fn what_is_refused_changes_nothing<E: Talk>(pool: Pool<E>)
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    exec(
        &pool,
        "CREATE TABLE stock (item BIGINT PRIMARY KEY, amount BIGINT NOT NULL CHECK (amount >= 0), \
         version BIGINT NOT NULL)",
    )
    .await;
    exec(&pool, "INSERT INTO stock VALUES (1, 5, 0)").await;
    let stock = Versioned::new("stock", "item", "version").unwrap();
    let set = |amount: i64| move |_: &E::Row| Ok(Some(Change::new().set("amount", amount)));
    let error = stock.update(&pool, 1_i64, set(-1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    assert_eq!(number(&pool, "SELECT amount FROM stock").await, 5);
    assert_eq!(number(&pool, "SELECT version FROM stock").await, 0);
    assert_eq!(stock.update(&pool, 1_i64, set(4)).await.unwrap(), Updated::Written);
}
