//! What can happen to an SQL server.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use leasehold_test_servers::{Certificates, Galera, MariaDb, PgBouncer, Postgres, find, wait};

use crate::orphans::{self, is_gone};

type Test = (&'static str, fn());

pub(crate) const TESTS: &[Test] = &[
    ("sql::postgres_lives_through_all", postgres_lives_through_all),
    ("sql::postgres_takes_the_settings_and_users_it_is_given", postgres_takes_settings_and_users),
    ("sql::tls_is_all_that_postgres_takes", tls_is_all_that_postgres_takes),
    ("sql::mariadb_lives_through_all", mariadb_lives_through_all),
    ("sql::galera_nodes_have_each_others_rows", galera_nodes_have_each_others_rows),
    ("sql::pgbouncer_hands_out_few_connections", pgbouncer_hands_out_few_connections),
    ("sql::pgbouncer_and_all_servers_die_with_their_process", all_servers_die_with_their_process),
];

/// Asks over TCP, by a URL; the rows, or what went wrong.
fn psql(url: &str, statement: &str) -> Result<String, String> {
    let mut command = Command::new(find("psql").unwrap());
    command.args(["--no-psqlrc", "-qAt", url, "-c", statement]).stdin(Stdio::null());
    let output = command.env("PGCONNECT_TIMEOUT", "10").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn postgres_lives_through_all() {
    let mut server = Postgres::start(&[]).unwrap();
    psql(&server.url(), "CREATE TABLE a (n int); INSERT INTO a VALUES (1)").unwrap();
    let mut sleeper = Command::new(find("psql").unwrap())
        .args(["--no-psqlrc", "-q", &server.url(), "-c", "SELECT pg_sleep(600)"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let asks = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
    wait("it sleeps", || server.sql(asks).unwrap() == "1").unwrap();
    let asks = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
    let backend: u32 = server.sql(asks).unwrap().parse().unwrap();

    server.stop().unwrap();
    for pid in [server.pid(), backend] {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(") T "), "{stat}");
    }
    server.resume().unwrap();
    assert_eq!(psql(&server.url(), "SELECT n FROM a").unwrap(), "1");

    let (pid, port) = (server.pid(), server.port());
    server.kill();
    assert!(is_gone(pid) && is_gone(backend) && !sleeper.wait().unwrap().success());
    assert!(TcpStream::connect(server.address()).is_err());
    server.start_again().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(psql(&server.url(), "SELECT n FROM a").unwrap(), "1");
    let pid = server.pid();
    drop(server);
    assert!(is_gone(pid));
}

fn postgres_takes_settings_and_users() {
    let server = Postgres::start(&["max_connections=17"]).unwrap();
    assert_eq!(psql(&server.url(), "SHOW max_connections").unwrap(), "17");
    server.sql("CREATE ROLE reader LOGIN PASSWORD 'secret'").unwrap();
    server.sql("CREATE TABLE a (n int); GRANT SELECT ON a TO reader").unwrap();
    let url = server.url_as("reader", "secret");
    assert_eq!(psql(&url, "SELECT count(*) FROM a").unwrap(), "0");
    assert!(psql(&url, "INSERT INTO a VALUES (1)").unwrap_err().contains("permission denied"));
    let wrong = psql(&server.url_as("reader", "wrong"), "SELECT 1").unwrap_err();
    assert!(wrong.contains("password authentication failed"), "{wrong}");
    assert!(server.sql("nonsense").is_err());
}

fn tls_is_all_that_postgres_takes() {
    let certificates = Certificates::make().unwrap();
    let server = Postgres::start_tls(&[], &certificates).unwrap();
    let asks = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(psql(&server.url(), asks).unwrap(), "t");
    let (plain, _) =
        server.url().split_once('?').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let refused = psql(&format!("{plain}?sslmode=disable"), asks).unwrap_err();
    assert!(refused.contains("no encryption"), "{refused}");
}

fn galera_nodes_have_each_others_rows() {
    let cluster = Galera::start(3, &["--max-connections=17"]).unwrap();
    let [first, second, third] = cluster.nodes() else { panic!("{cluster:?}") };
    assert_eq!(third.sql("SELECT @@max_connections").unwrap(), "17");
    first.sql("CREATE TABLE a (n int PRIMARY KEY); INSERT INTO a VALUES (1)").unwrap();
    second.sql("SET wsrep_sync_wait = 15; INSERT INTO a VALUES (2)").unwrap();
    let said = third.sql("SET wsrep_sync_wait = 15; SELECT n FROM a ORDER BY n").unwrap();
    assert_eq!(said, "1\n2");
}

fn mariadb_lives_through_all() {
    let mut server = MariaDb::start(&["--max-connections=17"]).unwrap();
    assert_eq!(server.sql("SELECT @@max_connections").unwrap(), "17");
    server.sql("CREATE TABLE a (n int); INSERT INTO a VALUES (1)").unwrap();
    let over_tcp = |server: &MariaDb, user: &str, password: &str| {
        let output = Command::new(find("mariadb").unwrap())
            .args(["--no-defaults", "-BN", "--protocol=tcp", "--host=127.0.0.1", "leasehold"])
            .args([&format!("--port={}", server.port()), &format!("--user={user}")])
            .args([&format!("--password={password}"), "--execute=SELECT n FROM a"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    assert_eq!(over_tcp(&server, "leasehold", "leasehold"), "1");
    assert_eq!(over_tcp(&server, "root", ""), "");
    server.stop().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    assert!(stat.contains(") T "), "{stat}");
    server.resume().unwrap();
    let pid = server.pid();
    server.restart().unwrap();
    assert!(is_gone(pid));
    assert_eq!(over_tcp(&server, "leasehold", "leasehold"), "1");
}

fn pgbouncer_hands_out_few_connections() {
    let server = Postgres::start(&[]).unwrap();
    let mut pooler = PgBouncer::start(&server, 1).unwrap();
    let backend = "SELECT pg_backend_pid()";
    let first = psql(&pooler.url(), backend).unwrap();
    assert_eq!(psql(&pooler.url(), backend).unwrap(), first, "one connection for all");
    let directory = server.sql("SHOW data_directory").unwrap();
    server.sql("GRANT pg_read_all_settings TO leasehold").unwrap();
    assert_eq!(psql(&pooler.url(), "SHOW data_directory").unwrap(), directory);
    pooler.restart().unwrap();
    assert_ne!(psql(&pooler.url(), backend).unwrap(), first);
}

/// A part of [`all_servers_die_with_their_process`]: says the process ids of servers, and hangs.
pub(crate) fn play() -> ! {
    let servers = std::thread::spawn(|| {
        let postgres = Postgres::start(&[]).unwrap();
        let pgbouncer = PgBouncer::start(&postgres, 1).unwrap();
        let mariadb = MariaDb::is_present().then(|| MariaDb::start(&[]).unwrap());
        (postgres, pgbouncer, mariadb)
    });
    // The thread that started them has ended, which must not end them.
    let (postgres, pgbouncer, mariadb) = servers.join().unwrap();
    postgres.sql("SELECT 1").unwrap();
    let mariadb = mariadb.as_ref().map_or(pgbouncer.pid(), |mariadb| mariadb.pid());
    println!("{} {} {mariadb}", postgres.pid(), pgbouncer.pid());
    loop {
        std::thread::park();
    }
}

fn all_servers_die_with_their_process() {
    orphans::die_with_their_process("sql", 3);
}
