//! A stream of bytes between two programs, whatever it goes over.

use std::io::{self, IoSlice};

use tokio::{
    io::{AsyncWriteExt, Interest, Ready},
    net::{TcpStream, UnixStream},
};

use crate::{
    Address,
    tls::{Secured, Tls},
};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Secured(Secured),
    Unix(UnixStream),
}

macro_rules! each {
    ($self:ident, $stream:ident => $do:expr, $secured:expr) => {
        match $self {
            Stream::Tcp($stream) => $do,
            Stream::Secured($stream) => $secured,
            Stream::Unix($stream) => $do,
        }
    };
}

/// What a listener took, which is of no runtime yet.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Accepted {
    /// From where it was dialed, for people.
    pub(crate) fn remote(&self) -> Option<String> {
        match self {
            Accepted::Tcp(stream) => Some(stream.peer_addr().ok()?.to_string()),
            Accepted::Unix(stream) => {
                let who = rustix::net::sockopt::socket_peercred(stream).ok()?;
                Some(format!("process {} on the node's host", who.pid.as_raw_nonzero()))
            }
        }
    }

    /// Makes it one of the runtime that this is called in.
    pub(crate) fn settle(self) -> io::Result<Stream> {
        match self {
            Accepted::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Stream::tcp(TcpStream::from_std(stream)?)
            }
            Accepted::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(UnixStream::from_std(stream)?))
            }
        }
    }
}

impl Stream {
    pub(crate) async fn connect(address: &Address, tls: Option<&Tls>) -> io::Result<Self> {
        match address {
            Address::Tcp(to) => match (Self::tcp(TcpStream::connect(to).await?)?, tls, address.host()) {
                (Stream::Tcp(tcp), Some(tls), Some(host)) => Ok(Stream::Secured(tls.dial(tcp, host)?)),
                (stream, ..) => Ok(stream),
            },
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// Sends what is written at once: frames that wait for one another are written together already.
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Stream::Tcp(stream))
    }

    /// The end of a listener, encrypted if that is wanted.
    pub(crate) fn listen(self, tls: Option<&Tls>) -> io::Result<Self> {
        match (self, tls) {
            (Stream::Tcp(tcp), Some(tls)) => Ok(Stream::Secured(tls.listen(tcp)?)),
            (stream, _) => Ok(stream),
        }
    }

    /// Whether the other end has proved who it is, or need not.
    pub(crate) fn is_trusted(&self) -> bool {
        match self {
            Stream::Secured(secured) => secured.is_known(),
            Stream::Tcp(_) | Stream::Unix(_) => true,
        }
    }

    /// Where the other end is, for people.
    pub(crate) fn origin(&self) -> String {
        let tcp = match self {
            Stream::Tcp(tcp) => tcp.peer_addr(),
            Stream::Secured(secured) => secured.peer_address(),
            Stream::Unix(unix) => {
                let user = unix.peer_cred().map_or_else(|_| "?".to_owned(), |peer| peer.uid().to_string());
                return format!("user {user} of this host");
            }
        };
        tcp.map_or_else(|_| "unknown".to_owned(), |address| address.to_string())
    }

    /// Bytes that only the two ends of an encrypted connection know, once they have agreed; zeros if it is not encrypted.
    pub(crate) fn bound(&self) -> io::Result<[u8; 32]> {
        match self {
            Stream::Secured(secured) => secured.bound(),
            Stream::Tcp(_) | Stream::Unix(_) => Ok([0; 32]),
        }
    }

    /// Whether it is encrypted.
    pub(crate) fn is_secured(&self) -> bool {
        matches!(self, Stream::Secured(_))
    }

    pub(crate) async fn ready(&mut self, interest: Interest) -> io::Result<Ready> {
        each!(self, stream => stream.ready(interest).await, stream.ready(interest).await)
    }

    /// Says that nothing more is written.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        each!(self, stream => stream.shutdown().await, stream.finish().await)
    }

    /// Appends what is there, at most what there is room for; `None` if nothing is. Zero bytes are the end.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        each!(self, stream => unless_blocked(stream.try_read_buf(buffer)), stream.read(buffer))
    }

    /// Writes some of the bytes; `None` if none can be written now.
    pub(crate) fn write(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        each!(self, stream => unless_blocked(stream.try_write_vectored(bytes)), stream.write(bytes))
    }
}

fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
