//! The least client of HTTP that keeps its connection open.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::Result;

/// The token of the clients.
pub(super) const TOKEN: &str = "token-of-the-benchmark-0123456789";

/// A connection, for one request after the other.
#[derive(Debug)]
pub(super) struct Connection {
    address: String,
    stream: BufReader<TcpStream>,
    /// The rest of the response has chunks.
    is_chunked: bool,
}

impl Connection {
    pub(super) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (address, stream) = (address.to_owned(), BufReader::new(stream));
        Ok(Self { address, stream, is_chunked: false })
    }

    /// Sends a request, and returns the length of the body; 0 if it has chunks.
    async fn send(&mut self, line: &str) -> Result<usize> {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nX-Leasehold: 1\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Length: 0\r\n\r\n",
            self.address
        );
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let status = self.text_line().await?;
        if !status.starts_with("HTTP/1.1 2") {
            return Err(format!("{line}: {status}").into());
        }
        let mut length = 0;
        self.is_chunked = false;
        loop {
            let head = self.text_line().await?.to_ascii_lowercase();
            if head.is_empty() {
                return Ok(length);
            }
            if let Some(value) = head.strip_prefix("content-length: ") {
                length = value.parse()?;
            }
            self.is_chunked |= head == "transfer-encoding: chunked";
        }
    }

    async fn text_line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err("the server has closed the connection".into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Sends a request, and returns the whole body.
    pub(super) async fn whole(&mut self, line: &str) -> Result<Vec<u8>> {
        let length = self.send(line).await?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        while self.is_chunked {
            let chunk = self.chunk().await?;
            self.is_chunked = !chunk.is_empty();
            body.extend(chunk);
        }
        Ok(body)
    }

    /// Sends a request, and returns the body as JSON.
    pub(super) async fn json(&mut self, line: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.whole(line).await?)?)
    }

    /// Sends a request whose response goes on.
    pub(super) async fn stream(&mut self, line: &str) -> Result<()> {
        self.send(line).await.map(|_| ())
    }

    /// Returns the next chunk of a stream; an empty one is its end.
    pub(super) async fn chunk(&mut self) -> Result<Vec<u8>> {
        let size = usize::from_str_radix(&self.text_line().await?, 16)?;
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).await?;
        chunk.truncate(size);
        Ok(chunk)
    }

    /// Reads the stream until a line has this key, and returns what is below it.
    pub(super) async fn until(&mut self, key: &str) -> Result<Value> {
        loop {
            let chunk = self.chunk().await?;
            if chunk.is_empty() {
                return Err(format!("the stream has ended before {key:?}").into());
            }
            for line in chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let mut line: Value = serde_json::from_slice(line)?;
                if line.get(key).is_some() {
                    return Ok(line[key].take());
                }
            }
        }
    }

    /// Reads the stream to its end.
    pub(super) async fn end(&mut self) -> Result<()> {
        while !self.chunk().await?.is_empty() {}
        Ok(())
    }
}
