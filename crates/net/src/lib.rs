//! Sockets: listeners and dialers for TCP and for Unix sockets, which carry the frames of [`tyr_wire::connection`].
//!
//! Each connection is one task of a tokio runtime that both reads and writes, so that an end whose peer does not read goes on reading,
//! and two such ends do not wait for one another for ever. A program hands frames to a [`Link`] from any thread, and gets what comes by
//! a [`Handler`].
//!
//! Invariants:
//!
//! - Memory is bounded: each channel of a connection holds at most [`Settings::outbox_size_max`] to be sent, or a single frame that is
//!   larger, and the window that came; there are [`Channel::COUNT`](tyr_wire::connection::Channel::COUNT) of them, and so many connections
//!   as the settings allow.
//! - Channels have nothing in common but the socket: one whose peer is slow takes neither room nor turns from another.
//! - Nothing waits for ever: neither a handshake, nor a peer that has gone silent, nor an end that closes and for which nothing moves.
//! - What is lost with a connection is not sent again; frames that still waited in the outbox of a dialer are. Every frame that was taken
//!   is written, or counted as dropped, or waits.
//! - The end of each connection is told once, also if its task was dropped.
//!
//! It does not know what frames mean, but for the names of their [`channels`], and answers nobody but for the connection itself.

#![forbid(unsafe_code)]

mod address;
mod attempt;
pub mod channels;
mod credential;
mod dialer;
mod door;
mod hatch;
mod link;
mod listener;
mod otlp;
mod porter;
mod run;
mod runtimes;
mod stream;
mod task;
mod tls;
mod trust;
mod validity;
mod waits;

use std::{sync::Arc, time::Duration};

pub use address::Address;
pub use credential::{Credential, Holder, Proof, Secret, Shown, TOKEN_SIZE_MAX, Token, random};
pub use dialer::Dialer;
pub use door::Door;
pub use hatch::{Files, Hatch, HatchFile, HatchOwner, HatchReader, Patience, read_file};
pub use link::{End, Handler, Link, Receipt, Received};
pub use listener::{Listener, Place};
pub use otlp::{Attribute, Collector, Exporter, Exporting, Side, Span, span_time};
pub use porter::{Admission, Claim, Porter};
pub use runtimes::Runtimes;
pub use tls::{Tls, TlsFiles};
pub use validity::{Validity, validities};

/// How long things may take, and how many there may be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A connection is open this long after it began, or given up.
    pub handshake_timeout: Duration,
    /// A peer that has been silent for this long is asked whether it is there.
    pub ping_after: Duration,
    /// A peer that has been silent for this long is not there.
    pub silence_max: Duration,
    /// A dialer waits at least this long between attempts, and after the first at most twice as long: a random time in between. As long
    /// as attempts fail, the latter doubles each time,
    pub wait_min: Duration,
    /// up to this.
    pub wait_max: Duration,
    /// A channel of a link whose frames take as many bytes takes no more of them. At most [`tyr_wire::connection::QUEUE_SIZE_MAX`].
    pub outbox_size_max: usize,
    /// A listener has at most so many connections; as many more are told so, and others are cut off without a word.
    pub connections_max: usize,
    /// How TCP connections are encrypted; not at all if `None`.
    pub tls: Option<Tls>,
    /// By what a dialer proves who it is, if it is asked for that.
    pub credential: Credential,
    /// Who judges such proofs for a listener; it demands none if there is nobody.
    pub porter: Option<Arc<dyn Porter>>,
    /// Where connections run.
    pub runtimes: Runtimes,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            handshake_timeout: Duration::from_secs(5),
            ping_after: Duration::from_secs(2),
            silence_max: Duration::from_secs(6),
            wait_min: Duration::from_millis(20),
            wait_max: Duration::from_secs(2),
            outbox_size_max: 32 << 20,
            connections_max: 10_000,
            tls: None,
            credential: Credential::None,
            porter: None,
            runtimes: Runtimes::default(),
        }
    }
}
