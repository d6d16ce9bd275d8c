//! A process that commits a change, says so, and does nothing more: it is there to be killed.

use std::process::ExitCode;

use leasehold_cache::Cache;
use leasehold_outbox::Outbox;
use leasehold_sql::rows::Database;
use leasehold_test_servers::Process;
use sqlx::Pool;

use crate::database::Talk;

/// The URLs of the database and of Redis, and the value.
const ASKED: &str = "LEASEHOLD_TEST_WRITER";

pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(ASKED).is_some()
}

/// Starts one, and returns when it has committed.
pub(crate) fn start(database: &str, redis: &str, value: i64) -> Process {
    Process::again(ASKED, &format!("{database} {redis} {value}")).unwrap()
}

pub(crate) fn main() -> ExitCode {
    let asked = std::env::var(ASKED).unwrap();
    let [database, redis, value] = asked.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cache = crate::cache(redis);
        match Database::open(database).unwrap() {
            Database::Postgres(pool) => commit(&pool, &cache, value).await,
            Database::MySql(pool) => commit(&pool, &cache, value).await,
            Database::Sqlite(pool) => commit(&pool, &cache, value).await,
            _ => unreachable!(),
        }
        println!("committed");
        std::future::pending::<()>().await;
    });
    ExitCode::SUCCESS
}

async fn commit<E: Talk>(pool: &Pool<E>, cache: &Cache<str, i64>, value: &str) {
    let mut tx = pool.begin().await.unwrap();
    let update = format!("UPDATE stock SET amount = {value} WHERE item = 1");
    E::exec(&mut tx, &update).await.unwrap();
    cache.invalidate_in_tx(&Outbox::new(), &mut tx, &["1"]).await.unwrap();
    tx.commit().await.unwrap();
}
