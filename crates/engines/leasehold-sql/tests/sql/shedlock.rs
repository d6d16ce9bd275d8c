//! Locks in ShedLock's table, beside the statements that ShedLock sends with `usingDbTime()`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_conformance::until;
use leasehold_core::backend::{AcquireRequest, AlsoBackend, Answer, Backend};
use leasehold_core::{
    AttemptId, Client, ClientId, Error, ErrorKind, Forced, Name, State, StoreUrl, Token,
};
use leasehold_test_servers::{MariaDb, Postgres};

use crate::{Test, secs, test, try_connect};

pub(crate) const TESTS: &[Test] = &[
    test!(shedlock_and_leasehold_take_turns_on_postgres, Postgres),
    test!(shedlock_and_leasehold_take_turns_on_mysql, MySql),
    test!(shedlock_and_leasehold_count_together_on_postgres, Postgres),
    test!(shedlock_and_leasehold_count_together_on_mysql, MySql),
    test!(a_holder_that_overran_touches_nobody_on_postgres, Postgres),
    test!(a_holder_that_overran_touches_nobody_on_mysql, MySql),
    test!(columns_of_other_types_are_refused_on_postgres, Postgres),
    test!(columns_of_other_types_are_refused_on_mysql, MySql),
    test!(a_narrow_locked_by_is_refused_or_filled_on_postgres, Postgres),
    test!(a_narrow_locked_by_is_refused_or_filled_on_mysql, MySql),
    test!(a_row_of_a_berlin_clock_is_refused_on_postgres, Postgres),
    test!(a_row_of_a_berlin_clock_is_refused_on_mysql, MySql),
    test!(a_row_of_a_clock_west_of_utc_looks_free_on_postgres, Postgres),
    test!(a_row_of_a_clock_west_of_utc_looks_free_on_mysql, MySql),
    test!(the_zone_of_the_server_is_the_zone_of_all, MySql),
    test!(tokens_are_a_tick_apart_on_postgres, Postgres),
    test!(tokens_are_a_tick_apart_on_mysql, MySql),
    test!(names_and_columns_are_those_of_the_url, Postgres),
    test!(what_shedlock_cannot_do_is_refused, Postgres),
    test!(a_repeated_acquire_counts_from_its_request_on_postgres, Postgres),
    test!(a_repeated_acquire_counts_from_its_request_on_mysql, MySql),
    test!(a_client_with_also_excludes_both_kinds_on_postgres, Postgres),
    test!(a_client_with_also_excludes_both_kinds_on_mysql, MySql),
];

enum Server {
    Postgres(Postgres),
    MySql(MariaDb),
}

impl Server {
    fn postgres() -> Self {
        let server = Self::Postgres(Postgres::start(&[]).unwrap());
        server.make("shedlock", "TIMESTAMP");
        server
    }

    fn mysql(options: &[&str]) -> Self {
        let server = Self::MySql(MariaDb::start(options).unwrap());
        server.make("shedlock", "TIMESTAMP(3)");
        server
    }

    /// Makes the table as ShedLock's documentation says, or with another type of times.
    fn make(&self, table: &str, time: &str) {
        // MariaDB gives its first TIMESTAMP column a default that changes with each update.
        let default = if matches!(self, Self::MySql(_)) && time.starts_with("TIMESTAMP") {
            " DEFAULT CURRENT_TIMESTAMP"
        } else {
            ""
        };
        let digits =
            time.strip_prefix("TIMESTAMP").filter(|_| !default.is_empty()).unwrap_or_default();
        let column = format!("{time} NOT NULL{default}{digits}");
        self.sql(&format!(
            "CREATE TABLE {table}(name VARCHAR(64) NOT NULL, lock_until {column}, locked_at {column}, \
             locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"
        ));
        if let Self::Postgres(_) = self {
            self.sql(&format!("GRANT SELECT, INSERT, UPDATE ON {table} TO leasehold"));
        }
    }

    fn sql(&self, statements: &str) -> String {
        match self {
            Self::Postgres(server) => server.sql(statements),
            Self::MySql(server) => server.sql(statements),
        }
        .unwrap()
    }

    fn url(&self, options: &str) -> String {
        let url = match self {
            Self::Postgres(server) => server.url(),
            Self::MySql(server) => server.url(),
        };
        format!("{url}?wire=shedlock{options}")
    }

    async fn try_ours(&self, options: &str) -> Result<Client, Error> {
        let url = StoreUrl::parse(&self.url(options))?;
        Client::new(Arc::new(leasehold_sql::connect_with_wire(url).await?))
    }

