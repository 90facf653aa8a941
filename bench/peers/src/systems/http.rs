//! Requests by HTTP over a connection, one after the other.

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::system::Outcome;

/// A connection to a server of this host.
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Connection {
    /// Connects.
    pub async fn open(port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), host: format!("127.0.0.1:{port}") })
    }

    /// Asks for something, and returns the body of the answer. Any status but one of success is a failure.
    pub async fn ask(&mut self, method: &str, target: &str, kind: &str, body: &[u8]) -> Outcome<Vec<u8>> {
        let (host, size) = (&self.host, body.len());
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"
        );
        let mut request = head.into_bytes();
        // Small bodies go with the head.
        let with_head = if size <= SMALL { size } else { 0 };
        request.extend_from_slice(&body[..with_head]);
        self.stream.write_all(&request).await?;
        self.stream.write_all(&body[with_head..]).await?;
        let (status, body) = self.answer().await?;
        if !status.starts_with('2') {
            let path = target.split('?').next().unwrap_or_default();
            return Err(format!("{status} to {method} {path}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(body)
    }

    /// The status and the body of an answer.
    async fn answer(&mut self) -> Outcome<(String, Vec<u8>)> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut size, mut is_chunked) = (0, false);
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                size = value.trim().parse()?;
            }
            is_chunked |= line.starts_with("transfer-encoding:") && line.ends_with("chunked");
        }
        let mut body = Vec::new();
        if !is_chunked {
            self.take(size, &mut body).await?;
            return Ok((status, body));
        }
        loop {
            let size = usize::from_str_radix(&self.line().await?, 16)?;
            self.take(size, &mut body).await?;
            self.line().await?;
            if size == 0 {
                return Ok((status, body));
            }
        }
    }

    async fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err("the server has closed a connection".into());
        }
        Ok(line.trim_end().to_owned())
    }

    async fn take(&mut self, size: usize, body: &mut Vec<u8>) -> Outcome<()> {
        let start = body.len();
        body.resize(start + size, 0);
        self.stream.read_exact(&mut body[start..]).await?;
        Ok(())
    }
}

/// Bodies of so many bytes at the most are copied to be sent with what comes before them.
const SMALL: usize = 16 << 10;
