//! The task of one connection: moves bytes between a socket and the state machine until either has had enough.

use std::{collections::VecDeque, io, io::IoSlice};

use tokio::{
    io::Interest,
    time::{Instant, sleep_until, timeout},
};
use tyr_wire::connection::{Connection, Error, Event, Frame, Party, Peer, Refusal};

use crate::{Admission, Claim, Settings, attempt::Attempt, credential::Proof, link::End, stream::Stream};

/// A connection and its socket.
pub(crate) struct Running {
    stream: Stream,
    connection: Connection,
    attempt: Attempt,
    settings: Settings,
    /// Frames that are being written, and the bytes of the first that are.
    writing: VecDeque<Frame>,
    written: usize,
    began: Instant,
    /// Since when nothing has come.
    silent_since: Instant,
    has_pinged: bool,
    /// When bytes of frames for either program were read or written last, or when it was closed. Pings do not count: whoever has nothing
    /// else to say does not let anything be said to it either.
    moved_at: Instant,
    is_closing: bool,
}

/// As many frames are written by one call,
const BATCH: usize = 64;
/// and no more once there are as many bytes: a frame of another channel waits behind these.
const BATCH_SIZE: usize = 256 << 10;
/// How the first record of a dialer with TLS begins: its kind, and the first byte of its version.
const TLS_HANDSHAKE: [u8; 2] = [22, 3];
/// How an alert of TLS begins: its kind, and the first byte of its version.
const TLS_ALERT: [u8; 2] = [21, 3];
/// A peer that goes on sending to a connection that has said all is read so many times as long as a handshake may take.
const LINGERS_MAX: u32 = 10;
/// As many bytes are read by one call,
const READ_SIZE: usize = 64 << 10;
/// or so many if a large frame is coming.
const READ_SIZE_MAX: usize = 1 << 20;

impl Running {
    pub(crate) fn new(stream: Stream, connection: Connection, attempt: Attempt, settings: Settings) -> Self {
        let now = Instant::now();
        Running {
            stream,
            connection,
            attempt,
            settings,
            writing: VecDeque::new(),
            written: 0,
            began: now,
            silent_since: now,
            has_pinged: false,
            moved_at: now,
            is_closing: false,
        }
    }

    /// Runs it to its end, and says whether it was ever open.
    pub(crate) async fn run(mut self) -> bool {
        let end = match self.go().await {
            Ok(end) | Err(end) => end,
        };
        self.attempt.end(end);
        self.connection.peer().is_some()
    }

    async fn go(&mut self) -> Result<End, End> {
        loop {
            self.attempt.link().hand_over(&mut self.connection);
            if self.attempt.link().is_closing() && !self.is_closing {
                (self.is_closing, self.moved_at) = (true, Instant::now());
                if self.connection.peer().is_none() && !self.connection.refuse(Refusal::Stopping) {
                    return Ok(End::Closed);
                }
            }
            self.fill();
            if self.writing.is_empty() && self.connection.is_done() {
                return self.linger().await;
            }
            let interest = if self.writing.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            let deadline = self.deadline();
            tokio::select! {
                ready = self.stream.ready(interest) => {
                    let ready = ready.map_err(End::Lost)?;
                    if ready.is_writable() {
                        self.write()?;
                    }
                    if ready.is_readable() && let Some(end) = self.read()? {
                        return Ok(end);
                    }
                }
                () = self.attempt.link().stirred() => {}
                () = sleep_until(deadline) => self.wait_no_longer()?,
            }
        }
    }

    /// Takes the frames that may be written next.
    fn fill(&mut self) {
        let mut size: usize = self.writing.iter().map(Frame::size).sum();
        while self.writing.len() < BATCH
            && size <= BATCH_SIZE
            && let Some(frame) = self.connection.transmit()
        {
            size += frame.size();
            self.writing.push_back(frame);
        }
    }

    fn write(&mut self) -> Result<(), End> {
        let pieces = self.writing.iter().flat_map(Frame::pieces);
        let mut slices: Vec<IoSlice<'_>> = pieces.map(IoSlice::new).collect();
        let mut left = &mut slices[..];
        if left.is_empty() {
            return Ok(());
        }
        IoSlice::advance_slices(&mut left, self.written);
        let Some(count) = self.stream.write(left).map_err(End::Lost)? else { return Ok(()) };
        self.written += count;
        while let Some(frame) = self.writing.front().filter(|_| self.written > 0) {
            if frame.is_counted() {
                self.moved_at = Instant::now();
            }
            let Some(rest) = self.written.checked_sub(frame.size()) else { break };
            self.written = rest;
            if frame.is_counted() {
                self.attempt.link().written(frame);
            }
            self.writing.pop_front();
        }
        Ok(())
    }