    async fn ours(&self) -> Client {
        self.try_ours("").await.unwrap()
    }

    fn now(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "timezone('utc', CURRENT_TIMESTAMP)",
            Self::MySql(_) => "UTC_TIMESTAMP(3)",
        }
    }

    fn in_ms(&self, ms: i64) -> String {
        match self {
            Self::Postgres(_) => format!("{} + cast('{ms} milliseconds' as interval)", self.now()),
            Self::MySql(_) => format!("TIMESTAMPADD(MICROSECOND, {ms}000, {})", self.now()),
        }
    }

    /// What ShedLock does to lock; true if it has the lock.
    fn lock(&self, name: &str, me: &str, ms: u32) -> bool {
        let (now, end) = (self.now(), self.in_ms(ms.into()));
        let insert = format!(
            "INTO shedlock(name, lock_until, locked_at, locked_by) VALUES('{name}', {end}, {now}, '{me}')"
        );
        let update = format!(
            "SET lock_until = {end}, locked_at = {now}, locked_by = '{me}' \
             WHERE shedlock.name = '{name}' AND shedlock.lock_until <= {now}"
        );
        let said = self.sql(&match self {
            Self::Postgres(_) => {
                format!("INSERT {insert} ON CONFLICT (name) DO UPDATE {update} RETURNING 1")
            }
            Self::MySql(_) => format!(
                "INSERT IGNORE {insert}; SELECT ROW_COUNT(); UPDATE shedlock {update}; SELECT ROW_COUNT()"
            ),
        });
        said.lines().any(|line| line.trim() == "1")
    }

    /// What ShedLock does to unlock, with no least time.
    fn unlock(&self, name: &str, me: &str) {
        let now = self.now();
        self.sql(&format!(
            "UPDATE shedlock SET lock_until = CASE WHEN locked_at > {now} THEN locked_at ELSE {now} END \
             WHERE name = '{name}' AND locked_by = '{me}'"
        ));
    }

    fn rows(&self) -> u32 {
        self.sql("SELECT COUNT(*) FROM shedlock").trim().parse().unwrap()
    }
}

async fn take_turns(server: Server) {
    let client = server.ours().await;
    let lock = client.lock("a");
    let guard = lock.acquire().await.unwrap();
    assert!(!server.lock("a", "host", 30_000));
    let by = server.sql("SELECT locked_by FROM shedlock");
    assert!(
        by.starts_with("leasehold:") && by.contains(&format!(" {}@", std::process::id())),
        "{by}"
    );
    let status = lock.status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, Some(guard.token())));
    assert_eq!(status.holder.unwrap().pid, std::process::id());
    let earlier = Token::new(guard.token().get() - 1).unwrap();
    assert_eq!(lock.force_release(earlier).await.unwrap(), Forced::Other(guard.token()));
    let first = guard.token();
    guard.release().await.unwrap();
    // Where the hand-off was so fast that a tick has not passed, ShedLock tries again.
    until("ShedLock has it", || async { server.lock("a", "host", 600_000) }).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let status = lock.status().await.unwrap();
    assert_eq!((status.state, status.token), (State::Held, None));
    assert!(status.note.unwrap().contains("\"host\""));
    assert_eq!(lock.force_release(first).await.unwrap(), Forced::NotHeld);
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    until("it waits", || async { client.usage().waiting == 1 }).await.unwrap();
    server.unlock("a", "host");
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > first);
    // A host whose lock has ended unlocks again.
    server.unlock("a", "host");
    assert!(!server.lock("a", "other", 30_000));
    guard.ensure(secs(0)).unwrap();
    guard.release().await.unwrap();
    assert_eq!(server.rows(), 1, "rows stay");
    let list = client.list("", 10).await.unwrap();
    assert_eq!(list.len(), 1);
}

async fn shedlock_and_leasehold_take_turns_on_postgres() {
    take_turns(Server::postgres()).await;
}

async fn shedlock_and_leasehold_take_turns_on_mysql() {
    take_turns(Server::mysql(&[])).await;
}

fn add_one(path: &Path, mine: &str) {
    let number: u32 = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let draft = path.with_extension(mine);
    std::fs::write(&draft, (number + 1).to_string()).unwrap();
    std::fs::rename(&draft, path).unwrap();
}

