//! A connection as a program sees it: where frames are handed in, and who hears of what comes.

use std::{
    collections::VecDeque,
    fmt, io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tyr_wire::connection::{
    self, BODY_SIZE_MAX, Channel, Connection, FRAME_HEADER_SIZE, Frame, Header, Peer, Refusal, Unsent,
};

use crate::Settings;

/// What a program does with what comes. Called by the task of the connection, which waits meanwhile: nothing here may block.
pub trait Handler: Send + Sync + 'static {
    /// Both ends have agreed; frames can come from here on.
    fn opened(&self, _link: &Link, _peer: &Peer) {}

    /// A frame came.
    fn received(&self, link: &Link, frame: Received<'_>);

    /// The connection has ended, or an attempt to make one; with the peer if it had been opened. A dialer makes another one. Told once
    /// of each, whatever ended it, and then the link of a listener takes no more frames.
    fn closed(&self, _link: &Link, _peer: Option<&Peer>, _end: &End) {}

    /// A listener cannot take connections: too many files are open, for instance. It tries again, and tells it each time.
    fn unaccepted(&self, _error: &io::Error) {}
}

/// A frame that came.
#[derive(Debug)]
pub struct Received<'a> {
    /// Who sent it.
    pub peer: Peer,
    /// What it is.
    pub header: Header,
    /// What it says.
    pub body: &'a [u8],
    /// As long as this is kept, its bytes count as held here, and the peer sends no more than the window allows.
    pub receipt: Receipt,
}

/// Bytes of a frame that came and are still needed. Dropped, it lets the peer send as many.
#[derive(Debug)]
pub struct Receipt {
    header: Header,
    link: Link,
    generation: u64,
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let mut outbox = self.link.shared.outbox.lock();
        if outbox.generation == self.generation {
            outbox.consumed.push(self.header);
            drop(outbox);
            self.link.shared.stirred.notify_one();
        }
    }
}

/// Why a connection is no more.
#[derive(Debug)]
pub enum End {
    /// One of the two ends wanted it.
    Closed,
    /// It was not made, or broke.
    Lost(io::Error),
    /// The two ends do not understand one another.
    Failed(connection::Error),
    /// Nothing came for too long.
    Silent,
}

impl End {
    /// Whether the other end does not let this one in, or this one does not trust it, and will not as long as both are set up as they are.
    pub fn is_denial(&self) -> bool {
        match self {
            End::Failed(connection::Error::Refused(refusal)) => matches!(
                refusal,
                Refusal::Denied
                    | Refusal::ProofMissing
                    | Refusal::Expired
                    | Refusal::Revoked
                    | Refusal::Unproved
            ),
            // Of certificates; what the system does not permit, such as a firewall, it may permit in a while.
            End::Lost(error) => error.kind() == io::ErrorKind::PermissionDenied && error.get_ref().is_some(),
            End::Failed(_) | End::Closed | End::Silent => false,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Closed => f.write_str("it was closed"),
            End::Lost(error) => error.fmt(f),
            End::Failed(error) => error.fmt(f),
            End::Silent => f.write_str("nothing was heard for too long"),
        }
    }
}

/// A connection, or with a dialer the connections to one peer one after another. Cheap to clone; any thread may use it.
#[derive(Clone, Debug)]
pub struct Link {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    outbox: Mutex<Outbox>,
    /// Something is new in the outbox.
    stirred: Notify,
    /// From where the other end has dialed, if it has.
    remote: OnceLock<String>,
}

/// What the program wants, and the task has not seen yet.
#[derive(Debug)]
struct Outbox {
    frames: VecDeque<Frame>,
    consumed: Vec<Header>,
    is_closing: bool,
    /// How many connections there were before.
    generation: u64,
    /// Bytes of frames that are not written yet, here or with the task, on each channel.
    sizes: [usize; Channel::COUNT],
    size_max: usize,
    /// Frames that the task has and has not written yet.
    handed_over: u64,
    body_size_max: usize,
    dropped: u64,
    /// When something came last, while there is a connection.
    heard_at: Option<Instant>,
}

impl Link {
    pub(crate) fn new(settings: &Settings) -> Self {
        let outbox = Outbox {
            frames: VecDeque::new(),
            consumed: Vec::new(),
            is_closing: false,
            generation: 0,
            sizes: [0; Channel::COUNT],
            size_max: settings.outbox_size_max.min(connection::QUEUE_SIZE_MAX),
            handed_over: 0,
            body_size_max: BODY_SIZE_MAX,
            dropped: 0,
            heard_at: None,
        };
        Link {
            shared: Arc::new(Shared {
                outbox: Mutex::new(outbox),
                stirred: Notify::new(),
                remote: OnceLock::new(),
            }),
        }
    }