    /// Reads what is there and gives it to the handler. Returns the end if that is it.
    fn read(&mut self) -> Result<Option<End>, End> {
        // What is left of a large frame comes at once, without being moved again and again. Before both have agreed, none is large.
        let size = self.connection.missing().clamp(READ_SIZE, READ_SIZE_MAX);
        let buffer = self.connection.buffer();
        buffer.reserve(size);
        match self.stream.read(buffer).map_err(End::Lost)? {
            None => return Ok(None),
            Some(0) => return Err(End::Lost(self.hung_up())),
            Some(_) => {}
        }
        (self.silent_since, self.has_pinged) = (Instant::now(), false);
        if self.connection.peer().is_some() {
            self.attempt.link().heard(self.silent_since);
        }
        if self.connection.peer().is_none() && !self.stream.is_secured() && is_tls(self.connection.buffer()) {
            return Err(End::Lost(not_here("the other end speaks TLS, which is not set up here")));
        }
        loop {
            match self.connection.poll() {
                Ok(None) => break,
                Ok(Some(Event::Challenged(said))) => {
                    let said = bound(&self.stream, said).map_err(End::Lost)?;
                    let proof = self.settings.credential.prove(&said).map_err(End::Lost)?;
                    let Some((proof, expected)) = proof else {
                        return Err(End::Failed(Error::Refused(Refusal::ProofMissing)));
                    };
                    self.connection.prove(&proof, &expected);
                }
                Ok(Some(Event::Proved(peer, said, body))) => {
                    let said = bound(&self.stream, said).map_err(End::Lost)?;
                    let (from, proof) = (self.stream.origin(), Proof { said: &said, body });
                    let claim = Claim { party: peer.party, from: &from, proof };
                    let is_admissible = is_admissible(&self.stream, &peer);
                    let judged = match &self.settings.porter {
                        Some(porter) if is_admissible => porter.judge(&claim),
                        _ => Err(Refusal::Denied),
                    };
                    match judged {
                        Ok(Admission { handler, proof }) => {
                            self.connection.admit(&proof);
                            self.attempt.hand_to(handler);
                            self.attempt.open(peer);
                        }
                        // It is told so, and that is how the connection ends.
                        Err(refusal) => drop(self.connection.refuse(refusal)),
                    }
                }
                Ok(Some(Event::Opened(peer))) => {
                    if !is_admissible(&self.stream, &peer) {
                        return Err(End::Failed(Error::Refused(Refusal::Denied)));
                    }
                    self.attempt.open(peer);
                }
                Ok(Some(Event::Received(header, body))) => {
                    self.moved_at = self.silent_since;
                    self.attempt.receive(header, body);
                }
                Ok(Some(Event::Closed)) => return Ok(Some(End::Closed)),
                Err(error) => {
                    // What a refusal says is short enough to fit an empty socket; whoever does not read it, reads nothing.
                    self.fill();
                    let _ = self.write();
                    return Err(End::Failed(error));
                }
            }
        }
        if !self.connection.buffer().is_empty() {
            // A part of a frame.
            self.moved_at = self.silent_since;
        }
        Ok(None)
    }

    /// When something has to happen though nothing comes.
    fn deadline(&self) -> Instant {
        let (since, patience) = match self.connection.peer() {
            None => (self.began, self.settings.handshake_timeout),
            Some(_) if self.is_closing => (self.moved_at, self.settings.silence_max),
            Some(_) if self.has_pinged => (self.silent_since, self.settings.silence_max),
            Some(_) => (self.silent_since, self.settings.ping_after),
        };
        since + patience
    }

    /// The other end has hung up; why, if that can be told.
    fn hung_up(&mut self) -> io::Error {
        let is_alert = self.connection.buffer().starts_with(&TLS_ALERT);
        if self.connection.peer().is_none() && is_alert && !self.stream.is_secured() {
            let reason = "the other end wants TLS, which is not set up here";
            return io::Error::new(io::ErrorKind::PermissionDenied, reason);
        }
        io::ErrorKind::UnexpectedEof.into()
    }

    fn wait_no_longer(&mut self) -> Result<(), End> {
        if self.connection.peer().is_none() || self.has_pinged || self.is_closing {
            return Err(End::Silent);
        }
        self.has_pinged = true;
        self.connection.ping();
        Ok(())
    }

    /// All is said. Waits until the other end has read it: a socket that is closed while something comes takes back what it has sent.
    /// As long as something comes, it reads, but not for ever, and for a stranger not longer than a handshake takes.
    async fn linger(&mut self) -> Result<End, End> {
        // What is encrypted and not sent yet waits for a peer that reads.
        let finished = timeout(self.settings.silence_max, self.stream.finish()).await;
        finished.map_err(|_| End::Silent)?.map_err(End::Lost)?;
        let patience = self.settings.handshake_timeout;
        let mut heard_at = Instant::now();
        let end = heard_at + if self.connection.peer().is_some() { patience * LINGERS_MAX } else { patience };
        let mut ignored = Vec::with_capacity(READ_SIZE);
        loop {
            tokio::select! {
                ready = self.stream.ready(Interest::READABLE) => drop(ready.map_err(End::Lost)?),
                () = sleep_until(end.min(heard_at + patience)) => return Ok(End::Closed),
            }
            ignored.clear();
            match self.stream.read(&mut ignored) {
                Ok(Some(0)) | Err(_) => return Ok(End::Closed),
                Ok(Some(_)) => heard_at = Instant::now(),
                Ok(None) => {}
            }
        }
    }
}

/// Only clients may be anonymous, if anybody.
fn is_admissible(stream: &Stream, peer: &Peer) -> bool {
    stream.is_trusted() || matches!(peer.party, Party::Client { .. })
}

/// What a proof is made for: what both ends have said, on this very connection.
fn bound(stream: &Stream, said: &[u8]) -> io::Result<Vec<u8>> {
    Ok([&stream.bound()?, said].concat())
}

/// Whether this is how a dialer with TLS begins. A frame has zeros where the second part of a version is here.
fn is_tls(bytes: &[u8]) -> bool {
    bytes.starts_with(&TLS_HANDSHAKE) && bytes.get(9..11) == Some(&[3, 3])
}

fn not_here(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
