//! Readers that are killed, cut off, or forgotten, and databases that restart beside them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

use leasehold_conformance::until;
use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, ConvertRequest, Converted, Grant, Mode, Renewed, Verdict,
};
use leasehold_core::{Forced, Name, State, StoreUrl};
use leasehold_test_servers::{Direction, MariaDb, Postgres, Proxy};

use crate::connection::{leave_working_connections, through};
use crate::side::{Side, name, release, unheard};
use crate::{Test, connect, ms, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_killed_reader_on_postgres_keeps_writers_out_for_its_ttl, Postgres),
    test!(a_killed_reader_on_mysql_keeps_writers_out_for_its_ttl, MySql),
    test!(a_killed_reader_on_sqlite_keeps_writers_out_for_its_ttl, Nothing),
    test!(a_lost_reply_to_a_reader_on_postgres_changes_nothing, Postgres),
    test!(a_lost_reply_to_a_reader_on_mysql_changes_nothing, MySql),
    test!(readers_outlive_a_restart_of_postgres, Postgres),
    test!(readers_outlive_a_restart_of_mysql, MySql),
    test!(a_clock_that_goes_back_keeps_readers_and_tokens_on_postgres, Postgres),
    test!(a_clock_that_goes_back_keeps_readers_and_tokens_on_mysql, MySql),
    test!(what_is_read_is_not_forgotten_on_postgres, Postgres),
    test!(what_is_read_is_not_forgotten_on_mysql, MySql),
    test!(what_is_read_is_not_forgotten_on_sqlite, Nothing),
    test!(repeated_steps_of_readers_do_nothing_more_on_postgres, Postgres),
    test!(repeated_steps_of_readers_do_nothing_more_on_mysql, MySql),
    test!(repeated_steps_of_readers_do_nothing_more_on_sqlite, Nothing),
    test!(no_statement_of_a_writer_takes_what_is_read_on_postgres, Postgres),
    test!(no_statement_of_a_writer_takes_what_is_read_on_mysql, MySql),
    test!(no_statement_of_a_writer_takes_what_is_read_on_sqlite, Nothing),
];

const ROLE: &str = "LEASEHOLD_SQL_READER";

/// Returns the store of a reading process.
pub(crate) fn told() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Reads until it is killed.
pub(crate) fn play(url: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(url).await;
        let _guard = client.rw_lock("a").ttl(secs(6)).read().await.unwrap();
        println!("reads");
        std::future::pending::<()>().await;
    });
    ExitCode::SUCCESS
}

/// A reading process; it is killed when it is dropped.
struct Reader(Child);

impl Reader {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "reads");
        Self(child)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn reads(side: &mut Side) -> AcquireRequest {
    side.request(secs(60)).with_mode(Mode::Shared)
}

/// A reader is killed beside another one that renews a long lease again and again.
///
/// Redisson PR 7098 and PR 7251: the renewal of one reader prolonged the lease of another, dead one.
async fn killed(url: &str) {
    let client = connect(url).await;
    let lock = client.rw_lock("a").ttl(secs(600)).renew_after(ms(200));
    let alive = lock.read().await.unwrap();
    let reader = Reader::start(url);
    let many = async || lock.status().await.map_or(0, |status| status.readers.len());
    assert_eq!(many().await, 2);
    drop(reader);
    until("the killed reader has gone", || async { many().await == 1 }).await.unwrap();
    assert!(alive.is_valid());
    let reader = Reader::start(url);
    drop(reader);
    let other = connect(url).await.rw_lock("a");
    let writing = tokio::spawn(async move { other.write_within(secs(60)).await });
    until("it waits", || async {
        lock.status().await.is_ok_and(|status| status.waiters.is_some_and(|all| all.len() == 1))
    })
    .await
    .unwrap();
    let token = alive.token();
    alive.release().await.unwrap();
    let write = writing.await.unwrap().unwrap();
    assert!(write.token() > token);
    write.release().await.unwrap();
}

