//! Everything works if each transaction gets another connection.

use std::sync::Arc;

use leasehold_core::{Fenced, Token};
use leasehold_sql::rows::{
    Change, FenceTable, RowFence, Tries, Updated, Versioned, Wait, for_update,
};
use leasehold_test_servers::{PgBouncer, Postgres};
use sqlx::Row;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use crate::database::{Databases, exec, number, stock};

pub(crate) async fn all_of_it(_: Arc<Databases>) {
    let server = Postgres::start(&[]).unwrap();
    let pooler = PgBouncer::start(&server, 3).unwrap();
    let direct = PgPoolOptions::new().connect(&server.url()).await.unwrap();
    stock(&direct, 0).await;
    exec(&direct, "CREATE INDEX ON stock (amount)").await;
    let pool = PgPoolOptions::new().max_connections(16).connect(&pooler.url()).await.unwrap();
    let table = FenceTable::new("fences").unwrap().persistent(false);
    table.create(&direct).await.unwrap();
    let mut tasks = JoinSet::new();
    for value in 1..=32_u64 {
        let (pool, table) = (pool.clone(), table.clone());
        tasks.spawn(async move {
            let stock = Versioned::new("stock", "item", "version").unwrap().persistent(false);
            let stock = stock.tries(Tries::most(10_000));
            let add = |row: &sqlx::postgres::PgRow| {
                let amount: i64 = row.get("amount");
                Ok(Some(Change::new().set("amount", amount + 1)))
            };
            assert_eq!(stock.update(&pool, 1_i64, add).await.unwrap(), Updated::Written);

            let mut tx = pool.begin().await.unwrap();
            let one = sqlx::query("SELECT amount FROM stock WHERE item = $1").bind(2_i64);
            let wait = Wait::Within(std::time::Duration::from_secs(60));
            let rows = for_update(&mut tx, one.persistent(false), wait).await.unwrap();
            let amount: i64 = rows[0].get("amount");
            let update = format!("UPDATE stock SET amount = {} WHERE item = 2", amount + 1);
            sqlx::Executor::execute(&mut *tx, update.as_str()).await.unwrap();
            tx.commit().await.unwrap();

            let token = Token::new(value).unwrap();
            let row = RowFence::new("stock", "item", "fence").unwrap().persistent(false);
            let mut tx = pool.begin().await.unwrap();
            let row = row.check(&mut tx, 3_i64, token).await.unwrap();
            let table = table.check(&mut tx, "stock/3", token).await.unwrap();
            assert_eq!(row == Fenced::Written, table == Fenced::Written);
            tx.commit().await.unwrap();
        });
    }
    tasks.join_all().await;
    assert_eq!(number(&direct, "SELECT amount FROM stock WHERE item = 1").await, 32);
    assert_eq!(number(&direct, "SELECT amount FROM stock WHERE item = 2").await, 32);
    assert_eq!(number(&direct, "SELECT fence FROM stock WHERE item = 3").await, 32);
    assert_eq!(number(&direct, "SELECT token FROM fences").await, 32);
}
