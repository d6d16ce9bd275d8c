//! A server in this process, and a client that sends exactly the bytes that a test wants.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use leasehold_serve::{Server, Settings, StoreSetting};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything should take, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Tokens with the role read, hold, and all roles.
pub(crate) const READER: &str = "reader-token-0123456789abcdef";
pub(crate) const HOLDER: &str = "holder-token-0123456789abcdef";
pub(crate) const OTHER: &str = "another-token-0123456789abcdef";
pub(crate) const ADMIN: &str = "admin-token-0123456789abcdef";

/// A server that ends with the test.
pub(crate) struct Serving {
    pub(crate) address: String,
    pub(crate) url: String,
    pub(crate) folder: TempDir,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    task: JoinHandle<()>,
}

/// A response that has ended.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A response that goes on.
pub(crate) struct Stream {
    pub(crate) status: u16,
    reader: BufReader<TcpStream>,
}

impl Serving {
    /// Starts a server with tokens and a memory store of its own, `main`.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = TempDir::new().unwrap();
        let name = folder.path().file_name().unwrap().to_str().unwrap();
        let url = format!("memory:{}", name.trim_start_matches('.'));
        let mut settings =
            Settings::new(vec![StoreSetting { name: "main".into(), url: url.clone() }]);
        settings.listen = "127.0.0.1:0".parse().unwrap();
        settings.token_file = Some(folder.path().join("tokens"));
        let tokens = format!(
            "read reader {READER}\nhold holder {HOLDER}\nhold other {OTHER}\nhold,force admin {ADMIN}\n"
        );
        write(&folder.path().join("tokens"), &tokens);
        change(&mut settings);
        let server = Server::bind(settings).await.unwrap();
        let address = server.place().replace("http://", "");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { address, url, folder, stop: Mutex::new(Some(stop)), task }
    }

    /// A client of the store without the server.
    pub(crate) async fn client(&self) -> leasehold::Client {
        leasehold::connect(&self.url).await.unwrap()
    }

    /// Tells the server to stop.
    pub(crate) fn stop(&self) {
        self.stop.lock().unwrap().take().unwrap().send(()).unwrap();
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(self) {
        within(self.task).await.unwrap();
    }

    /// Sends bytes, and returns all that comes until the server closes the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Response {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        // The server may have refused it before its end.
        let _ = stream.write_all(bytes).await;
        let mut all = Vec::new();
        let _ = within(stream.read_to_end(&mut all)).await;
        Response::parse(&String::from_utf8_lossy(&all))
    }

    /// Sends a request with these headers, one a line.
    pub(crate) async fn send(&self, line: &str, headers: &str, body: &str) -> Response {
        let host = match headers.to_lowercase().contains("host:") {
            true => String::new(),
            false => format!("Host: {}\r\n", self.address),
        };
        let headers: String = headers.lines().map(|line| format!("{}\r\n", line.trim())).collect();
        let length = body.len();
        self.raw(
            format!(
                "{line} HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        )
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(&format!("GET {path}"), "", "").await
    }

    /// Sends a change with a token.
    pub(crate) async fn change(&self, line: &str, token: &str) -> Response {
        let headers = format!("X-Leasehold: 1\nAuthorization: Bearer {token}");
        self.send(line, &headers, "").await
    }

    /// Acquires a lock for the holder's token.
    pub(crate) async fn acquire(&self, name: &str, query: &str) -> Response {
        let line = format!("POST /v1/stores/main/locks/{name}/acquire?{query}");
        self.change(&line, HOLDER).await
    }

    /// Opens a stream, and reads its head.
    pub(crate) async fn open(&self, line: &str, headers: &str) -> Stream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let headers: String = headers.lines().map(|line| format!("{}\r\n", line.trim())).collect();
        let request = format!("{line} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let mut status = 0;
        loop {
            let mut line = String::new();
            within(reader.read_line(&mut line)).await.unwrap();
            if line.starts_with("HTTP/1.1 ") {
                status = line[9..12].parse().unwrap();
            }
            if line.trim().is_empty() {
                return Stream { status, reader };
            }
        }
    }

    /// Opens a hold for the holder's token.
    pub(crate) async fn hold(&self, name: &str, query: &str) -> Stream {
        let line = format!("POST /v1/stores/main/locks/{name}/hold?{query}");
        let headers = format!("X-Leasehold: 1\nAuthorization: Bearer {HOLDER}");
        self.open(&line, &headers).await
    }
}

impl Stream {
    /// Returns the next line with content, without the sizes of chunks; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if within(self.reader.read_line(&mut line)).await.unwrap_or(0) == 0 {
                return None;
            }
            let line = line.trim();
            let is_size = !line.is_empty() && line.chars().all(|c| c.is_ascii_hexdigit());
            if line == "0" {
                return None;
            }
            if !line.is_empty() && !is_size {
                return Some(line.to_owned());
            }
        }
    }

    /// Returns the next line as an object.
    pub(crate) async fn json(&mut self) -> Value {
        let line = self.line().await.expect("the stream goes on");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Reads lines until one has this key, and returns what is below the key.
    pub(crate) async fn until(&mut self, key: &str) -> Value {
        loop {
            let mut line = self.json().await;
            if line.get(key).is_some() {
                return line[key].take();
            }
        }
    }
}

impl Response {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Self { status, head: head.to_owned(), body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// Returns the kind of a problem.
    pub(crate) fn kind(&self) -> String {
        self.json()["kind"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        let Some(part) = rest.get(..size) else { break };
        text.push_str(part);
        body = rest[size..].trim_start_matches("\r\n");
    }
    text
}

/// Writes a file that only this user may read.
pub(crate) fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Fails the test if something takes too long.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends in time")
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let waited = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("in vain until {what}"));
}