async fn a_killed_reader_on_postgres_keeps_writers_out_for_its_ttl() {
    let server = Postgres::start(&[]).unwrap();
    killed(&server.url()).await;
}

async fn a_killed_reader_on_mysql_keeps_writers_out_for_its_ttl() {
    let server = MariaDb::start(&[]).unwrap();
    killed(&server.url()).await;
}

async fn a_killed_reader_on_sqlite_keeps_writers_out_for_its_ttl() {
    let place = tempfile::tempdir().unwrap();
    killed(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
}

fn converts(from: &AcquireRequest, grant: Grant, to: &AcquireRequest) -> ConvertRequest {
    ConvertRequest::new(release(from, grant), to.clone())
}

async fn converted(side: &Side, request: &ConvertRequest) -> Grant {
    match side.backend.convert(request.clone()).await.unwrap() {
        Converted::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

/// A grant, an upgrade, a downgrade, a renewal and a release are carried out, and the reply to each is
/// lost.
async fn lost_replies(url: &str, proxy: &Proxy) {
    let mut far = Side::connect(&through(url, proxy), 1).await;
    let near = Side::connect(url, 2).await;
    let request = reads(&mut far);
    proxy.cut(Direction::ServerToClient);
    let asking = tokio::spawn({
        let (backend, request) = (far.backend.clone(), request.clone());
        async move { backend.acquire(request).await }
    });
    // The reply to the question is lost too: the request is carried out after the connection is
    // made again.
    tokio::time::sleep(ms(50)).await;
    proxy.kill_connections();
    proxy.heal();
    asking.await.unwrap().ok();
    let grant = far.granted(&request).await;
    assert_eq!(far.granted(&request).await.tokens, grant.tokens);
    assert_eq!(near.status().await.readers.len(), 1);

    let mut held = (request, grant);
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Exclusive, Mode::Shared] {
        leave_working_connections(&far).await;
        let next = far.request(secs(60)).with_mode(mode);
        let convert = converts(&held.0, held.1, &next);
        // Some conversions lose the reply to what they write, some that to what they read.
        let turning = tokio::spawn({
            let (backend, convert) = (far.backend.clone(), convert.clone());
            async move { backend.convert(convert).await }
        });
        proxy.cut(Direction::ServerToClient);
        tokio::time::sleep(ms(20)).await;
        proxy.kill_connections();
        proxy.heal();
        turning.await.unwrap().ok();
        let grant = converted(&far, &convert.clone().with_again(true)).await;
        assert_eq!(converted(&far, &convert.with_again(true)).await.tokens, grant.tokens);
        assert!(grant.tokens.base() > held.1.tokens.base());
        let status = near.status().await;
        let state = if mode == Mode::Shared { State::Shared } else { State::Held };
        assert_eq!((status.state, status.token), (state, Some(grant.tokens.base())));
        held = (next, grant);
    }

    leave_working_connections(&far).await;
    let before = near.status().await.remaining.unwrap();
    proxy.cut(Direction::ServerToClient);
    let renewing = tokio::spawn({
        let (backend, (request, grant)) = (far.backend.clone(), held.clone());
        async move {
            let base = grant.tokens.base();
            let (name, attempt) = (request.name, request.attempt);
            let lease = leasehold_core::backend::Renewal::new(name, attempt, base, secs(600));
            backend.renew(&[lease]).await.remove(0)
        }
    });
    until("it is renewed", || async { near.status().await.remaining.unwrap() > before })
        .await
        .unwrap();
    proxy.kill_connections();
    proxy.heal();
    assert_eq!(renewing.await.unwrap().unwrap(), Renewed::Renewed);

    leave_working_connections(&far).await;
    let ending = tokio::spawn({
        let (backend, release) = (far.backend.clone(), release(&held.0, held.1));
        async move { backend.release(release).await }
    });
    proxy.cut(Direction::ServerToClient);
    tokio::time::sleep(ms(20)).await;
    proxy.kill_connections();
    proxy.heal();
    ending.await.unwrap().ok();
    assert_ne!(far.verdict(&release(&held.0, held.1)).await, Verdict::Lost);
    assert_eq!(near.status().await.state, State::Free);
}

async fn a_lost_reply_to_a_reader_on_postgres_changes_nothing() {
    let server = Postgres::start(&[]).unwrap();
    lost_replies(&server.url(), &Proxy::opaque(server.address()).unwrap()).await;
}

async fn a_lost_reply_to_a_reader_on_mysql_changes_nothing() {
    let server = MariaDb::start(&[]).unwrap();
    lost_replies(&server.url(), &Proxy::opaque(server.address()).unwrap()).await;
}

/// Two clients read, and one waits to read, while the database is killed and started again.
async fn restarted(url: &str, restart: impl FnOnce()) {
    let (mut one, mut two, mut three) =
        (Side::connect(url, 1).await, Side::connect(url, 2).await, Side::connect(url, 3).await);
    let long = |request: AcquireRequest| request.with_ttl(secs(600));
    let (first, second) = (long(reads(&mut one)), long(reads(&mut two)));
    let grant = one.granted(&first).await;
    assert_eq!(two.granted(&second).await.tokens, grant.tokens);
    let write = three.request(secs(600)).with_wait(true);
    three.queued(&write).await;
    let later = long(reads(&mut two)).with_wait(true);
    two.queued(&later).await;
    restart();
    until("it works again", || async { one.backend.status(&name()).await.is_ok() }).await.unwrap();
    let status = one.status().await;
    assert_eq!((status.state, status.token), (State::Shared, Some(grant.tokens.base())));
    assert_eq!((status.readers.len(), status.waiters.unwrap().len()), (2, 2));
    assert!(matches!(one.renew(&first, grant).await.unwrap(), Renewed::Wanted));
    assert_eq!(one.verdict(&release(&first, grant)).await, Verdict::Released);
    assert_eq!(two.verdict(&release(&second, grant)).await, Verdict::Released);
    let alone = three.granted(&write).await;
    assert!(alone.tokens.base() > grant.tokens.base());
    assert_eq!(three.verdict(&release(&write, alone)).await, Verdict::Released);
    assert!(two.granted(&later).await.tokens.base() > alone.tokens.top());
}

async fn readers_outlive_a_restart_of_postgres() {
    let mut server = Postgres::start(&[]).unwrap();
    let url = server.url();
    restarted(&url, || {
        server.kill();
        server.start_again().unwrap();
    })
    .await;
}

async fn readers_outlive_a_restart_of_mysql() {
    let mut server = MariaDb::start(&[]).unwrap();
    let url = server.url();
    restarted(&url, || {
        server.kill();
        server.start_again().unwrap();
    })
    .await;
}

/// The clock goes back by an hour beside a reader: everything stored is an hour ahead.
async fn clock_back(url: &str, sql: impl Fn(&str)) {
    let (mut one, mut two) = (Side::connect(url, 1).await, Side::connect(url, 2).await);
    let first = reads(&mut one);
    let grant = one.granted(&first).await;
    let hour = "3600000000";
    sql(&format!(
        "UPDATE leasehold_locks SET until_us = until_us + {hour}, top = top + {hour}, \
         base = base + {hour}"
    ));
    sql(&format!(
        "UPDATE leasehold_readers SET until_us = until_us + {hour}, base = base + {hour}"
    ));
    let token = one.status().await.token.unwrap();
    assert!(token > grant.tokens.base());
    let write = two.request(secs(60));
    let answer = two.backend.acquire(write.clone()).await.unwrap();
    assert!(matches!(answer, Answer::Busy { .. }), "{answer:?}");
    let second = reads(&mut two);
    assert_eq!(two.granted(&second).await.tokens.base(), token, "it joins the phase");
    assert_eq!(two.backend.force_release(&name(), token).await.unwrap(), Forced::Ended);
    let alone = two.granted(&write).await;
    assert!(alone.tokens.base() > token, "tokens grow");
    assert_eq!(two.verdict(&release(&write, alone)).await, Verdict::Released);
    let third = reads(&mut one);
    assert!(one.granted(&third).await.tokens.base() > alone.tokens.top());
}

async fn a_clock_that_goes_back_keeps_readers_and_tokens_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    clock_back(&server.url(), |statement| drop(server.sql(statement).unwrap())).await;
}

async fn a_clock_that_goes_back_keeps_readers_and_tokens_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    clock_back(&server.url(), |statement| drop(server.sql(statement).unwrap())).await;
}

