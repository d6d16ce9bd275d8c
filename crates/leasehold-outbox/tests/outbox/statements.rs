//! What a relay leaves behind at PostgreSQL: no statements, and no isolation level of others.

use leasehold_outbox::{Database, Outbox, Relay};
use leasehold_test_servers::Postgres;
use sqlx::Pool;
use sqlx::pool::PoolOptions;

use super::recorder::Recorder;
use super::{cache, change, rows, server};

/// A pool that keeps no statements does not close any either.
pub(crate) async fn a_relay_leaves_no_statements_behind(pool: Pool<sqlx::Postgres>) {
    let redis = server();
    let cache = cache(&redis.url());
    let connect = pool.connect_options().as_ref().clone().statement_cache_capacity(0);
    let one: Pool<sqlx::Postgres> =
        PoolOptions::new().max_connections(1).connect_with(connect).await.unwrap();
    let outbox = Outbox::new().persistent(false);
    outbox.create(&one).await.unwrap();
    let relay = Relay::builder(&outbox, &one).to(Recorder::new()).unwrap();
    for at in 0..50 {
        change(&one, &outbox, &cache, &[&at.to_string()]).await;
        assert_eq!(relay.once().await.unwrap(), 1);
    }
    let left = sqlx::query("SELECT name FROM pg_prepared_statements WHERE name <> ''");
    assert_eq!(left.persistent(false).fetch_all(&one).await.unwrap().len(), 0);
}

/// The same of a database by its URL, as the command has it, by what the server has logged.
pub(crate) async fn a_relay_of_a_url_leaves_no_statements_behind() {
    let postgres = Postgres::start(&["log_statement=all"]).unwrap();
    let database = Database::open(&postgres.url()).unwrap();
    let outbox = Outbox::new();
    database.create(&outbox).await.unwrap();
    let relay = database.relay(&outbox).to(Recorder::new()).unwrap();
    let insert = "INSERT INTO leasehold_cache_outbox (cache, name, hold_ms, queued_us, due_us, tries) \
        VALUES ('a:b', 'c', 0, 0, 0, 0)";
    postgres.sql(insert).unwrap();
    assert_eq!(relay.once().await.unwrap(), 1);
    let log = postgres.log();
    assert!(log.contains("execute <unnamed>: SELECT id FROM"), "{log}");
    assert!(!log.contains("execute sqlx_s_"), "{log}");
}

/// Where transactions see a snapshot unless they say otherwise, relays still share the rows.
pub(crate) async fn relays_choose_their_isolation_level(pool: Pool<sqlx::Postgres>) {
    let redis = server();
    let cache = cache(&redis.url());
    let level = [("default_transaction_isolation", "repeatable\\ read")];
    let connect = pool.connect_options().as_ref().clone().options(level);
    let pool: Pool<sqlx::Postgres> = PoolOptions::new().connect_with(connect).await.unwrap();
    let (outbox, builder) = super::outbox(&pool).await;
    // What the claim's own transaction says of itself, at each row that it takes.
    for statement in [
        "CREATE TABLE levels (level TEXT)",
        "CREATE FUNCTION level() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO levels \
         VALUES (current_setting('transaction_isolation')); RETURN NEW; END $$",
        "CREATE TRIGGER level AFTER UPDATE ON leasehold_cache_outbox FOR EACH ROW \
         EXECUTE FUNCTION level()",
    ] {
        super::database::exec(&pool, statement).await;
    }
    change(&pool, &outbox, &cache, &["a", "b"]).await;
    assert_eq!(builder.to(Recorder::new()).unwrap().once().await.unwrap(), 2);
    let count = "SELECT COUNT(*) FROM levels WHERE level = 'read committed'";
    assert_eq!(super::database::number(&pool, count).await, 2);
    assert_eq!(rows(&pool).await, 0);
}
