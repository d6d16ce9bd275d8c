//! The code of the pages on caches and filters is compiled.

#![allow(dead_code, reason = "the pages show it")]

use leasehold_cache::BoxError;
use leasehold_conformance::pages;
use sqlx::SqlitePool;

#[test]
fn the_code_of_the_pages_is_compiled() {
    pages::are_compiled("cache.md", include_str!("pages.rs"));
    pages::are_compiled("filters.md", include_str!("pages.rs"));
}

async fn cache_page(pool: SqlitePool) -> Result<(), BoxError> {
    use leasehold_cache::{BoxError, Cache};
    use sqlx::SqliteTransaction;

    let users: Cache<i64, String> = Cache::builder("users").open("redis://127.0.0.1:6379")?;
    let name = users.get(&42, |_| async { read_from_database(42).await }).await?;

    users
        .write_in_tx(&pool, &[&42], async |tx: &mut SqliteTransaction<'_>| {
            sqlx::query("UPDATE users SET name = 'Ada' WHERE id = 42").execute(&mut **tx).await?;
            Ok::<_, BoxError>(())
        })
        .await?;
    drop(name);
    Ok(())
}

async fn read_from_database(id: i64) -> Result<Option<String>, BoxError> {
    Ok(Some(id.to_string()))
}

async fn filters_page() -> Result<(), BoxError> {
    use leasehold_cache::Cache;
    use leasehold_filters::bloom;

    let filter = bloom::Redis::builder("users", 1_000_000, 0.01)
        .create(true)
        .open("redis://127.0.0.1:6379")
        .await?;
    let users: Cache<i64, String> =
        Cache::builder("users").filter(filter.clone()).open("redis://127.0.0.1:6379")?;

    filter.add("42").await?;
    drop(users);
    Ok(())
}