async fn not_forgotten(url: &str) {
    let (mut one, mut two, mut three) =
        (Side::connect(url, 1).await, Side::connect(url, 2).await, Side::connect(url, 3).await);
    let forget = async || leasehold_sql::forget(StoreUrl::parse(url).unwrap(), "").await.unwrap();
    let first = reads(&mut one);
    let grant = one.granted(&first).await;
    let write = two.request(secs(60)).with_wait(true);
    two.queued(&write).await;
    let waits = reads(&mut three).with_wait(true);
    three.queued(&waits).await;
    assert_eq!(forget().await, 0, "it is read");
    let status = one.status().await;
    assert_eq!((status.readers.len(), status.waiters.unwrap().len()), (1, 2));
    one.verdict(&release(&first, grant)).await;
    let alone = two.granted(&write).await;
    assert_eq!(forget().await, 0, "it is written");
    two.verdict(&release(&write, alone)).await;
    let after = three.granted(&waits).await;
    assert!(after.tokens.base() > alone.tokens.top());
    assert_eq!(forget().await, 0, "it is read");
    three.verdict(&release(&waits, after)).await;
    until("it is forgotten", || async { forget().await == 1 }).await.unwrap();
    // A reader of a lock without a row gets a larger token.
    let last = reads(&mut one);
    assert!(one.granted(&last).await.tokens.base() > after.tokens.base());
}