    /// Hands in a frame to be sent, in the order of its channel. One that does not fit is given back: a message between nodes can be
    /// dropped then, as the protocol says it again.
    pub fn send(&self, frame: Frame) -> Result<(), Unsent> {
        let mut outbox = self.shared.outbox.lock();
        let (channel, size) = (frame.channel().index(), frame.size());
        if outbox.is_closing {
            return Err(Unsent::NotOpen(frame));
        }
        if size - FRAME_HEADER_SIZE > outbox.body_size_max {
            return Err(Unsent::TooLarge(frame));
        }
        let size_before = outbox.sizes[channel];
        if size_before > 0 && size_before + size > outbox.size_max {
            return Err(Unsent::Full(frame));
        }
        outbox.sizes[channel] += size;
        outbox.frames.push_back(frame);
        drop(outbox);
        self.shared.stirred.notify_one();
        Ok(())
    }

    /// Ends the connection after what was handed in is sent. A dialer makes no other one.
    pub fn close(&self) {
        self.shared.outbox.lock().is_closing = true;
        self.shared.stirred.notify_one();
    }

    /// Whether two handles are of one link.
    pub fn is(&self, other: &Link) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Bytes of frames that are not written yet.
    pub fn waiting(&self) -> usize {
        self.shared.outbox.lock().sizes.iter().sum()
    }

    /// How many frames were taken and then dropped: with a connection that broke or a link that ended, or because the peer does not take
    /// as large ones.
    pub fn dropped(&self) -> u64 {
        self.shared.outbox.lock().dropped
    }

    /// For how long nothing has come; `None` as long as there is no connection. Whoever is there says something at least as often as it is
    /// [asked](Settings::ping_after).
    pub fn silence(&self) -> Option<Duration> {
        self.shared.outbox.lock().heard_at.map(|at| at.elapsed())
    }

    /// From where the other end has dialed, for people; `None` if this end has, or if it is not known.
    pub fn remote(&self) -> Option<&str> {
        self.shared.remote.get().map(String::as_str)
    }

    pub(crate) fn set_remote(&self, remote: String) {
        // There is one connection for each link of a listener.
        let _known = self.shared.remote.set(remote);
    }

    /// Something came.
    pub(crate) fn heard(&self, at: Instant) {
        self.shared.outbox.lock().heard_at = Some(at);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.shared.outbox.lock().is_closing
    }

    pub(crate) async fn stirred(&self) {
        self.shared.stirred.notified().await;
    }

    pub(crate) fn receipt(&self, header: Header) -> Receipt {
        let generation = self.shared.outbox.lock().generation;
        Receipt { header, link: self.clone(), generation }
    }

    /// Both have agreed: from here on the peer's limits are known.
    pub(crate) fn set_limits(&self, peer: &Peer) {
        let body_size_max = usize::try_from(peer.limits.body_size_max).unwrap_or(BODY_SIZE_MAX);
        let mut outbox = self.shared.outbox.lock();
        outbox.body_size_max = body_size_max;
        outbox.heard_at = Some(Instant::now());
    }

    /// Hands an open connection what has come to the outbox.
    pub(crate) fn hand_over(&self, connection: &mut Connection) {
        let mut outbox = self.shared.outbox.lock();
        outbox.consumed.drain(..).for_each(|header| connection.consume(&header));
        if !connection.is_open() {
            return;
        }
        for frame in std::mem::take(&mut outbox.frames) {
            let (channel, size) = (frame.channel().index(), frame.size());
            if connection.send(frame).is_ok() {
                outbox.handed_over += 1;
            } else {
                outbox.sizes[channel] -= size;
                outbox.dropped += 1;
            }
        }
        if outbox.is_closing {
            connection.close();
        }
    }

    /// A frame is written, and needs no room any more.
    pub(crate) fn written(&self, frame: &Frame) {
        let mut outbox = self.shared.outbox.lock();
        outbox.sizes[frame.channel().index()] -= frame.size();
        outbox.handed_over -= 1;
    }

    /// The connection is no more: what it had been handed is lost, and what came by it needs no credit.
    pub(crate) fn forget(&self) {
        self.shared.outbox.lock().forget();
    }

    /// There will be no connection any more, so that nobody sends what waits: it is lost, too, and nothing is taken from here on.
    pub(crate) fn finish(&self) {
        let mut outbox = self.shared.outbox.lock();
        outbox.is_closing = true;
        outbox.dropped += outbox.frames.len() as u64;
        outbox.frames.clear();
        outbox.forget();
    }
}

impl Outbox {
    fn forget(&mut self) {
        self.generation += 1;
        self.heard_at = None;
        self.dropped += std::mem::take(&mut self.handed_over);
        self.consumed.clear();
        self.sizes = [0; Channel::COUNT];
        self.frames.iter().for_each(|frame| self.sizes[frame.channel().index()] += frame.size());
    }
}
