//! A hatch: a Unix socket on which a program hands files to readers on its host, so that they read what lies there themselves.
//!
//! Who comes to a hatch is told whose it is, and then asks for files by name. It gets each as a descriptor that can only be read from.
//! `docs/wire-protocol.md` has the bytes.
//!
//! Invariants:
//!
//! - Files go only to processes of the user that this one runs as, and of the superuser: to those who could open them anyway.
//! - The number of connections is bounded; on each there is one descriptor under way at most, and none is kept here.

use std::{
    fs::{self, File},
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};

use crate::{listener::bind_unix, task::Task};

/// Whose hatch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HatchOwner {
    /// The cluster.
    pub cluster: u128,
    /// The node.
    pub node: u32,
}

/// Names a file at a hatch: which part of the program it is of, and which of its files.
pub type HatchFile = (u64, u64);

/// What is handed out at a hatch.
pub trait Files: Send + Sync + 'static {
    /// Whether who comes has to show a ticket first.
    fn demands_ticket(&self) -> bool {
        false
    }

    /// Opens a file to be read, if there is one of this name, and the ticket that was shown is good for it.
    fn open(&self, name: HatchFile, ticket: Option<u128>) -> Option<File>;
}

/// An open hatch. Dropped, it closes, and all connections end.
#[derive(Debug)]
pub struct Hatch {
    path: PathBuf,
    _task: Task,
}

/// A connection to a hatch. As long as it is open, what the files have is what was said of them.
#[derive(Debug)]
pub struct HatchReader {
    stream: UnixStream,
}

impl Hatch {
    /// Opens a hatch at a path, in the runtime that this is called in. One that nobody has open any more is replaced.
    pub fn open(path: &Path, owner: HatchOwner, files: Arc<dyn Files>) -> io::Result<Self> {
        let listener = bind_unix(path)?;
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let accepting = async move {
            let mut serving = tokio::task::JoinSet::new();
            loop {
                tokio::select! {
                    stream = accept(&listener) => {
                        // Who comes when there is no room is hung up on, and reads over the network.
                        if let Ok(room) = connections.clone().try_acquire_owned() {
                            let files = files.clone();
                            serving.spawn(async move {
                                let _room = room;
                                // Whoever hangs up wants nothing more.
                                let _ended = serve(stream, owner, files).await;
                            });
                        }
                    }
                    Some(_) = serving.join_next() => {}
                }
            }
        };
        Ok(Hatch { path: path.to_owned(), _task: Task::spawn(accepting) })
    }
}

impl Drop for Hatch {
    fn drop(&mut self) {
        // Whoever opens one there next replaces it anyway.
        let _ = fs::remove_file(&self.path);
    }
}

async fn accept(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn serve(mut stream: UnixStream, owner: HatchOwner, files: Arc<dyn Files>) -> io::Result<()> {
    if !is_entitled(&stream)? {
        return Ok(());
    }
    timeout(GREETING_MAX, stream.write_all(&greeting(owner))).await??;
    let mut name = [0; 16];
    let mut ticket = None;
    if files.demands_ticket() {
        timeout(GREETING_MAX, stream.read_exact(&mut name)).await??;
        ticket = Some(u128::from_le_bytes(name));
    }
    loop {
        stream.read_exact(&mut name).await?;
        let (part, number) = name.split_at(8);
        let number_of =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (name, files) = ((number_of(part), number_of(number)), files.clone());
        let file = tokio::task::spawn_blocking(move || files.open(name, ticket)).await.ok().flatten();
        timeout(GREETING_MAX, hand_out(&stream, file.as_ref())).await??;
    }
}

/// Whether the process at the other end could open the files itself.
fn is_entitled(stream: &UnixStream) -> io::Result<bool> {
    Ok(may_open(stream.peer_cred()?.uid(), rustix::process::geteuid().as_raw()))
}

/// Whether a user could open the files of another one.
fn may_open(user: u32, owner: u32) -> bool {
    user == 0 || user == owner
}

async fn hand_out(stream: &UnixStream, file: Option<&File>) -> io::Result<()> {
    let answer = [u8::from(file.is_some())];
    let descriptors: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(sendmsg(stream, &[IoSlice::new(&answer)], &mut control, flags)?)
    };
    stream.async_io(Interest::WRITABLE, send).await.map(drop)
}

