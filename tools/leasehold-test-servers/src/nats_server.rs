//! A NATS server of the test's own, with JetStream.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Daemon, is_a_daemon, on_free_port, when_up};
use crate::programs::needed;
use crate::{Certificates, PATIENCE, find};

/// A server that is stopped must not hang its test.
const LIMIT: Duration = Duration::from_secs(10);

/// Who the kit logs in as, where users count.
const KIT: &str = "leasehold-kit";

/// How a server is to be. By default: JetStream, no users, no TLS.
#[derive(Clone, Debug, Default)]
pub struct NatsSettings {
    no_jetstream: bool,
    users: Vec<String>,
    certificates: Option<Certificates>,
}

impl NatsSettings {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Without JetStream.
    #[must_use]
    pub fn no_jetstream(mut self) -> Self {
        self.no_jetstream = true;
        self
    }

    /// Users count from now on; this one may do everything.
    #[must_use]
    pub fn user(self, name: &str, password: &str) -> Self {
        self.user_with(name, password, "")
    }

    /// The same of one who may do what `permissions` say, as in the server's configuration:
    /// `publish: {deny: "a"}`.
    #[must_use]
    pub fn user_with(mut self, name: &str, password: &str, permissions: &str) -> Self {
        let may = format!("permissions: {{{permissions}}}");
        let may = if permissions.is_empty() { String::new() } else { may };
        self.users.push(format!("{{user: \"{name}\", password: \"{password}\", {may}}}"));
        self
    }

    /// TLS; clients must show a certificate of the same authority. [`NatsServer::request`] speaks
    /// without TLS, and is refused then.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }
}

/// A server on loopback, in a temporary directory; killed when dropped.
#[derive(Debug)]
pub struct NatsServer {
    settings: NatsSettings,
    daemon: Daemon,
    port: u16,
}

impl NatsServer {
    /// Whether one can be started here. If not, tests are reported as ignored, or fail when
    /// [`required`](crate::required) says so of `nats`.
    pub fn is_present() -> bool {
        find("nats-server").is_some() && find("setpriv").is_some()
    }

    /// Starts one, and returns when it answers and is known to be the process that was started.
    ///
    /// # Errors
    /// When there is no program, or with the end of the server's log.
    pub fn start(settings: NatsSettings) -> io::Result<Self> {
        let program = needed("nats-server", "nats-server")?;
        let daemon = Daemon::new("nats", program, None)?;
        let mut server = Self { settings, daemon, port: 0 };
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

    /// `nats://127.0.0.1:PORT`, or `tls://localhost:PORT`, as the certificate has it.
    pub fn url(&self) -> String {
        match self.settings.certificates {
            None => format!("nats://127.0.0.1:{}", self.port),
            Some(_) => format!("tls://localhost:{}", self.port),
        }
    }

    /// The same for a user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url().replace("://", &format!("://{user}:{password}@"))
    }

    /// Asks on a subject, and returns the answer: `request("$JS.API.STREAM.NAMES", &json!({}))`, or a
    /// message to a stream, which it acknowledges.
    ///
    /// # Errors
    /// JetStream's own error as `Other`, with its text; `NotFound` if no service listens there; else
    /// what the connection says.
    pub fn request(&self, subject: &str, body: &Value) -> io::Result<Value> {
        let answer: Value = serde_json::from_slice(&self.ask(subject, &body.to_string())?)?;
        match answer["error"]["description"].as_str() {
            Some(error) => Err(io::Error::other(error.to_owned())),
            None => Ok(answer),
        }
    }

    fn ask(&self, subject: &str, body: &str) -> io::Result<Vec<u8>> {
        let (mut reader, _) = self.greet()?;
        let login = json!({
            "user": KIT, "pass": KIT, "verbose": false, "pedantic": false, "headers": true,
            "no_responders": true, "lang": "kit", "version": "1",
        });
        let length = body.len();
        let words = format!(
            "CONNECT {login}\r\nSUB answer 1\r\nPUB {subject} answer {length}\r\n{body}\r\n"
        );
        reader.get_mut().write_all(words.as_bytes())?;
        loop {
            let line = line(&mut reader)?;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
            match (words.first().copied(), words.len()) {
                (Some("PING"), _) => reader.get_mut().write_all(b"PONG\r\n")?,
                (Some("-ERR"), _) => return Err(io::Error::other(line)),
                (Some("MSG"), length) => return bytes(&mut reader, number(length - 1)),
                // A header without a body means that no service listens.
                (Some("HMSG"), _) => {
                    return Err(io::Error::new(
                        io::ErrorKind::NotFound,
                        "no service listens on this subject",
                    ));
                }
                _ => {}
            }
        }
    }

    /// A new connection, and what the server says of itself.
    fn greet(&self) -> io::Result<(BufReader<TcpStream>, Value)> {
        let stream = TcpStream::connect_timeout(&self.address(), LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut reader = BufReader::new(stream);
        let line = line(&mut reader)?;
        let info = line.strip_prefix("INFO ");
        let info = info.ok_or_else(|| io::Error::other("this is no NATS server"))?;
        let info = serde_json::from_str(info)?;
        Ok((reader, info))
    }

    /// Starts it after [`kill`](Daemon::kill), on the same port and with the data that is on the disk.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> io::Result<()> {
        self.daemon.write("nats.conf", self.text().as_bytes())?;
        let config = self.daemon.path("nats.conf");
        self.daemon.launch(|command| {
            command.arg("--config").arg(config);
        })?;
        let jetstream = !self.settings.no_jetstream;
        when_up(self, PATIENCE, |server| {
            let Ok((_, info)) = server.greet() else { return Ok(false) };
            if info["server_name"] != server.name() {
                let message = format!("the server on {} is not ours", server.port);
                return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
            }
            Ok(info["jetstream"].as_bool().unwrap_or(false) == jetstream)
        })
    }

    /// Returns the unique name of its directory.
    fn name(&self) -> &str {
        self.daemon.directory().file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    fn text(&self) -> String {
        let mut lines = vec![
            format!("listen: \"127.0.0.1:{}\"", self.port),
            format!("server_name: \"{}\"", self.name()),
        ];
        if !self.settings.no_jetstream {
            let store = self.daemon.path("jetstream");
            lines.push(format!("jetstream {{store_dir: \"{}\"}}", store.display()));
        }
        if !self.settings.users.is_empty() {
            let kit = format!("{{user: \"{KIT}\", password: \"{KIT}\"}}");
            let users = self.settings.users.join(", ");
            lines.push(format!("authorization {{users: [{kit}, {users}]}}"));
        }
        if let Some(certificates) = &self.settings.certificates {
            lines.push(format!(
                "tls {{cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true}}",
                certificates.server().display(),
                certificates.server_key().display(),
                certificates.authority().display(),
            ));
        }
        lines.join("\n") + "\n"
    }
}

is_a_daemon!(NatsServer);

fn line(reader: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    match reader.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn bytes(reader: &mut BufReader<TcpStream>, length: Option<usize>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length.ok_or_else(|| io::Error::other("a message without a length"))?];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}
