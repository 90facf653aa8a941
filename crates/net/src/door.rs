//! A connection over which something else than frames is spoken: HTTP.
//!
//! Whoever begins with TLS is answered with it, if there is a certificate; whoever does not is heard as he speaks. What is told to whom is
//! decided by who uses this.

use std::io::{self, IoSlice};

use tokio::{io::Interest, net::TcpStream};

use crate::{stream::Stream, tls::Tls};

/// A connection that was taken.
#[derive(Debug)]
pub struct Door {
    stream: Stream,
    is_local: bool,
}

impl Door {
    /// Hears how the other end begins, and goes along.
    pub async fn open(tcp: TcpStream, tls: Option<&Tls>) -> io::Result<Self> {
        let is_local = tcp.peer_addr()?.ip().to_canonical().is_loopback();
        let mut first = [0];
        let begins_tls = tcp.peek(&mut first).await? == 1 && first[0] == HANDSHAKE;
        let stream = match tls.filter(|tls| begins_tls && tls.can_listen()) {
            Some(tls) => Stream::Secured(tls.browsed(tcp)?),
            None => Stream::Tcp(tcp),
        };
        Ok(Door { stream, is_local })
    }

    /// Where the other end is, for people.
    pub fn from(&self) -> String {
        self.stream.origin()
    }

    /// Whether it is encrypted.
    pub fn is_secured(&self) -> bool {
        self.stream.is_secured()
    }

    /// Whether nobody but the two ends and their machines hears what is said.
    pub fn is_private(&self) -> bool {
        self.is_local || self.is_secured()
    }

    /// Waits for bytes, and appends them; zero at the end.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            self.stream.ready(Interest::READABLE).await?;
            buffer.reserve(READ_SIZE);
            if let Some(count) = self.stream.read(buffer)? {
                return Ok(count);
            }
        }
    }

    /// Writes all bytes, and says that nothing more comes.
    pub async fn answer(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let mut unheard = Vec::with_capacity(READ_SIZE);
        while !bytes.is_empty() {
            self.stream.ready(Interest::WRITABLE).await?;
            match self.stream.write(&[IoSlice::new(bytes)])? {
                Some(count) => bytes = &bytes[count..],
                // What else the other end says is in the way of waiting.
                None => {
                    unheard.clear();
                    let _ended = self.stream.read(&mut unheard)?;
                }
            }
        }
        self.stream.finish().await
    }
}

/// How TLS begins: the type of a record (RFC 8446, 5.1). No method of HTTP does.
const HANDSHAKE: u8 = 22;
/// There is room for as many bytes at once.
const READ_SIZE: usize = 4096;
