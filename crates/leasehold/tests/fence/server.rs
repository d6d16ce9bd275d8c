//! A Redis server of this test's own, ending with it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
    _dir: TempDir,
}

/// `None` when redis-server is not installed; a failure when it has to be.
pub(crate) fn start() -> Option<Arc<Server>> {
    // Another process may take the port between here and there; its answer has another pid.
    for _ in 0..5 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.arg("--port").arg(port.to_string()).arg("--dir").arg(dir.path());
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            let required = std::env::var("LEASEHOLD_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|name| name == "redis"), "no redis-server");
            eprintln!("redis-server is not installed: its tests are ignored");
            return None;
        };
        let server = Server { child, port, _dir: dir };
        if server.answers() {
            return Some(Arc::new(server));
        }
    }
    panic!("redis-server does not start");
}

impl Server {
    pub(crate) async fn connect(&self) -> MultiplexedConnection {
        let client = redis::Client::open(("127.0.0.1", self.port)).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    /// Waits until our child, and nobody else, answers on the port; for 5 s at most.
    fn answers(&self) -> bool {
        let client = redis::Client::open(("127.0.0.1", self.port)).unwrap();
        let ours = format!("process_id:{}\r\n", self.child.id());
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            let info = client.get_connection().and_then(|mut connection| {
                redis::cmd("INFO").arg("server").query::<String>(&mut connection)
            });
            match info {
                Ok(info) => return info.contains(&ours),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
