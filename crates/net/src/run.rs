//! The task of one connection: moves bytes between a socket and the state machine until either has had enough.

use std::{collections::VecDeque, io, io::IoSlice, sync::Arc};

use tokio::{
    io::Interest,
    time::{Instant, sleep_until},
};
use tyr_wire::connection::{Connection, Event, Frame, Peer};

use crate::{
    Settings,
    link::{End, Handler, Link, Received},
    stream::Stream,
};

/// A connection and its socket.
pub(crate) struct Running<'a> {
    stream: Stream,
    connection: Connection,
    link: &'a Link,
    handler: &'a Arc<dyn Handler>,
    settings: &'a Settings,
    /// Frames that are being written, and the bytes of the first that are.
    writing: VecDeque<Frame>,
    written: usize,
    began: Instant,
    /// Since when nothing has come.
    silent_since: Instant,
    has_pinged: bool,
    /// Since when it is to be closed.
    closing_since: Option<Instant>,
}

/// As many frames are written by one call.
const BATCH: usize = 64;
/// As many bytes are read by one call.
const READ_SIZE: usize = 64 << 10;

impl<'a> Running<'a> {
    pub(crate) fn new(
        stream: Stream,
        connection: Connection,
        link: &'a Link,
        handler: &'a Arc<dyn Handler>,
        settings: &'a Settings,
    ) -> Self {
        Running {
            stream,
            connection,
            link,
            handler,
            settings,
            writing: VecDeque::new(),
            written: 0,
            began: Instant::now(),
            silent_since: Instant::now(),
            has_pinged: false,
            closing_since: None,
        }
    }

    /// Runs it to its end, tells the handler of that, and says whether it was ever open.
    pub(crate) async fn run(mut self) -> bool {
        let end = match self.go().await {
            Ok(end) | Err(end) => end,
        };
        let peer = self.connection.peer().copied();
        let lost =
            self.writing.iter().filter(|frame| frame.is_counted()).count() + self.connection.queued_count();
        self.link.forget(lost as u64);
        self.handler.closed(self.link, peer.as_ref(), &end);
        peer.is_some()
    }

    async fn go(&mut self) -> Result<End, End> {
        loop {
            self.link.hand_over(&mut self.connection);
            if self.link.is_closing() {
                if self.connection.peer().is_none() {
                    return Ok(End::Closed);
                }
                self.closing_since.get_or_insert_with(Instant::now);
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
                () = self.link.stirred() => {}
                () = sleep_until(self.deadline()) => self.wait_no_longer()?,
            }
        }
    }

    /// Takes the frames that may be written next.
    fn fill(&mut self) {
        while self.writing.len() < BATCH
            && let Some(frame) = self.connection.transmit()
        {
            self.writing.push_back(frame);
        }
    }

    fn write(&mut self) -> Result<(), End> {
        let mut slices: Vec<IoSlice<'_>> =
            self.writing.iter().map(|frame| IoSlice::new(frame.bytes())).collect();
        let Some(first) = slices.first_mut() else { return Ok(()) };
        first.advance(self.written);
        let Some(count) = self.stream.write(&slices).map_err(End::Lost)? else { return Ok(()) };
        self.written += count;
        while let Some(size) =
            self.writing.front().map(|frame| frame.bytes().len()).filter(|size| *size <= self.written)
        {
            self.written -= size;
            if self.writing.pop_front().is_some_and(|frame| frame.is_counted()) {
                self.link.written(size);
            }
        }
        Ok(())
    }

    /// Reads what is there and gives it to the handler. Returns the end if that is it.
    fn read(&mut self) -> Result<Option<End>, End> {
        let buffer = self.connection.buffer();
        buffer.reserve(READ_SIZE);
        match self.stream.read(buffer).map_err(End::Lost)? {
            None => return Ok(None),
            Some(0) => return Err(End::Lost(io::ErrorKind::UnexpectedEof.into())),
            Some(_) => {}
        }
        (self.silent_since, self.has_pinged) = (Instant::now(), false);
        let mut peer = self.connection.peer().copied();
        loop {
            match self.connection.poll() {
                Ok(None) => return Ok(None),
                Ok(Some(Event::Opened(opened))) => {
                    self.open(&opened);
                    peer = Some(opened);
                }
                Ok(Some(Event::Received(header, body))) => {
                    let peer = peer.expect("nothing is received before both have agreed");
                    let receipt = self.link.receipt(header);
                    self.handler.received(self.link, Received { peer, header, body, receipt });
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
    }

    fn open(&self, peer: &Peer) {
        self.link.set_limits(peer);
        self.handler.opened(self.link, peer);
    }

    /// When something has to happen though nothing comes.
    fn deadline(&self) -> Instant {
        let (since, patience) = match (self.connection.peer(), self.closing_since) {
            (None, _) => (self.began, self.settings.handshake_timeout),
            (Some(_), Some(since)) => (since, self.settings.silence_max),
            (Some(_), None) if self.has_pinged => (self.silent_since, self.settings.silence_max),
            (Some(_), None) => (self.silent_since, self.settings.ping_after),
        };
        since + patience
    }

    fn wait_no_longer(&mut self) -> Result<(), End> {
        if self.connection.peer().is_none() || self.has_pinged || self.closing_since.is_some() {
            return Err(End::Silent);
        }
        self.has_pinged = true;
        self.connection.ping();
        Ok(())
    }

    /// All is said. Waits until the other end has read it: a socket that is closed while something comes takes back what it has sent.
    async fn linger(&mut self) -> Result<End, End> {
        self.stream.finish().await.map_err(End::Lost)?;
        let deadline = Instant::now() + self.settings.handshake_timeout;
        let mut ignored = Vec::with_capacity(READ_SIZE);
        loop {
            tokio::select! {
                ready = self.stream.ready(Interest::READABLE) => drop(ready.map_err(End::Lost)?),
                () = sleep_until(deadline) => return Ok(End::Closed),
            }
            ignored.clear();
            match self.stream.read(&mut ignored) {
                Ok(Some(0)) | Err(_) => return Ok(End::Closed),
                Ok(_) => {}
            }
        }
    }
}