async fn what_is_read_is_not_forgotten_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    not_forgotten(&server.url()).await;
}

async fn what_is_read_is_not_forgotten_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    not_forgotten(&server.url()).await;
}

async fn what_is_read_is_not_forgotten_on_sqlite() {
    let place = tempfile::tempdir().unwrap();
    not_forgotten(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
}

async fn repeated(url: &str) {
    let (mut one, mut two) = (Side::connect(url, 1).await, Side::connect(url, 2).await);
    let held = two.request(secs(60));
    let writer = two.granted(&held).await;
    // A queued reader that asks again keeps its place, and has one.
    let first = reads(&mut one).with_wait(true);
    for _ in 0..3 {
        assert_eq!(one.queued(&first).await, Some(0));
    }
    assert_eq!(two.status().await.waiters.unwrap().len(), 1);
    assert_eq!(two.verdict(&release(&held, writer)).await, Verdict::Released);
    let grant = one.granted(&first).await;
    let second = reads(&mut two);
    assert_eq!(two.granted(&second).await.tokens, grant.tokens);
    for _ in 0..2 {
        assert_eq!(one.granted(&first).await.tokens, grant.tokens);
        assert_eq!(one.renew(&first, grant).await.unwrap(), Renewed::Renewed);
    }
    assert_eq!(two.status().await.readers.len(), 2);
    // An upgrade that is refused stays refused, and the reader keeps its lease.
    let refused = one.request(secs(60));
    let up = converts(&first, grant, &refused);
    for again in [false, true, true] {
        let answer = one.backend.convert(up.clone().with_again(again)).await.unwrap();
        assert!(matches!(answer, Converted::Refused { .. }), "{answer:?}");
    }
    // The end of a reader that is repeated touches no other reader.
    for _ in 0..3 {
        assert_ne!(two.verdict(&release(&second, grant)).await, Verdict::Lost);
        assert_eq!(one.status().await.readers.len(), 1);
    }
    let late = one.backend.convert(up.with_again(true)).await.unwrap();
    assert!(matches!(late, Converted::Refused { .. }), "{late:?}");
    let alone = one.request(secs(60));
    let up = converts(&first, grant, &alone);
    let write = converted(&one, &up).await;
    assert_eq!(converted(&one, &up.clone().with_again(true)).await.tokens, write.tokens);
    let after = reads(&mut one);
    let down = converts(&alone, write, &after);
    let read = converted(&one, &down).await;
    assert_eq!(converted(&one, &down.clone().with_again(true)).await.tokens, read.tokens);
    // Old steps, again: nothing changes.
    for convert in [&up, &down] {
        one.backend.convert((*convert).clone().with_again(true)).await.unwrap();
    }
    let status = two.status().await;
    assert_eq!((status.state, status.readers.len()), (State::Shared, 1));
    // An end of which the client heard nothing refuses what arrives later.
    one.verdict(&unheard(&after).with_suspect(true)).await;
    assert_eq!(one.backend.acquire(after.clone()).await.unwrap(), Answer::Ended);
    assert_eq!(two.status().await.state, State::Free);
}

async fn repeated_steps_of_readers_do_nothing_more_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    repeated(&server.url()).await;
}

