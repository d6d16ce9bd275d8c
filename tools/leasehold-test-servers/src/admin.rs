//! A blocking connection for the commands of the test itself, apart from the client under test.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::resp::{self, Value};

/// A server that is stopped must not hang its test.
const LIMIT: Duration = Duration::from_secs(10);

/// A connection to a server. Every call answers within ten seconds or fails with `WouldBlock`;
/// use a new connection then.
pub struct Admin {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("unread", &self.buffer.len()).finish_non_exhaustive()
    }
}

impl Admin {
    /// Connects over TCP, as the default user.
    ///
    /// # Errors
    /// What the system says.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: Box::new(stream), buffer: Vec::new() })
    }

    /// Connects to a unix socket, as the default user.
    ///
    /// # Errors
    /// What the system says.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self { stream: Box::new(stream), buffer: Vec::new() })
    }

    /// Sends a command and returns its reply; pushes before it are left out.
    ///
    /// # Errors
    /// The server's own error as `Other`, with its text; else what the connection says.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Value> {
        self.send(args)?;
        loop {
            match self.receive()? {
                Value::Push(_) => {}
                Value::Error(text) => return Err(io::Error::other(text)),
                value => return Ok(value),
            }
        }
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    /// What the connection says.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        self.stream.write_all(&resp::request(args))
    }

    /// The next reply or push.
    ///
    /// # Errors
    /// `UnexpectedEof` when the server has closed the connection; else what the connection says.
    pub fn receive(&mut self) -> io::Result<Value> {
        loop {
            if let Some((value, length)) = resp::frame(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(value);
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.buffer.extend_from_slice(&chunk[..length]),
            }
        }
    }

    /// Fails unless the server is the process `pid`: its `INFO` must say so.
    ///
    /// # Errors
    /// `PermissionDenied` for another process; else what the connection says.
    pub fn must_be(&mut self, pid: u32) -> io::Result<()> {
        let info = self.call(&["INFO", "server"])?.text();
        let said = info.lines().find_map(|line| line.strip_prefix("process_id:"));
        if said.and_then(|said| said.trim().parse().ok()) == Some(pid) {
            return Ok(());
        }
        let message = format!("the server is process {}, not ours, {pid}", said.unwrap_or("?"));
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }
}
