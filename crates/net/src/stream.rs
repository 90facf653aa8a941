//! A stream of bytes between two programs, whatever it goes over.

use std::io::{self, IoSlice};

use tokio::{
    io::{AsyncWriteExt, Interest, Ready},
    net::{TcpStream, UnixStream},
};

use crate::Address;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! each {
    ($self:ident, $stream:ident => $do:expr) => {
        match $self {
            Stream::Tcp($stream) => $do,
            Stream::Unix($stream) => $do,
        }
    };
}

impl Stream {
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(host) => Self::tcp(TcpStream::connect(host).await?),
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// Sends what is written at once: frames that wait for one another are written together already.
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Stream::Tcp(stream))
    }

    /// What a listener took that is not of the runtime.
    pub(crate) fn from_std_tcp(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Self::tcp(TcpStream::from_std(stream)?)
    }

    /// The same for a Unix socket.
    pub(crate) fn from_std_unix(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Stream::Unix(UnixStream::from_std(stream)?))
    }

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        each!(self, stream => stream.ready(interest).await)
    }

    /// Says that nothing more is written.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        each!(self, stream => stream.shutdown().await)
    }

    /// Appends what is there, at most what there is room for; `None` if nothing is. Zero bytes are the end.
    pub(crate) fn read(&self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        unless_blocked(each!(self, stream => stream.try_read_buf(buffer)))
    }

    /// Writes some of the bytes; `None` if none can be written now.
    pub(crate) fn write(&self, bytes: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        unless_blocked(each!(self, stream => stream.try_write_vectored(bytes)))
    }
}

fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
