//! An etcd server of the test's own, alone or as a member of an ensemble.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};

use crate::daemon::{Daemon, is_a_daemon, when_up};
use crate::programs::needed;
use crate::{Certificates, PATIENCE, Proxy, find, http, wait};

/// How a server is to be. By default: no TLS, no users, the server's own limits.
#[derive(Clone, Debug, Default)]
pub struct EtcdSettings {
    certificates: Option<Certificates>,
    peers_behind_proxies: bool,
    args: Vec<String>,
}

impl EtcdSettings {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// TLS on the clients' port; clients must show a certificate of the same authority.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Members reach each other through proxies.
    #[must_use]
    pub fn peers_behind_proxies(mut self) -> Self {
        self.peers_behind_proxies = true;
        self
    }

    /// The most bytes that it stores.
    #[must_use]
    pub fn quota(self, bytes: u64) -> Self {
        self.arg(format!("--quota-backend-bytes={bytes}"))
    }

    /// A further argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }
}

/// A server on loopback, in a temporary directory; killed when dropped. Beside the port for clients
/// it has one without TLS for the kit.
#[derive(Debug)]
pub struct EtcdServer {
    settings: EtcdSettings,
    name: String,
    port: u16,
    admin_port: u16,
    peer_port: u16,
    /// Where the others reach it, if they do so through a proxy.
    peer_proxy: Option<Proxy>,
    /// `name=url,...` of all members, and what the ensemble is called.
    cluster: (String, String),
    /// Whether it joins an ensemble that is there already.
    joins: bool,
    /// Whether the kit asks as `root`.
    as_root: bool,
    daemon: Daemon,
}

/// Tries to start: another process may take a free port before the server does.
const TRIES: usize = 10;

impl EtcdServer {
    /// Whether one can be started here. If not, tests are reported as ignored, or fail when
    /// [`required`](crate::required) says so of `etcd`.
    pub fn is_present() -> bool {
        find("etcd").is_some() && find("setpriv").is_some()
    }

    /// Starts one, and returns when it answers and is known to be the process that was started.
    ///
    /// # Errors
    /// When there is no program, or with the end of the server's log.
    pub fn start(settings: EtcdSettings) -> io::Result<Self> {
        let mut members = Self::start_all(1, &settings)?;
        members.pop().ok_or_else(|| io::Error::other("no member"))
    }

