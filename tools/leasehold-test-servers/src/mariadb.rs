//! A MariaDB server of the test's own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::daemon::{Daemon, is_a_daemon, on_free_port, when_up};
use crate::programs::needed;
use crate::{Certificates, ClockShim, PATIENCE, find};

/// The user, the password and the database of the tests.
const NAME: &str = "leasehold";

/// Run at every start. `root` has no password, but over the unix socket alone, which no other user
/// can reach: names are not resolved, and an address is not `localhost`.
const INIT: &str = "\
CREATE DATABASE IF NOT EXISTS leasehold;
CREATE USER IF NOT EXISTS leasehold@'%' IDENTIFIED BY 'leasehold';
GRANT ALL ON leasehold.* TO leasehold@'%';
DROP USER IF EXISTS root@'127.0.0.1', root@'::1';
";

/// A server on loopback and on a unix socket, in a temporary directory; killed when dropped.
///
/// It has a database `leasehold`, where the user `leasehold` may do everything; the password is
/// the same.
#[derive(Debug)]
pub struct MariaDb {
    daemon: Daemon,
    client: PathBuf,
    port: u16,
    certificates: Option<Certificates>,
    options: Vec<String>,
    environment: Vec<(String, String)>,
}

impl MariaDb {
    /// Whether one can be started here. If not, tests are reported as ignored, or fail when
    /// [`required`](crate::required) says so of `mysql`.
    pub fn is_present() -> bool {
        let programs = ["mariadbd", "mariadb-install-db", "mariadb", "setpriv"];
        programs.into_iter().all(|program| find(program).is_some())
    }

    /// Starts one with further options such as `--max-connections=20`, and returns when it answers
    /// and is known to be the process that was started. Commits are left to the system to write,
    /// which keeps them when the server is killed; `--innodb-flush-log-at-trx-commit=1` is for
    /// those who measure.
    ///
    /// # Errors
    /// When a program is missing, or with the end of the server's log.
    pub fn start(options: &[&str]) -> io::Result<Self> {
        Self::make(options, None, Vec::new())
    }

    /// The same with a clock that the test moves.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_clock(options: &[&str], clock: &ClockShim) -> io::Result<Self> {
        Self::start_in(options, clock.env().into())
    }

    /// The same with further variables in its environment.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_in(options: &[&str], environment: Vec<(String, String)>) -> io::Result<Self> {
        Self::make(options, None, environment)
    }

    /// The same with TLS; over TCP it takes no connection without.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_tls(options: &[&str], certificates: &Certificates) -> io::Result<Self> {
        Self::make(options, Some(certificates.clone()), Vec::new())
    }

    fn make(
        options: &[&str],
        certificates: Option<Certificates>,
        environment: Vec<(String, String)>,
    ) -> io::Result<Self> {
        let daemon = Daemon::new("mariadb", needed("mariadbd", "mariadb-server")?, Some("mysql"))?;
        daemon.run(&needed("mariadb-install-db", "mariadb-server")?, |command| {
            command.args(["--no-defaults", "--skip-test-db", "--innodb-log-file-size=8M"]);
            command.arg("--auth-root-authentication-method=normal");
            command.arg(argument("--datadir", &daemon.path("data")));
        })?;
        daemon.write("init.sql", INIT.as_bytes())?;
        if let Some(certificates) = &certificates {
            certificates.give(&daemon)?;
        }
        let options = options.iter().map(ToString::to_string).collect();
        let client = needed("mariadb", "mariadb-client")?;
        let mut server = Self { daemon, client, port: 0, certificates, options, environment };
        on_free_port(&mut server, |server, port| {
            server.port = port;
            server.start_again()
        })?;
        Ok(server)
    }

    /// Its TCP port; stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its TCP address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// `mysql://...` as the user `leasehold`; with TLS it checks the server's certificate.
    pub fn url(&self) -> String {
        self.url_as(NAME, NAME)
    }

    /// `mysql://...` as another user. Neither part may need escaping in a URL.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let url = format!("mysql://{user}:{password}@127.0.0.1:{}/{NAME}", self.port);
        match &self.certificates {
            Some(certificates) => {
                format!("{url}?tls=verify&tls-ca={}", certificates.authority().display())
            }
            None => url,
        }
    }

    /// Runs statements as `root` in the database `leasehold`; the rows, one a line, columns
    /// separated by tabs.
    ///
    /// # Errors
    /// What the server says, or that it cannot be reached.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        query(&self.daemon, &self.client, NAME, statements)
    }

    /// Has it read its certificate and key again: new connections have them.
    ///
    /// # Errors
    /// As [`sql`](Self::sql).
    pub fn reload_certificates(&self) -> io::Result<()> {
        if let Some(certificates) = &self.certificates {
            certificates.give(&self.daemon)?;
        }
        self.sql("FLUSH SSL").map(drop)
    }

    /// Kills it and starts it on the same port and data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        self.start_again()
    }

    /// Starts it after [`kill`](Daemon::kill), on the same port and data.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> io::Result<()> {
        let path = |name: &str| self.daemon.path(name);
        let mut arguments = vec![
            "--no-defaults".to_owned(),
            argument("--datadir", &path("data")),
            argument("--socket", &path("socket")),
            argument("--pid-file", &path("pid")),
            argument("--init-file", &path("init.sql")),
            "--bind-address=127.0.0.1".into(),
            format!("--port={}", self.port),
            "--skip-name-resolve".into(),
            "--innodb-log-file-size=8M".into(),
            "--innodb-buffer-pool-size=32M".into(),
            "--innodb-flush-log-at-trx-commit=2".into(),
        ];
        if self.certificates.is_some() {
            arguments.extend([
                argument("--ssl-ca", &path("authority.crt")),
                argument("--ssl-cert", &path("server.crt")),
                argument("--ssl-key", &path("server.key")),
                "--require-secure-transport=ON".into(),
            ]);
        }
        let (options, environment) = (&self.options, self.environment.clone());
        self.daemon.launch(|command| {
            command.args(arguments).args(options).envs(environment);
        })?;
        // No other server listens in that directory or on the port: this one ends if it cannot listen.
        when_up(self, PATIENCE, |server| {
            let said = query(&server.daemon, &server.client, "", "SELECT @@datadir");
            Ok(said.is_ok_and(|said| Path::new(&said) == server.path("data")))
        })
    }
}

is_a_daemon!(MariaDb);

fn query(daemon: &Daemon, client: &Path, database: &str, sql: &str) -> io::Result<String> {
    let said = daemon.run(client, |command| {
        command.args(["--no-defaults", "--batch", "--skip-column-names", "--connect-timeout=10"]);
        command.arg(argument("--socket", &daemon.path("socket"))).arg("--user=root");
        command.arg(format!("--database={database}")).arg(format!("--execute={sql}"));
    })?;
    Ok(said.trim_end().to_owned())
}

fn argument(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}