impl HatchReader {
    /// Goes to a hatch, with a ticket if that is demanded there. Fails if it is another one's, or nobody's.
    pub async fn dial(path: &Path, owner: HatchOwner, ticket: Option<u128>) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path).await?;
        // Who else could have opened it may show anything there.
        if !is_entitled(&stream)? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut greeted = [0; GREETING_SIZE];
        timeout(GREETING_MAX, stream.read_exact(&mut greeted)).await??;
        if let Some(ticket) = ticket.filter(|_| greeted == greeting(owner)) {
            timeout(GREETING_MAX, stream.write_all(&ticket.to_le_bytes())).await??;
        }
        match greeted == greeting(owner) {
            true => Ok(HatchReader { stream }),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the hatch is another node's")),
        }
    }

    /// Asks for a file; `None` if there is none of this name.
    pub async fn fetch(&mut self, (part, number): HatchFile) -> io::Result<Option<File>> {
        let name = [part.to_le_bytes(), number.to_le_bytes()].concat();
        self.stream.write_all(&name).await?;
        let stream = &self.stream;
        let (is_there, descriptor) = stream.async_io(Interest::READABLE, || receive(stream)).await?;
        match (is_there, descriptor) {
            (true, Some(descriptor)) => Ok(Some(descriptor.into())),
            (false, None) => Ok(None),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a hatch said one thing and handed another")),
        }
    }

    /// Returns when the other end has hung up. Nothing comes that was not asked for.
    pub async fn ended(&self) {
        while self.stream.readable().await.is_ok() {
            // What was said to be readable may have been read before.
            match self.stream.try_read(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }
}

fn receive(stream: &UnixStream) -> io::Result<(bool, Option<OwnedFd>)> {
    let mut answer = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(stream, &mut [IoSliceMut::new(&mut answer)], &mut control, flags)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last();
        }
    }
    Ok((answer == [1], descriptor))
}

fn greeting(owner: HatchOwner) -> [u8; GREETING_SIZE] {
    let mut bytes = [0; GREETING_SIZE];
    bytes[..8].copy_from_slice(b"TyrHatch");
    bytes[8..24].copy_from_slice(&owner.cluster.to_le_bytes());
    bytes[24..].copy_from_slice(&owner.node.to_le_bytes());
    bytes
}

const GREETING_SIZE: usize = 28;
/// A program that does not go on within this time is hung up on.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// As many readers may be at a hatch.
const CONNECTIONS_MAX: usize = 1024;
/// After a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Fills a buffer from a file. With `Patience::None` false if some of it is not in memory, so that it would have to be waited for.
pub fn read_file(file: &File, position: u64, buffer: &mut [u8], patience: Patience) -> io::Result<bool> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    if patience == Patience::Any {
        std::os::unix::fs::FileExt::read_exact_at(file, buffer, position)?;
        return Ok(true);
    }
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut [IoSliceMut::new(&mut buffer[filled..])];
        match preadv2(file, rest, position + filled as u64, ReadWriteFlags::NOWAIT) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Whether a file is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Only what is in memory is read.
    None,
    /// As long as it takes.
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_files_and_the_superuser_may_open_them() {
        assert!(may_open(1000, 1000) && may_open(0, 1000) && may_open(0, 0));
        assert!(!may_open(1001, 1000) && !may_open(1000, 0));
        // What the kernel says of somebody whom this user namespace does not know.
        assert!(!may_open(65_534, 1000));
    }
}