/// Two hosts of ShedLock, which now and then do not unlock, and three clients of ours.
async fn count_together(server: Server) {
    const TIMES: u32 = 15;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("number");
    std::fs::write(&path, "0").unwrap();
    let (server, counted) = (Arc::new(server), Arc::<AtomicU32>::default());
    let mut all = Vec::new();
    for host in 0..2 {
        let (server, path, counted) = (server.clone(), path.clone(), counted.clone());
        all.push(tokio::task::spawn_blocking(move || {
            let me = format!("host{host}");
            for round in 0..TIMES {
                // The one that crashes does nothing while it holds, and its lease ends.
                let crashes = round % 7 == 3;
                let ms = if crashes { 500 } else { 600_000 };
                while !server.lock("a", &me, ms) {}
                if !crashes {
                    add_one(&path, &me);
                    counted.fetch_add(1, Ordering::Relaxed);
                    server.unlock("a", &me);
                }
            }
        }));
    }
    for number in 0..3 {
        let (client, path, counted) = (server.ours().await, path.clone(), counted.clone());
        all.push(tokio::spawn(async move {
            let mut last = None;
            for _ in 0..TIMES {
                let lock = client.lock("a").ttl(secs(60));
                let guard = lock.acquire_within(secs(120)).await.unwrap();
                assert!(Some(guard.token()) > last);
                last = Some(guard.token());
                add_one(&path, &number.to_string());
                guard.ensure(secs(0)).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in all {
        task.await.unwrap();
    }
    let number: u32 = std::fs::read_to_string(&path).unwrap().parse().unwrap();
    assert_eq!(number, counted.load(Ordering::Relaxed));
}

async fn shedlock_and_leasehold_count_together_on_postgres() {
    count_together(Server::postgres()).await;
}

async fn shedlock_and_leasehold_count_together_on_mysql() {
    count_together(Server::mysql(&[])).await;
}

async fn overrun(server: Server) {
    let client = server.ours().await;
    let guard = client.lock("a").ttl(secs(60)).renew_after(secs(1)).acquire().await.unwrap();
    // As if its lease had ended.
    server.sql(&format!("UPDATE shedlock SET lock_until = {}", server.now()));
    until("ShedLock has it", || async { server.lock("a", "host", 600_000) }).await.unwrap();
    let before = server.sql("SELECT * FROM shedlock");
    guard.lost().await;
    guard.release().await.unwrap_err();
    assert_eq!(server.sql("SELECT * FROM shedlock"), before, "their row was changed");
}

async fn a_holder_that_overran_touches_nobody_on_postgres() {
    overrun(Server::postgres()).await;
}

async fn a_holder_that_overran_touches_nobody_on_mysql() {
    overrun(Server::mysql(&[])).await;
}

async fn refused(server: &Server, options: &str, part: &str) {
    let error = server.try_ours(options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{options}: {error}");
    assert!(error.to_string().contains(part), "{options}: {error}");
    let diagnosis = leasehold_sql::diagnose(StoreUrl::parse(&server.url(options)).unwrap()).await;
    let findings = diagnosis.unwrap().findings;
    assert!(findings.iter().any(|finding| finding.what.contains(part)), "{options}: {findings:?}");
}

async fn columns_of_other_types_are_refused_on_postgres() {
    let server = Server::postgres();
    server.make("zoned", "TIMESTAMPTZ");
    server.make("whole", "TIMESTAMP(0)");
    server.sql("CREATE TABLE keyless AS SELECT * FROM shedlock; GRANT ALL ON keyless TO leasehold");
    refused(&server, "&table=zoned", "without a time zone").await;
    refused(&server, "&table=whole", "at least 3 digits").await;
    refused(&server, "&table=keyless", "primary key").await;
    refused(&server, "&table=none", "table=NAME").await;
    refused(&server, "&columns=name,lock_until,locked_at,owner", "columns=A,B,C,D").await;
    let client = server.try_ours("&table=public.shedlock").await.unwrap();
    assert!(client.warnings()[0].contains("usingDbTime()"), "{:?}", client.warnings());
}

async fn columns_of_other_types_are_refused_on_mysql() {
    let server = Server::mysql(&[]);
    server.make("whole", "DATETIME");
    server.make("good", "DATETIME(3)");
    server.sql("CREATE TABLE keyless AS SELECT * FROM shedlock");
    refused(&server, "&table=whole", "at least 3 digits").await;
    refused(&server, "&table=keyless", "primary key").await;
    refused(&server, "&table=none", "table=NAME").await;
    assert_eq!(server.ours().await.warnings().len(), 2, "TIMESTAMP depends on the session");
    let client = server.try_ours("&table=good").await.unwrap();
    assert_eq!(client.warnings().len(), 1);
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

async fn a_narrow_locked_by_is_refused_or_filled_on_postgres() {
    narrow(&Server::postgres(), "TIMESTAMP").await;
}

async fn a_narrow_locked_by_is_refused_or_filled_on_mysql() {
    narrow(&Server::mysql(&[]), "TIMESTAMP(3)").await;
}

async fn narrow(server: &Server, time: &str) {
    for width in [20, 41, 42, 60] {
        let table = format!("of{width}");
        server.make(&table, time);
        server.sql(&match server {
            Server::Postgres(_) => {
                format!("ALTER TABLE {table} ALTER COLUMN locked_by TYPE VARCHAR({width})")
            }
            Server::MySql(_) => {
                format!("ALTER TABLE {table} MODIFY locked_by VARCHAR({width}) NOT NULL")
            }
        });
        let options = format!("&table={table}");
        if width < 42 {
            let part = format!("locked_by of ShedLock's table has room for {width} characters");
            refused(server, &options, &part).await;
            refused(server, &options, "at least 42").await;
            continue;
        }
        let client = server.try_ours(&options).await.unwrap();
        let guard = client.lock("a").acquire().await.unwrap();
        assert!(client.lock("a").try_acquire().await.unwrap().is_none());
        let status = client.lock("a").status().await.unwrap();
        assert_eq!((status.state, status.token), (State::Held, Some(guard.token())));
        assert!(status.holder.is_some(), "{status:?}");
        guard.release().await.unwrap();
    }
}

/// ShedLock without `usingDbTime()` writes the time of its zone. East of UTC that is ahead.
async fn of_berlin(server: Server) {
    let client = server.ours().await;
    let (at, end) = (server.in_ms(3_600_000), server.in_ms(3_660_000));
    server.sql(&format!(
        "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES('a', {end}, {at}, 'berlin')"
    ));
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("add usingDbTime()"), "{error}");
    let note = client.lock("a").status().await.unwrap().note.unwrap();
    assert!(note.contains("usingDbTime()"), "{note}");
}

async fn a_row_of_a_berlin_clock_is_refused_on_postgres() {
    of_berlin(Server::postgres()).await;
}

async fn a_row_of_a_berlin_clock_is_refused_on_mysql() {
    of_berlin(Server::mysql(&[])).await;
}

/// West of UTC it is behind, and the row of a holder looks like one whose lock has ended: both hold, and nothing tells.
/// So every client warns.
async fn of_new_york(server: Server) {
    let client = server.ours().await;
    let warnings = client.warnings().join("; ");
    assert!(warnings.contains("usingDbTime()"), "{warnings}");
    let (at, end) = (server.in_ms(-18_000_000), server.in_ms(-17_940_000));
    server.sql(&format!(
        "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES('a', {end}, {at}, 'new york')"
    ));
    assert_eq!(client.lock("a").status().await.unwrap().state, State::Free);
    let guard = client.lock("a").try_acquire().await.unwrap().unwrap();
    // What it then does to its row does not touch ours.
    server.unlock("a", "new york");
    assert!(!server.lock("a", "host", 30_000));
    guard.release().await.unwrap();
}

async fn a_row_of_a_clock_west_of_utc_looks_free_on_postgres() {
    of_new_york(Server::postgres()).await;
}

async fn a_row_of_a_clock_west_of_utc_looks_free_on_mysql() {
    of_new_york(Server::mysql(&[])).await;
}

/// A TIMESTAMP column means another time in each zone. ShedLock's sessions have the one of the server.
async fn the_zone_of_the_server_is_the_zone_of_all() {
    for zone in ["-05:00", "+05:00"] {
        let server = Server::mysql(&[&format!("--default-time-zone={zone}")]);
        let client = server.ours().await;
        let guard = client.lock("a").acquire().await.unwrap();
        assert!(!server.lock("a", "host", 30_000), "{zone}");
        guard.release().await.unwrap();
        until("ShedLock has it", || async { server.lock("a", "host", 600_000) }).await.unwrap();
        assert!(client.lock("a").try_acquire().await.unwrap().is_none(), "{zone}");
    }
}

async fn a_tick_apart(server: Server) {
    let (one, two) = (server.ours().await, server.ours().await);
    let mut last = None;
    for turn in 0..60 {
        let client = if turn % 2 == 0 { &one } else { &two };
        let guard = client.lock("a").acquire_within(secs(60)).await.unwrap();
        assert!(Some(guard.token()) > last, "{last:?} then {}", guard.token());
        last = Some(guard.token());
        guard.release().await.unwrap();
    }
}

async fn tokens_are_a_tick_apart_on_postgres() {
    a_tick_apart(Server::postgres()).await;
}

async fn tokens_are_a_tick_apart_on_mysql() {
    a_tick_apart(Server::mysql(&[])).await;
}

async fn names_and_columns_are_those_of_the_url() {
    let server = Server::postgres();
    server.sql("CREATE SCHEMA jobs; GRANT USAGE ON SCHEMA jobs TO leasehold");
    server.make("jobs.locks", "TIMESTAMP");
    server.sql("ALTER TABLE jobs.locks RENAME COLUMN locked_by TO owner");
    let columns = "&columns=name,lock_until,locked_at,owner";
    server.try_ours(&format!("&schema=jobs&table=locks{columns}")).await.unwrap();
    let options = &format!("&table=jobs.locks{columns}");
    let client = server.try_ours(options).await.unwrap();
    let name = "名".repeat(64);
    let guard = client.lock(&name).acquire().await.unwrap();
    let owner = server.sql("SELECT owner FROM jobs.locks");
    assert!(owner.starts_with("leasehold:"), "{owner}");
    assert_eq!(server.rows(), 0);
    guard.release().await.unwrap();
    let error = client.lock("x".repeat(65)).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("65 characters"), "{error}");
}

async fn what_shedlock_cannot_do_is_refused() {
    let server = Server::postgres();
    let client = server.ours().await;
    for error in [
        client.rw_lock("a").try_read().await.unwrap_err(),
        client.semaphore("a", 2).try_acquire().await.unwrap_err(),
        client.latch("a", 2).state().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let url = || StoreUrl::parse(&server.url("")).unwrap();
    let error = leasehold_sql::forget(url(), "a").await.unwrap_err();
    assert!(error.to_string().contains("never deleted"), "{error}");
    let error = leasehold_sql::init(url()).await.unwrap_err();
    assert!(error.to_string().contains("leave out wire"), "{error}");
    let error = try_connect(&server.url("")).await.unwrap_err();
    assert!(error.to_string().contains("connect_with_wire"), "{error}");
}

async fn a_repeated_acquire_counts_from_its_request_on_postgres() {
    a_repeated_acquire_counts_from_its_request(&Server::postgres()).await;
}

async fn a_repeated_acquire_counts_from_its_request_on_mysql() {
    a_repeated_acquire_counts_from_its_request(&Server::mysql(&[])).await;
}

async fn a_repeated_acquire_counts_from_its_request(server: &Server) {
    let url = StoreUrl::parse(&server.url("")).unwrap();
    let backend = leasehold_sql::connect_with_wire(url).await.unwrap();
    let name = Name::new("a").unwrap();
    let attempt = AttemptId::new(ClientId::from_bits(7), 1, 0);
    let mut tokens = Vec::new();
    for ttl in [600, 1200] {
        let request = AcquireRequest::new(name.clone(), attempt, secs(ttl));
        let Answer::Granted(grant) = backend.acquire(request).await.unwrap() else { panic!() };
        tokens.push(grant.tokens.base());
    }
    assert_eq!(tokens[0], tokens[1]);
    let left = backend.status(&name).await.unwrap().remaining.unwrap();
    assert!(left > secs(800), "{left:?}");
}

async fn a_client_with_also_excludes_both_kinds_on_postgres() {
    a_client_with_also_excludes_both_kinds(&Server::postgres()).await;
}

async fn a_client_with_also_excludes_both_kinds_on_mysql() {
    a_client_with_also_excludes_both_kinds(&Server::mysql(&[])).await;
}

async fn a_client_with_also_excludes_both_kinds(server: &Server) {
    let url = server.url("");
    let (native, _) = url.split_once('?').unwrap();
    let shedlock = leasehold_sql::connect_with_wire(StoreUrl::parse(&url).unwrap());
    let backend = leasehold_sql::connect(StoreUrl::parse(native).unwrap());
    let (shedlock, backend) = (Arc::new(shedlock.await.unwrap()), Arc::new(backend.await.unwrap()));
    let both = Client::new(Arc::new(AlsoBackend::new(shedlock, backend, None))).unwrap();
    for other in [server.ours().await, try_connect(native).await.unwrap()] {
        let guard = both.lock("a").acquire().await.unwrap();
        assert!(other.lock("a").try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        let theirs = other.lock("a").try_acquire().await.unwrap().unwrap();
        assert!(both.lock("a").try_acquire().await.unwrap().is_none());
        let lock = both.lock("a");
        let waiting = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
        theirs.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}
