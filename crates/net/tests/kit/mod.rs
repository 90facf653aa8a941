//! Two ends on one machine, and what their handlers hear.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};
use tyr_net::{Address, Dialer, End, Handler, Link, Listener, Receipt, Received, Settings};
use tyr_wire::connection::{
    Channel, Connection, Event, Frame, Header, Introduction, Kind, Limits, Party, Peer,
};

/// What a handler was told.
#[derive(Debug)]
pub enum Heard {
    Opened(Party, Link),
    Frame(Header, Vec<u8>, Receipt),
    Closed(Option<Party>, End),
}

/// Tells a test all that it hears, and answers requests with what they said.
pub struct Teller(UnboundedSender<Heard>);

impl Handler for Teller {
    fn opened(&self, link: &Link, peer: &Peer) {
        let _ = self.0.send(Heard::Opened(peer.party, link.clone()));
    }

    fn received(&self, link: &Link, frame: Received<'_>) {
        let Received { header, body, receipt, .. } = frame;
        if header.kind == Kind::Request {
            let reply = Frame::reply(header.channel, header.request, |out| out.extend_from_slice(body));
            link.send(reply.unwrap()).unwrap();
        }
        let _ = self.0.send(Heard::Frame(header, body.to_vec(), receipt));
    }

    fn closed(&self, _: &Link, peer: Option<&Peer>, end: &End) {
        let end = match end {
            End::Closed => End::Closed,
            End::Lost(error) => End::Lost(io::Error::new(error.kind(), error.to_string())),
            End::Failed(error) => End::Failed(error.clone()),
            End::Silent => End::Silent,
        };
        let _ = self.0.send(Heard::Closed(peer.map(|peer| peer.party), end));
    }
}

/// An end and what it hears.
pub struct Ears(UnboundedReceiver<Heard>);

impl Ears {
    /// A handler, and what it hears.
    pub fn new() -> (Arc<dyn Handler>, Self) {
        let (sender, receiver) = unbounded_channel();
        (Arc::new(Teller(sender)), Ears(receiver))
    }

    /// The next thing. A test that hears nothing fails instead of waiting for ever.
    pub async fn next(&mut self) -> Heard {
        timeout(Duration::from_secs(100), self.0.recv()).await.expect("something is heard").unwrap()
    }

    /// The next frame's body.
    pub async fn body(&mut self) -> Vec<u8> {
        self.frame().await.1
    }

    /// The next frame.
    pub async fn frame(&mut self) -> (Header, Vec<u8>, Receipt) {
        loop {
            if let Heard::Frame(header, body, receipt) = self.next().await {
                return (header, body, receipt);
            }
        }
    }

    /// The next end of a connection.
    pub async fn end(&mut self) -> (Option<Party>, End) {
        loop {
            if let Heard::Closed(party, end) = self.next().await {
                return (party, end);
            }
        }
    }

    /// The next connection.
    pub async fn open(&mut self) -> Party {
        self.opened().await.0
    }

    /// The next connection, with its link.
    pub async fn opened(&mut self) -> (Party, Link) {
        loop {
            if let Heard::Opened(party, link) = self.next().await {
                return (party, link);
            }
        }
    }

    /// Waits until nobody is left who could tell anything; nothing was told meanwhile.
    pub async fn hear_no_more(&mut self) {
        let heard = timeout(Duration::from_secs(100), self.0.recv()).await.expect("nobody is left");
        assert!(heard.is_none(), "{heard:?}");
    }
}

pub const NODE: Party = Party::Node { node: 1, incarnation: 5 };
pub const CLIENT: Party = Party::Client { session: 9 };
pub const DATA: Channel = Channel::ALL[1];

pub fn introduction(party: Party) -> Introduction {
    let limits = Limits { body_size_max: 100_000, window: 200_040 };
    Introduction { limits, ..Introduction::new(party, Some(3)) }
}

pub fn message(channel: Channel, body: &[u8]) -> Frame {
    Frame::message(channel, |out| out.extend_from_slice(body)).unwrap()
}

pub fn local() -> Address {
    Address::Tcp("127.0.0.1:0".into())
}

pub async fn listen(address: &Address) -> (Listener, Ears) {
    listen_with(address, Settings::default()).await
}

pub async fn listen_with(address: &Address, settings: Settings) -> (Listener, Ears) {
    let (handler, ears) = Ears::new();
    (Listener::bind(address, introduction(NODE), handler, settings).await.unwrap(), ears)
}

pub fn dial(address: &Address) -> (Dialer, Ears) {
    dial_as(address, introduction(CLIENT), Settings::default())
}

pub fn dial_as(address: &Address, me: Introduction, settings: Settings) -> (Dialer, Ears) {
    let (handler, ears) = Ears::new();
    (Dialer::new(address.clone(), me, handler, settings), ears)
}

/// A listener's end that a test holds in its hands.
pub struct Hand<S> {
    pub stream: S,
    connection: Connection,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Hand<S> {
    /// Agrees with whoever has dialed.
    pub async fn welcome(stream: S, limits: Limits) -> Self {
        let connection = Connection::listen(Introduction { limits, ..introduction(NODE) });
        let mut hand = Hand { stream, connection };
        while !matches!(hand.connection.poll(), Ok(Some(Event::Opened(_)))) {
            assert!(hand.stream.read_buf(hand.connection.buffer()).await.unwrap() > 0);
        }
        let welcome = hand.connection.transmit().unwrap();
        hand.stream.write_all(&welcome.bytes()).await.unwrap();
        hand
    }

    /// The next frame for a program.
    pub async fn frame(&mut self) -> (Header, Vec<u8>) {
        loop {
            if let Some(Event::Received(header, body)) = self.connection.poll().unwrap() {
                return (header, body.to_vec());
            }
            assert!(self.stream.read_buf(self.connection.buffer()).await.unwrap() > 0);
        }
    }
}
