//! One connection between two programs as a state machine: bytes in, frames out, and the other way round. No socket, no clock.
//!
//! The dialer says hello, the listener welcomes or refuses it; then both send frames on channels, as far as the other's credit goes.
//! `docs/wire-protocol.md` has the bytes.
//!
//! Invariants:
//!
//! - Nothing is given to the program before both have agreed, and nothing that is damaged, too large, or beyond its credit.
//! - Whatever bytes come, memory is bounded: by one frame that is not complete, and for each channel by its window and its queue.
//! - Frames of one channel arrive in the order in which they were sent. Frames of different channels may overtake one another, and have
//!   neither credit nor a queue in common, so that a channel whose receiver is slow holds up no other one.
//! - After an error nothing more is received; what a refusal or a farewell says can still be sent.
//!
//! Frames are neither numbered nor acknowledged: what is lost with a connection is said again by whoever needs it.

mod credit;
mod frame;
mod handshake;
#[cfg(test)]
mod tests;

use alloc::{collections::VecDeque, vec::Vec};
use core::{fmt, ops::Range};

pub use frame::{BODY_SIZE_MAX, Channel, FRAME_HEADER_SIZE, Frame, Header, Inset, Kind};
pub use handshake::{Introduction, Limits, NONCE_SIZE, Party, Peer, Refusal, VERSIONS};

use crate::{Malformed, Reader};
use credit::{Allowed, Granted};
use handshake::PROVED_SINCE;

/// An end of a connection.
#[derive(Debug)]
pub struct Connection {
    me: Introduction,
    phase: Phase,
    peer: Option<Peer>,
    /// What came; up to `start` it has been dealt with.
    buffer: Vec<u8>,
    start: usize,
    granted: [Granted; Channel::COUNT],
    allowed: [Allowed; Channel::COUNT],
    /// Frames of the connection itself, which need no credit.
    control: VecDeque<Frame>,
    queues: [Queue; Channel::COUNT],
    /// The channel whose turn it is.
    turn: usize,
    proving: Proving,
}

/// What both ends have to prove, and to one another have said of that.
#[derive(Debug, Default)]
struct Proving {
    /// Of a listener that demands a proof: the random bytes for it.
    nonce: Option<[u8; NONCE_SIZE]>,
    /// Of a dialer: it talks to nobody who demands none.
    is_insistent: bool,
    /// The bodies of hello and challenge.
    said: Vec<u8>,
    /// Of a dialer: what the listener has to prove.
    expected: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// A listener waits for the dialer's hello.
    Listening,
    /// A listener waits for the dialer's proof,
    Challenging(Peer),
    /// and for the program to judge it.
    Judging(Peer),
    /// A dialer waits for the listener's welcome.
    Dialing,
    /// A dialer is to prove who it is, or has done so.
    Proving,
    Open,
    /// This end has said that nothing more comes.
    Closing,
    /// The other end has.
    Closed,
    Failed(Error),
}

/// Why a connection cannot go on. It is to be closed, and dialed anew where that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The other end speaks something else.
    NotTyr,
    /// The listener does not talk to this dialer, or the dialer not to this listener.
    Refused(Refusal),
    /// A frame is not what was sent.
    Damaged,
    /// A frame is larger than was agreed on.
    FrameTooLarge,
    /// A frame is of a kind or on a channel that the version does not have.
    UnknownFrame,
    /// A frame is not in its place, such as a second hello.
    OutOfTurn,
    /// More was sent than the credit allows.
    CreditExceeded,
    /// More credit was granted than there can be.
    CreditOutOfBounds,
    /// The body of a frame of the connection is not what it should be.
    Malformed(Malformed),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::NotTyr => "the other end does not speak Týr's protocol; check the address and port",
            Error::Refused(refusal) => return refusal.fmt(f),
            Error::Damaged => "a frame was damaged on its way",
            Error::FrameTooLarge => "a frame is larger than was agreed on",
            Error::UnknownFrame => "a frame is of an unknown kind",
            Error::OutOfTurn => "a frame came out of turn",
            Error::CreditExceeded => "more was sent than the credit allows",
            Error::CreditOutOfBounds => "more credit was granted than there can be",
            Error::Malformed(malformed) => return malformed.fmt(f),
        })
    }
}

impl core::error::Error for Error {}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Error::Malformed(malformed)
    }
}