    /// Starts an ensemble of this many members, and returns when all of them know its leader.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_all(size: usize, settings: &EtcdSettings) -> io::Result<Vec<Self>> {
        let mut outcome = Err(io::Error::other("not started"));
        for _ in 0..TRIES {
            outcome = Self::try_start_all(size, settings);
            if !outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
                break;
            }
        }
        outcome
    }

    fn try_start_all(size: usize, settings: &EtcdSettings) -> io::Result<Vec<Self>> {
        let token = format!("leasehold-{}", random());
        let mut members = Vec::new();
        for _ in 0..size {
            let program = needed("etcd", "etcd-server")?;
            let mut daemon = Daemon::new("etcd", program, None)?;
            let mut port = || daemon.ports.another();
            let [port, admin_port, peer_port] = [port()?, port()?, port()?];
            let (name, cluster) = (format!("m{}", random()), (String::new(), token.clone()));
            let peer_proxy = settings
                .peers_behind_proxies
                .then(|| Proxy::opaque(SocketAddr::from((Ipv4Addr::LOCALHOST, peer_port))))
                .transpose()?;
            let settings = settings.clone();
            members.push(Self {
                settings,
                name,
                port,
                admin_port,
                peer_port,
                peer_proxy,
                cluster,
                joins: false,
                as_root: false,
                daemon,
            });
        }
        let peers: Vec<String> =
            members.iter().map(|m| format!("{}={}", m.name, m.peer_url())).collect();
        for member in &mut members {
            member.cluster.0 = peers.join(",");
            member.launch()?;
        }
        for member in &mut members {
            member.when_up()?;
        }
        Ok(members)
    }

    /// Its port for clients; stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The proxies through which the other members connect to it.
    pub fn peer_proxies(&self) -> &[Proxy] {
        self.peer_proxy.as_slice()
    }

    /// Where the other members reach it.
    fn peer_url(&self) -> String {
        let proxied = self.peer_proxy.as_ref().map(|proxy| proxy.address().port());
        format!("http://127.0.0.1:{}", proxied.unwrap_or(self.peer_port))
    }

    /// `127.0.0.1:PORT` for clients; by name with TLS, as the certificate has it.
    pub fn place(&self) -> String {
        let host = if self.settings.certificates.is_some() { "localhost" } else { "127.0.0.1" };
        format!("{host}:{}", self.port)
    }

    /// `etcd://...`, or `etcds://...` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.settings.certificates.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}", self.place())
    }

    /// The URL of the port without TLS.
    pub fn plain_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin_port)
    }

    /// Asks its JSON interface, as in `call("cluster/member/list", json!({}))`.
    ///
    /// # Errors
    /// The server's own error as `Other`, with its text; else what the connection says.
    pub fn call(&self, path: &str, body: &Value) -> io::Result<Value> {
        match self.as_root {
            true => self.call_as_root(path, body),
            false => self.call_as(None, path, body),
        }
    }

    /// Asks as `root` from now on, once users count at all members.
    pub fn be_root(&mut self) {
        self.as_root = true;
    }

    /// Calls with the token of a user that has logged in.
    fn call_as(&self, token: Option<&str>, path: &str, body: &Value) -> io::Result<Value> {
        let answer = http::post(self.admin_port, &format!("/v3/{path}"), token, &body.to_string())?;
        let answer: Value = serde_json::from_str(&answer)?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(io::Error::other(error.to_owned())),
            None => Ok(answer),
        }
    }

    /// The sum of a counter over its labels, from the server's metrics.
    ///
    /// # Errors
    /// What the connection says.
    pub fn metric(&self, name: &str) -> io::Result<f64> {
        let text = http::get(self.admin_port, "/metrics")?;
        let values = text.lines().filter_map(|line| {
            let (metric, value) = line.rsplit_once(' ')?;
            let metric = metric.split('{').next()?;
            if metric == name { value.parse::<f64>().ok() } else { None }
        });
        Ok(values.sum())
    }

    /// The same for one series, as in `metric_of("grpc_server_handled_total", "grpc_method=\"Txn\"")`.
    ///
    /// # Errors
    /// What the connection says.
    pub fn metric_of(&self, name: &str, label: &str) -> io::Result<f64> {
        let text = http::get(self.admin_port, "/metrics")?;
        let values = text.lines().filter_map(|line| {
            let (metric, value) = line.rsplit_once(' ')?;
            (metric.starts_with(name) && metric.contains(label))
                .then(|| value.parse::<f64>().ok())?
        });
        Ok(values.sum())
    }

    /// Whether it is the leader now, as far as it knows.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn leads(&self) -> io::Result<bool> {
        let status = self.status()?;
        Ok(!status["leader"].is_null() && status["leader"] == status["header"]["member_id"])
    }

    /// What it says of itself, to users and others.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn status(&self) -> io::Result<Value> {
        self.call_as(None, "maintenance/status", &json!({}))
    }

    /// Makes users count: `root`, and `user` who may do everything below `prefix` and nothing else.
    /// The passwords are `root` and `password`.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn enable_users(&self, user: &str, password: &str, prefix: &str) -> io::Result<()> {
        self.insist("auth/user/add", &json!({"name": "root", "password": "root"}))?;
        self.insist("auth/role/add", &json!({"name": "root"}))?;
        self.insist("auth/user/grant", &json!({"user": "root", "role": "root"}))?;
        self.insist("auth/user/add", &json!({"name": user, "password": password}))?;
        self.insist("auth/role/add", &json!({"name": "locks"}))?;
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let (key, range_end) = (base64(prefix.as_bytes()), base64(&end));
        let permission = json!({"permType": "READWRITE", "key": key, "range_end": range_end});
        self.insist("auth/role/grant", &json!({"name": "locks", "perm": permission}))?;
        self.insist("auth/user/grant", &json!({"user": user, "role": "locks"}))?;
        self.insist("auth/enable", &json!({}))
    }

    /// Asks for a change until it is known to be done: a member that is slow to hash a password may answer too late
    /// that it did it.
    fn insist(&self, path: &str, body: &Value) -> io::Result<()> {
        const LATE: &str = "request timed out";
        const DONE: [&str; 2] = ["already exists", "user name is empty"];
        let mut was_late = false;
        for _ in 0..10 {
            let Err(error) = self.call(path, body) else { return Ok(()) };
            let text = error.to_string();
            match text.contains(LATE) {
                true => was_late = true,
                false if was_late && DONE.iter().any(|done| text.contains(done)) => return Ok(()),
                false => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("{path}: {LATE}")))
    }

    /// Asks its JSON interface as `root`, once users count.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_as_root(&self, path: &str, body: &Value) -> io::Result<Value> {
        let login = json!({"name": "root", "password": "root"});
        let login = self.call_as(None, "auth/authenticate", &login)?;
        self.call_as(login["token"].as_str(), path, body)
    }

    /// Starts it after [`kill`](Daemon::kill), with the data that is on the disk; returns when it has
    /// a leader.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> io::Result<()> {
        self.launch()?;
        self.when_up()
    }

    /// Kills it, has one of `others` remove it from their ensemble and add it as a new member, and starts it
    /// without its data; returns when it has a leader. All other members must run. They are asked in turn: a
    /// member that has sent a change to a leader that has just died gives no answer.
    ///
    /// # Errors
    /// What the others answer for as long as [`wait`] lasts; else as [`start`](Self::start).
    pub fn replace(&mut self, others: &[&Self]) -> io::Result<()> {
        self.kill();
        let mut turns = others.iter().cycle();
        let mut call = |path: &str, body: &Value, done: &str| {
            let (mut said, mut answer) = (String::new(), Value::Null);
            wait("the member is replaced", || {
                let Some(other) = turns.next() else { return false };
                match other.call(path, body) {
                    Ok(told) => answer = told,
                    Err(error) => said = error.to_string(),
                }
                !answer.is_null() || said.contains(done)
            })
            .map_err(|error| io::Error::new(error.kind(), format!("{error}: {said}")))?;
            Ok::<Value, io::Error>(answer)
        };
        let members = call("cluster/member/list", &json!({}), "\0")?;
        let members = members["members"].as_array().cloned().unwrap_or_default();
        let own = members.iter().find(|member| member["name"] == self.name.as_str());
        let id = own.map(|member| member["ID"].clone()).unwrap_or_default();
        let peers = json!({ "peerURLs": [self.peer_url()] });
        // Members refuse it until they have been connected to each other for 5 s.
        call("cluster/member/remove", &json!({ "ID": id }), "not found")?;
        call("cluster/member/add", &peers, "exist")?;
        std::fs::remove_dir_all(self.daemon.path("data"))?;
        self.joins = true;
        self.start_again()
    }

    fn launch(&mut self) -> io::Result<()> {
        let scheme = if self.settings.certificates.is_some() { "https" } else { "http" };
        let clients = format!("{scheme}://127.0.0.1:{}", self.port);
        let peers = format!("http://127.0.0.1:{}", self.peer_port);
        let data = self.daemon.path("data");
        let mut args = vec![
            format!("--name={}", self.name),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={clients},{}", self.plain_url()),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={}", self.peer_url()),
            format!("--initial-cluster={}", self.cluster.0),
            format!("--initial-cluster-token={}", self.cluster.1),
            // A login takes a member a tenth of a second of CPU time by default, and many clients log in at once.
            "--bcrypt-cost=4".to_owned(),
            "--logger=zap".to_owned(),
            "--log-outputs=stderr".to_owned(),
        ];
        if self.joins {
            args.push("--initial-cluster-state=existing".to_owned());
        }
        if let Some(certificates) = &self.settings.certificates {
            args.push(format!("--cert-file={}", certificates.server().display()));
            args.push(format!("--key-file={}", certificates.server_key().display()));
            args.push(format!("--trusted-ca-file={}", certificates.authority().display()));
            args.push("--client-cert-auth".to_owned());
        }
        args.extend(self.settings.args.iter().cloned());
        self.daemon.launch(|command| {
            command.args(&args);
        })
    }

    /// Waits until it answers and knows a leader; checks that it is our child, by its random name.
    fn when_up(&mut self) -> io::Result<()> {
        when_up(self, PATIENCE, |server| {
            let health = http::get(server.admin_port, "/health");
            Ok(health.is_ok_and(|health| health.contains("true")))
        })?;
        self.must_be_ours()
    }

    /// Checks that the member with our name's id is this server.
    fn must_be_ours(&self) -> io::Result<()> {
        let status = self.status()?;
        let mut members = Value::Null;
        // A login fails while members elect a leader.
        wait("the members are named", || {
            let all = self.call("cluster/member/list", &json!({}));
            all.map(|all| members = all).is_ok()
        })?;
        let ours = members["members"].as_array().into_iter().flatten().any(|member| {
            member["name"] == self.name.as_str() && member["ID"] == status["header"]["member_id"]
        });
        if ours {
            return Ok(());
        }
        let message = format!("the server on {} is not ours, {}", self.port, self.name);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }
}

is_a_daemon!(EtcdServer);

/// Returns a unique name.
fn random() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// As JSON wants bytes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().chain(&[0; 2]).take(3).fold(0_u32, |all, b| all << 8 | u32::from(*b));
        for place in 0..4 {
            let digit = char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]);
            text.push(if place <= three.len() { digit } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_base64() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
