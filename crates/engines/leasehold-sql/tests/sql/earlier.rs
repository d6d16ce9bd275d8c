//! Clients of an earlier build, which know no readers, beside clients that read.
//!
//! The statements are those of that build: they do not look at the mode of a waiter.

use leasehold_conformance::until;
use leasehold_core::backend::{Mode, Verdict};
use leasehold_core::{AttemptId, ErrorKind, State, StoreUrl};
use leasehold_test_servers::{MariaDb, Postgres};

use crate::side::{Side, name, release};
use crate::{Test, connect, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_lock_is_never_passed_to_a_reader_that_waits_on_postgres, Postgres),
    test!(a_lock_is_never_passed_to_a_reader_that_waits_on_mysql, MySql),
    test!(a_lock_is_never_passed_to_a_reader_that_waits_on_sqlite, Nothing),
    test!(older_tables_work_and_get_readers_on_postgres, Postgres),
    test!(older_tables_work_and_get_readers_on_mysql, MySql),
    test!(older_tables_work_and_get_readers_on_sqlite, Nothing),
];

/// A database as another program sees it.
pub(crate) struct Database<C> {
    pub(crate) url: String,
    program: C,
    pub(crate) now: &'static str,
    pub(crate) bytes: fn(&[u8]) -> String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Database<sqlx::PgConnection> {
    pub(crate) async fn postgres(server: &Postgres) -> Self {
        let program = sqlx::Connection::connect(&server.url()).await.unwrap();
        let now = "(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000)::BIGINT";
        Self { url: server.url(), program, now, bytes: |b| format!("decode('{}', 'hex')", hex(b)) }
    }
}

impl Database<sqlx::MySqlConnection> {
    pub(crate) async fn mysql(server: &MariaDb) -> Self {
        let program = sqlx::Connection::connect(&server.url()).await.unwrap();
        let now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
        Self { url: server.url(), program, now, bytes: |b| format!("x'{}'", hex(b)) }
    }
}

impl Database<sqlx::SqliteConnection> {
    pub(crate) async fn sqlite(path: &std::path::Path) -> Self {
        use sqlx::ConnectOptions;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let options = options.create_if_missing(true).busy_timeout(secs(60));
        let program = options.connect().await.unwrap();
        let now = "(CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000)";
        let url = format!("sqlite:{}", path.display());
        Self { url, program, now, bytes: |b| format!("x'{}'", hex(b)) }
    }
}

impl<C> Database<C>
where
    for<'c> &'c mut C: sqlx::Executor<'c>,
    for<'c> <&'c mut C as sqlx::Executor<'c>>::Database: sqlx::Database,
{
    /// Carries out a statement, and returns how many rows it returned.
    pub(crate) async fn rows(&mut self, statement: &str) -> usize {
        use sqlx::Executor;
        (&mut self.program).fetch_all(sqlx::raw_sql(statement)).await.unwrap().len()
    }

    /// The heads of the queue: the first of them gets the lock.
    async fn heads(&mut self) -> usize {
        let (now, name) = (self.now, (self.bytes)(name().as_str().as_bytes()));
        self.rows(&format!(
            "SELECT w.attempt, w.ttl_us, w.tokens, w.person, w.asked_us, w.ticket \
             FROM leasehold_waiters w WHERE w.name = {name} AND w.seen_us > {now} - 45000000 \
             ORDER BY w.ticket LIMIT 3"
        ))
        .await
    }

    /// Takes the lock as one statement, if it is free.
    pub(crate) async fn take(&mut self, attempt: AttemptId) {
        let (now, name) = (self.now, (self.bytes)(name().as_str().as_bytes()));
        let attempt = (self.bytes)(&attempt.to_bytes());
        self.rows(&format!(
            "UPDATE leasehold_locks SET stamp = stamp + 1, lost = base, base = top + 1, \
             top = top + 1, state = 1, attempt = {attempt}, until_us = {now} + 60000000, \
             since_us = {now}, confirmed = 1 WHERE name = {name} \
             AND (state = 0 OR until_us <= {now}) AND line = 0 AND ended_us <= {now}"
        ))
        .await;
    }

    /// Frees the lock in a step, since the row says that clients wait, and finds none.
    async fn free(&mut self) {
        assert_eq!(self.heads().await, 0, "it would pass the lock on to a reader");
        let (now, name) = (self.now, (self.bytes)(name().as_str().as_bytes()));
        self.rows(&format!(
            "UPDATE leasehold_locks SET stamp = stamp + 1, state = 0, until_us = {now}, line = 0 \
             WHERE name = {name}"
        ))
        .await;
    }

    async fn never_to_a_reader(mut self) {
        let mut writer = Side::connect(&self.url, 1).await;
        let (mut one, mut two) =
            (Side::connect(&self.url, 2).await, Side::connect(&self.url, 3).await);
        // The earlier program holds; two clients wait to read.
        let held = writer.request(secs(600));
        let grant = writer.granted(&held).await;
        let mut reads = Vec::new();
        for side in [&mut one, &mut two] {
            let request = side.request(secs(600)).with_mode(Mode::Shared).with_wait(true);
            side.queued(&request).await;
            reads.push(request);
        }
        let status = writer.status().await;
        assert!(status.waiters.unwrap().iter().all(|waiter| waiter.shared));
        self.free().await;
        // They find it free, and enter one phase.
        let first = one.granted(&reads[0]).await;
        let second = two.granted(&reads[1]).await;
        assert_eq!(first.tokens, second.tokens);
        assert!(first.tokens.base() > grant.tokens.top());
        let status = writer.status().await;
        assert_eq!((status.state, status.readers.len()), (State::Shared, 2));
        // For the earlier program the lock is held until the last of them has left.
        let late = writer.request(secs(600));
        for (side, request, grant) in [(&one, &reads[0], first), (&two, &reads[1], second)] {
            self.take(late.attempt).await;
            assert_eq!(writer.status().await.state, State::Shared);
            assert_eq!(side.verdict(&release(request, grant)).await, Verdict::Released);
        }
        self.take(late.attempt).await;
        let status = writer.status().await;
        assert_eq!(status.holder.map(|holder| holder.attempt), Some(late.attempt));
        // A reader queues again after the row has lost the mark that clients wait.
        let last = one.request(secs(600)).with_mode(Mode::Shared).with_wait(true);
        one.queued(&last).await;
        let name = (self.bytes)(name().as_str().as_bytes());
        self.rows(&format!("UPDATE leasehold_locks SET line = 0 WHERE name = {name}")).await;
        one.queued(&last).await;
        assert_eq!(writer.status().await.waiters.unwrap().len(), 1, "the mark is written again");
        self.free().await;
        one.granted(&last).await;
    }

    async fn older_tables(mut self) {
        connect(&self.url).await;
        for table in ["leasehold_readers", "leasehold_read_waiters"] {
            self.rows(&format!("DROP TABLE {table}")).await;
        }
        let old = connect(&format!("{}?create=no", self.url)).await;
        let guard = old.lock("a").acquire().await.unwrap();
        // Of another client, which queues, and to which the release hands the lock on.
        let lock = connect(&format!("{}?create=no", self.url)).await.lock("a");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until("it waits", || async {
            let status = old.lock("a").status().await;
            status.is_ok_and(|status| status.waiters.is_some_and(|all| all.len() == 1))
        })
        .await
        .unwrap();
        let error = old.rw_lock("b").read().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        leasehold_sql::forget(StoreUrl::parse(&self.url).unwrap(), "zzz").await.unwrap();
        leasehold_sql::init(StoreUrl::parse(&self.url).unwrap()).await.unwrap();
        let new = connect(&format!("{}?create=no", self.url)).await;
        let read = new.rw_lock("a").read().await.unwrap();
        assert!(old.lock("a").try_acquire().await.unwrap().is_none(), "a writer beside a reader");
        read.release().await.unwrap();
        until("it is free", || async { old.lock("a").try_acquire().await.unwrap().is_some() })
            .await
            .unwrap();
    }
}

async fn a_lock_is_never_passed_to_a_reader_that_waits_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    Database::postgres(&server).await.never_to_a_reader().await;
}

async fn a_lock_is_never_passed_to_a_reader_that_waits_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    Database::mysql(&server).await.never_to_a_reader().await;
}

async fn a_lock_is_never_passed_to_a_reader_that_waits_on_sqlite() {
    let place = tempfile::tempdir().unwrap();
    Database::sqlite(&place.path().join("locks.db")).await.never_to_a_reader().await;
}

async fn older_tables_work_and_get_readers_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    Database::postgres(&server).await.older_tables().await;
}

async fn older_tables_work_and_get_readers_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    Database::mysql(&server).await.older_tables().await;
}

async fn older_tables_work_and_get_readers_on_sqlite() {
    let place = tempfile::tempdir().unwrap();
    Database::sqlite(&place.path().join("locks.db")).await.older_tables().await;
}
