//! No bytes make a connection panic, hold more than it should, or give the program what was not sent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod limit;

use tyr_wire::connection::{Channel, Connection, Event, Frame, Header, Introduction, Limits, Party, Refusal};

const LIMITS: Limits = Limits { body_size_max: 200, window: 600 };

fn introduction(party: Party) -> Introduction {
    Introduction { limits: LIMITS, ..Introduction::new(party, Some(5)) }
}

fn dialer() -> Connection {
    Connection::dial(introduction(Party::Client { session: 1 }))
}

fn listener() -> Connection {
    Connection::listen(introduction(Party::Node { node: 1, incarnation: 1 }))
}

fn sent(connection: &mut Connection) -> Vec<u8> {
    std::iter::from_fn(|| connection.transmit()).flat_map(|frame| frame.bytes().to_vec()).collect()
}

/// A dialer and a listener that have agreed.
fn opened() -> (Connection, Connection) {
    let (mut dialer, mut listener) = (dialer(), listener());
    listener.receive(&sent(&mut dialer));
    assert!(matches!(listener.poll(), Ok(Some(Event::Opened(_)))));
    dialer.receive(&sent(&mut listener));
    assert!(matches!(dialer.poll(), Ok(Some(Event::Opened(_)))));
    (dialer, listener)
}

/// Gives a connection bytes in pieces of these sizes; what it delivers is consumed at once.
fn feed(connection: &mut Connection, mut bytes: &[u8], sizes: &[u8]) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    let mut sizes = sizes.iter().cycle();
    while !bytes.is_empty() {
        let size = sizes.next().map_or(bytes.len(), |size| usize::from(*size) + 1).min(bytes.len());
        let (piece, rest) = bytes.split_at(size);
        bytes = rest;
        connection.receive(piece);
        loop {
            let header = match connection.poll() {
                Err(error) => {
                    assert_eq!(connection.poll(), Err(error), "an error stays");
                    assert!(!connection.is_open());
                    break;
                }
                Ok(None) => break,
                Ok(Some(Event::Received(header, body))) => {
                    bodies.push(body.to_vec());
                    header
                }
                Ok(Some(_)) => continue,
            };
            connection.consume(&header);
        }
        assert!(connection.held() == 0 && connection.buffer().len() <= 1100);
    }
    bodies
}

#[test]
fn any_bytes_are_survived_in_any_phase() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        let (sizes, bytes) = bytes.split_at(bytes.len().min(3));
        let (open_dialer, open_listener) = opened();
        for mut connection in [dialer(), listener(), open_dialer, open_listener] {
            feed(&mut connection, bytes, sizes);
            sent(&mut connection);
        }
    });
}

/// Frames with a checksum that holds, around any bytes.
fn sealed(kind: u8, channel: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        Frame::message(Channel::default(), |out| out.extend_from_slice(body)).unwrap().bytes().to_vec();
    (bytes[8], bytes[9]) = (kind, channel);
    let checksum = tyr_wire::checksum::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn frames_of_any_kind_are_survived_in_any_phase() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        let (open_dialer, open_listener) = opened();
        for mut connection in [dialer(), listener(), open_dialer, open_listener] {
            for frame in bytes.chunks(20) {
                let [kind, channel, body @ ..] = frame else { continue };
                // Once with what a hello begins with.
                let known = [b"TyrProto\x01\x00\x02\x00", body].concat();
                feed(&mut connection, &sealed(kind % 24, channel % 10, body), &[]);
                feed(&mut connection, &sealed(kind % 24, channel % 10, &known), &[]);
                sent(&mut connection);
            }
        }
    });
}

/// Every frame that two ends may say, in one go.
fn talk(plan: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut dialer, mut listener) = (dialer(), listener());
    let mut said = sent(&mut dialer);
    listener.receive(&said);
    listener.poll().unwrap();
    dialer.receive(&sent(&mut listener));
    dialer.poll().unwrap();
    let mut bodies = Vec::new();
    for (number, byte) in (0u8..).zip(plan.iter().take(20)) {
        match byte % 8 {
            7 => dialer.ping(),
            channel => {
                let body = vec![number; usize::from(*byte)];
                let frame =
                    Frame::message(Channel::new(channel).unwrap(), |out| out.extend_from_slice(&body));
                if dialer.send(frame.unwrap()).is_ok() {
                    bodies.push(body);
                }
            }
        }
        let bytes = sent(&mut dialer);
        said.extend_from_slice(&bytes);
        feed(&mut listener, &bytes, &[]);
        dialer.receive(&sent(&mut listener));
        assert_eq!(dialer.poll(), Ok(None));
    }
    (said, bodies)
}

#[test]
fn what_is_said_is_heard_in_any_pieces() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let (sizes, plan) = bytes.split_at(bytes.len().min(4));
        let (said, bodies) = talk(plan);
        assert_eq!(feed(&mut listener(), &said, sizes), bodies);
    });
}

#[test]
fn of_damaged_talk_only_the_beginning_is_heard() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Some(([high, low, flip], plan)) = bytes.split_first_chunk() else { return };
        let (mut said, bodies) = talk(plan);
        let place = usize::from(u16::from_be_bytes([*high, *low])) % said.len();
        said[place] ^= (*flip).max(1);
        let heard = feed(&mut listener(), &said, &[]);
        assert!(bodies.starts_with(&heard) && heard.len() <= bodies.len());
    });
}

#[test]
fn talk_that_is_replayed_is_refused() {
    bolero::check!().for_each(|plan: &[u8]| {
        let (said, bodies) = talk(plan);
        let mut listener = listener();
        assert_eq!(feed(&mut listener, &said, &[]), bodies);
        assert_eq!(feed(&mut listener, &said, &[]), Vec::<Vec<u8>>::new(), "it begins with a hello");
        assert!(!listener.is_open());
    });
}

#[test]
fn a_listener_that_refuses_hears_nothing() {
    bolero::check!().for_each(|plan: &[u8]| {
        let mut listener = listener();
        listener.refuse(Refusal::Stopping);
        assert_eq!(feed(&mut listener, &talk(plan).0, &[]), Vec::<Vec<u8>>::new());
        let said = sent(&mut listener);
        let (header, _) = Header::parse(&said, 1000).unwrap().unwrap();
        assert_eq!(header.frame_size(), said.len());
    });
}