/// What bytes that came amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The listener demands a proof for these bytes: the program [gives it](Connection::prove), or gives up.
    Challenged(&'a [u8]),
    /// The dialer gives a proof: who it says to be, for which bytes, and the proof. The program [admits](Connection::admit) or
    /// [refuses](Connection::refuse) it before anything else.
    Proved(Peer, &'a [u8], &'a [u8]),
    /// Both have agreed.
    Opened(Peer),
    /// A frame for the program, which calls [`Connection::consume`] with its header when it needs its bytes no more.
    Received(Header, &'a [u8]),
    /// The other end has nothing more to say.
    Closed,
}

/// A frame was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The queue is full: drop it, or try again later.
    Full(Frame),
    /// It is larger than the other end takes.
    TooLarge(Frame),
    /// The connection is not open, or no more.
    NotOpen(Frame),
}

/// Frames of a channel that wait for credit, and their bytes.
#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Frame>,
    size: usize,
}

/// As many bytes wait for credit on each channel of a connection; a single frame may be larger.
pub const QUEUE_SIZE_MAX: usize = 64 << 20;

impl Connection {
    /// The end that dials. Its hello waits to be sent.
    pub fn dial(me: Introduction) -> Self {
        let hello = handshake::hello(&me);
        let mut connection = Self::new(me, Phase::Dialing);
        connection.proving.said.extend_from_slice(&hello.body());
        connection.control.push_back(hello);
        connection
    }

    /// The end that was dialed.
    pub fn listen(me: Introduction) -> Self {
        Self::new(me, Phase::Listening)
    }

    fn new(me: Introduction, phase: Phase) -> Self {
        debug_assert!(me.limits.are_sound(), "a window has room for two frames of the largest size");
        Connection {
            granted: [Granted::new(me.limits.window); Channel::COUNT],
            me,
            phase,
            peer: None,
            buffer: Vec::new(),
            start: 0,
            allowed: [Allowed::default(); Channel::COUNT],
            control: VecDeque::new(),
            queues: Default::default(),
            turn: 0,
            proving: Proving::default(),
        }
    }

    /// Of a listener that has heard nothing yet: whoever dials has to prove who it is, for these random bytes.
    pub fn demand_proof(&mut self, nonce: [u8; NONCE_SIZE]) {
        self.proving.nonce = Some(nonce);
    }

    /// Of a dialer that has heard nothing yet: who demands no proof is not talked to.
    pub fn insist(&mut self) {
        self.proving.is_insistent = true;
    }

    /// Of a dialer that was challenged: its proof, and the one that the listener has to give in its turn; empty for none.
    pub fn prove(&mut self, proof: &[u8], expected: &[u8]) {
        if self.phase == Phase::Proving {
            self.proving.expected = expected.to_vec();
            self.control.push_back(Frame::control(Kind::Proof, Channel::default(), proof));
        }
    }

    /// Of a listener that was given a proof which holds: its own, if it was asked for one.
    pub fn admit(&mut self, proof: &[u8]) {
        if let Phase::Judging(peer) = self.phase {
            self.control.push_back(handshake::welcome(&self.me, peer.version, proof));
            self.has_opened(peer);
        }
    }

    /// Who is at the other end, once both have agreed.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Whether frames may be sent.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Bytes that are held for the program or wait for credit.
    pub fn held(&self) -> u64 {
        let queued: usize = self.queues.iter().map(|queue| queue.size).sum();
        queued as u64 + self.granted.iter().map(Granted::held).sum::<u64>()
    }
}