async fn repeated_steps_of_readers_do_nothing_more_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    repeated(&server.url()).await;
}

async fn repeated_steps_of_readers_do_nothing_more_on_sqlite() {
    let place = tempfile::tempdir().unwrap();
    repeated(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
}

/// A writer first tries one statement, which looks at the row of the lock alone: the row must last as long as the last reader.
async fn taken_by_statement(url: &str) {
    let (mut one, mut two, mut three) =
        (Side::connect(url, 1).await, Side::connect(url, 2).await, Side::connect(url, 3).await);
    let write = three.request(secs(60));
    let is_busy = || async {
        let answer = three.backend.acquire(write.clone()).await.unwrap();
        assert!(matches!(answer, Answer::Busy { .. }), "{answer:?}");
    };
    let other = Name::new("b").unwrap();
    let timer = |side: &mut Side, ttl: u64| {
        let mut request = reads(side).with_ttl(secs(ttl));
        request.name = other.clone();
        request
    };
    // The second reader has the shorter lease.
    let (long, short) = (reads(&mut one).with_ttl(secs(600)), reads(&mut two).with_ttl(secs(2)));
    let grant = one.granted(&long).await;
    two.granted(&short).await;
    let elapsed = || async {
        until("the time of the shorter lease has passed", || async {
            one.backend.status(&other).await.is_ok_and(|status| status.readers.is_empty())
        })
        .await
        .unwrap();
    };
    let timed = timer(&mut two, 2);
    two.granted(&timed).await;
    elapsed().await;
    is_busy().await;
    assert_eq!(one.verdict(&release(&long, grant)).await, Verdict::Released);
    // The lease of one reader is renewed for longer.
    let mut ttl = 2;
    loop {
        let brief = reads(&mut two).with_ttl(secs(ttl));
        let grant = two.granted(&brief).await;
        match two.renew(&brief.clone().with_ttl(secs(600)), grant).await.unwrap() {
            Renewed::Renewed => break,
            // The machine took longer than the lease.
            _ if ttl < 60 => ttl *= 2,
            answer => panic!("{answer:?}"),
        }
    }
    let timed = timer(&mut two, ttl);
    two.granted(&timed).await;
    elapsed().await;
    is_busy().await;
}

async fn no_statement_of_a_writer_takes_what_is_read_on_postgres() {
    let server = Postgres::start(&[]).unwrap();
    taken_by_statement(&server.url()).await;
}

async fn no_statement_of_a_writer_takes_what_is_read_on_mysql() {
    let server = MariaDb::start(&[]).unwrap();
    taken_by_statement(&server.url()).await;
}

async fn no_statement_of_a_writer_takes_what_is_read_on_sqlite() {
    let place = tempfile::tempdir().unwrap();
    taken_by_statement(&format!("sqlite:{}", place.path().join("locks.db").display())).await;
}
