//! The least of HTTP: one request in a connection of its own, for servers that are administered so.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// A server that is stopped must not hang its test.
const LIMIT: Duration = Duration::from_secs(10);

/// What a server on loopback has under this path.
///
/// # Errors
/// What the connection says.
pub(super) fn get(port: u16, path: &str) -> io::Result<String> {
    exchange(port, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"))
}

/// The body of the answer to a request with a JSON body, whatever its status; `token` is who asks.
///
/// # Errors
/// What the connection says.
pub(super) fn post(port: u16, path: &str, token: Option<&str>, body: &str) -> io::Result<String> {
    let token = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
    let length = body.len();
    exchange(
        port,
        &format!(
            "POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             {token}Content-Length: {length}\r\n\r\n{body}"
        ),
    )
}

fn exchange(port: u16, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    body.ok_or_else(|| io::Error::other("the server does not speak HTTP"))
}