// What comes.
impl Connection {
    /// Where bytes that come are to be appended. [`Connection::poll`] before the next ones are.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.drain(..self.start);
        self.start = 0;
        &mut self.buffer
    }

    /// How many bytes are missing of the frame that has begun to come, as far as can be said. One that is too large is never waited for:
    /// before both have agreed, that is any that is longer than a greeting.
    pub fn missing(&self) -> usize {
        let bytes = &self.buffer[self.start..];
        let size =
            Header::claimed_size(bytes).filter(|size| *size <= FRAME_HEADER_SIZE + self.body_size_max());
        size.map_or(0, |size| size.saturating_sub(bytes.len()))
    }

    /// Takes bytes that came.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer().extend_from_slice(bytes);
    }

    /// The next thing that the bytes which came amount to; `None` if more must come first.
    pub fn poll(&mut self) -> Result<Option<Event<'_>>, Error> {
        match self.advance() {
            Ok(None) => Ok(None),
            Ok(Some(Step::Challenged)) => Ok(Some(Event::Challenged(&self.proving.said))),
            Ok(Some(Step::Proved(peer, body))) => {
                Ok(Some(Event::Proved(peer, &self.proving.said, &self.buffer[body])))
            }
            Ok(Some(Step::Opened(peer))) => Ok(Some(Event::Opened(peer))),
            Ok(Some(Step::Received(header, body))) => Ok(Some(Event::Received(header, &self.buffer[body]))),
            Ok(Some(Step::Closed)) => Ok(Some(Event::Closed)),
            Err(error) => {
                self.phase = Phase::Failed(error.clone());
                self.queues = Default::default();
                self.buffer = Vec::new();
                self.start = 0;
                Err(error)
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Step>, Error> {
        loop {
            match &self.phase {
                Phase::Failed(error) => return Err(error.clone()),
                Phase::Closed => {
                    self.start = self.buffer.len();
                    return Ok(None);
                }
                Phase::Listening
                | Phase::Challenging(_)
                | Phase::Judging(_)
                | Phase::Dialing
                | Phase::Proving
                | Phase::Open
                | Phase::Closing => {}
            }
            let Some((header, _)) = Header::parse(&self.buffer[self.start..], self.body_size_max())? else {
                return Ok(None);
            };
            let body = self.start + FRAME_HEADER_SIZE..self.start + header.frame_size();
            self.start = body.end;
            if let Some(step) = self.take(header, body)? {
                return Ok(Some(step));
            }
        }
    }

    /// How large the body of the next frame may be.
    fn body_size_max(&self) -> usize {
        match self.phase {
            Phase::Listening
            | Phase::Challenging(_)
            | Phase::Judging(_)
            | Phase::Dialing
            | Phase::Proving => handshake::HANDSHAKE_SIZE_MAX,
            Phase::Open | Phase::Closing => {
                usize::try_from(self.me.limits.body_size_max).unwrap_or(BODY_SIZE_MAX)
            }
            Phase::Closed | Phase::Failed(_) => 0,
        }
    }

    fn take(&mut self, header: Header, body: Range<usize>) -> Result<Option<Step>, Error> {
        let is_agreed = matches!(self.phase, Phase::Open | Phase::Closing);
        let bytes = &self.buffer[body.clone()];
        match (&self.phase, header.kind) {
            (Phase::Listening, Kind::Hello) => match handshake::judge_hello(&self.me, bytes)? {
                Ok(peer) => match self.proving.nonce {
                    None => {
                        self.control.push_back(handshake::welcome(&self.me, peer.version, &[]));
                        return Ok(Some(self.open(peer)));
                    }
                    Some(_) if peer.version < PROVED_SINCE => {
                        // It would not understand another reason.
                        self.control.push_back(handshake::refused(&self.me, &Refusal::Denied));
                        return Err(Error::Refused(Refusal::ProofMissing));
                    }
                    Some(nonce) => {
                        let challenge = handshake::challenge(&self.me, peer.version, &nonce);
                        self.proving.said = [bytes, &challenge.body()].concat();
                        self.control.push_back(challenge);
                        self.phase = Phase::Challenging(peer);
                    }
                },
                Err(refusal) => {
                    self.control.push_back(handshake::refused(&self.me, &refusal));
                    return Err(Error::Refused(refusal));
                }
            },
            (Phase::Challenging(peer), Kind::Proof) => {
                let peer = *peer;
                self.phase = Phase::Judging(peer);
                return Ok(Some(Step::Proved(peer, body)));
            }
            (Phase::Dialing, Kind::Challenge) => {
                handshake::judge_challenge(&self.me, bytes)?;
                self.proving.said.extend_from_slice(bytes);
                self.phase = Phase::Proving;
                return Ok(Some(Step::Challenged));
            }
            (Phase::Dialing | Phase::Proving, Kind::Welcome) => {
                let (peer, proof) = handshake::judge_welcome(&self.me, bytes)?;
                let was_challenged = self.phase == Phase::Proving;
                if proof != self.proving.expected || (self.proving.is_insistent && !was_challenged) {
                    return Err(Error::Refused(Refusal::Unproved));
                }
                return Ok(Some(self.open(peer)));
            }
            (Phase::Dialing | Phase::Proving, Kind::Refused) => {
                return Err(Error::Refused(handshake::read_refusal(bytes)?));
            }
            (_, Kind::Credit) if is_agreed => {
                let mut reader = Reader::new(bytes);
                let total = reader.u64()?;
                reader.finish()?;
                self.allowed[header.channel.index()].raise(total)?;
            }
            (_, Kind::Ping) if is_agreed && bytes.is_empty() => {
                // One answer to many questions, so that they cannot fill memory.
                if self.control.len() < CONTROL_MAX {
                    self.control.push_back(Frame::control(Kind::Pong, Channel::default(), &[]));
                }
            }
            (_, Kind::Pong) if is_agreed && bytes.is_empty() => {}
            (_, Kind::Close) if is_agreed && bytes.is_empty() => {
                self.phase = Phase::Closed;
                return Ok(Some(Step::Closed));
            }
            (_, kind) if is_agreed && kind.is_counted() => {
                self.granted[header.channel.index()].receive(header.frame_size())?;
                return Ok(Some(Step::Received(header, body)));
            }
            _ => return Err(Error::OutOfTurn),
        }
        Ok(None)
    }

    fn open(&mut self, peer: Peer) -> Step {
        self.has_opened(peer);
        Step::Opened(peer)
    }

    fn has_opened(&mut self, peer: Peer) {
        self.phase = Phase::Open;
        self.peer = Some(peer);
        self.allowed = [Allowed::new(peer.limits.window); Channel::COUNT];
        self.proving = Proving::default();
    }

    /// The program needs the bytes of a frame no more: the other end may send as many.
    pub fn consume(&mut self, header: &Header) {
        let total = self.granted[header.channel.index()].consume(header.frame_size());
        // Who has nothing more to say goes on listening: the other end may have to get rid of something before it hears the rest.
        if let Some(total) = total.filter(|_| matches!(self.phase, Phase::Open | Phase::Closing)) {
            self.control.push_back(Frame::control(Kind::Credit, header.channel, &total.to_le_bytes()));
        }
    }
}

// What goes.
impl Connection {
    /// Queues a frame until there is credit for it.
    pub fn send(&mut self, frame: Frame) -> Result<(), Unsent> {
        let Some(peer) = self.peer.as_ref().filter(|_| self.phase == Phase::Open) else {
            return Err(Unsent::NotOpen(frame));
        };
        if frame.body_size() as u64 > u64::from(peer.limits.body_size_max) {
            return Err(Unsent::TooLarge(frame));
        }
        let queue = &mut self.queues[frame.channel().index()];
        let size = queue.size + frame.size();
        if size > QUEUE_SIZE_MAX && queue.size > 0 {
            return Err(Unsent::Full(frame));
        }
        queue.size = size;
        queue.frames.push_back(frame);
        Ok(())
    }

    /// Asks whether anybody is there: an answer comes, or the connection is dead.
    pub fn ping(&mut self) {
        if self.is_open() && self.control.len() < CONTROL_MAX {
            self.control.push_back(Frame::control(Kind::Ping, Channel::default(), &[]));
        }
    }

    /// Says that nothing more comes, after what is queued. Nothing is queued from here on.
    pub fn close(&mut self) {
        if self.is_open() {
            self.phase = Phase::Closing;
        }
    }

    /// Refuses a dialer, whatever it says. False if there is none to be refused: this end has dialed, or both have agreed.
    pub fn refuse(&mut self, refusal: Refusal) -> bool {
        if matches!(self.phase, Phase::Listening | Phase::Challenging(_) | Phase::Judging(_)) {
            self.control.push_back(handshake::refused(&self.me, &refusal));
            self.phase = Phase::Failed(Error::Refused(refusal));
        }
        matches!(self.phase, Phase::Failed(_))
    }

    /// The next frame to be written; `None` if there is none that the credit allows.
    pub fn transmit(&mut self) -> Option<Frame> {
        if let Some(frame) = self.control.pop_front() {
            return Some(frame);
        }
        for step in 0..Channel::COUNT {
            let channel = (self.turn + step) % Channel::COUNT;
            let queue = &mut self.queues[channel];
            let Some(size) = queue.frames.front().map(Frame::size) else { continue };
            if self.allowed[channel].take(size) {
                self.turn = channel + 1;
                queue.size -= size;
                return queue.frames.pop_front();
            }
        }
        if self.phase == Phase::Closing && self.queues.iter().all(|queue| queue.frames.is_empty()) {
            self.phase = Phase::Closed;
            return Some(Frame::control(Kind::Close, Channel::default(), &[]));
        }
        None
    }

    /// Whether nothing will be sent any more.
    pub fn is_done(&self) -> bool {
        self.control.is_empty() && matches!(self.phase, Phase::Closed | Phase::Failed(_))
    }
}

/// What one frame came to.
enum Step {
    Challenged,
    Proved(Peer, Range<usize>),
    Opened(Peer),
    Received(Header, Range<usize>),
    Closed,
}

/// As many frames of the connection itself may wait before pings are neither sent nor answered.
const CONTROL_MAX: usize = 64;
