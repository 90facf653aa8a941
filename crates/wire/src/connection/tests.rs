#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::{vec, vec::Vec};
use core::ops::Range;

use super::{handshake::HANDSHAKE_SIZE_MAX, *};
use crate::shared::SharedBytes;

const DATA: Channel = Channel::ALL[1];
const OTHER: Channel = Channel::ALL[2];

fn node(number: u32) -> Introduction {
    let party = Party::Node { node: number, incarnation: u64::from(number) << 20 };
    let limits = Limits { body_size_max: 1000, window: 3060 };
    Introduction { limits, ..Introduction::new(party, Some(7)) }
}

fn client() -> Introduction {
    Introduction { party: Party::Client { session: 99 }, ..node(0) }
}

fn message(channel: Channel, body: &[u8]) -> Frame {
    Frame::message(channel, |out| out.extend_from_slice(body)).unwrap()
}

/// Everything that one end has to send gets to the other; returns the bodies that came and those events that are none.
fn carry(from: &mut Connection, to: &mut Connection) -> Result<Vec<Vec<u8>>, Error> {
    let mut bodies = Vec::new();
    while let Some(frame) = from.transmit() {
        to.receive(&frame.bytes());
        while let Some(event) = to.poll()? {
            if let Event::Received(_, body) = event {
                bodies.push(body.to_vec());
            }
        }
    }
    Ok(bodies)
}

fn opened(dialer: Introduction, listener: Introduction) -> (Connection, Connection) {
    let (mut dialer, mut listener) = (Connection::dial(dialer), Connection::listen(listener));
    carry(&mut dialer, &mut listener).unwrap();
    carry(&mut listener, &mut dialer).unwrap();
    assert!(dialer.is_open() && listener.is_open());
    (dialer, listener)
}

/// What the dialer is told.
fn refused(dialer: Introduction, listener: Introduction) -> Refusal {
    let (mut dialer, mut listener) = (Connection::dial(dialer), Connection::listen(listener));
    let said = carry(&mut dialer, &mut listener).unwrap_err();
    let Err(Error::Refused(heard)) = carry(&mut listener, &mut dialer) else { panic!("nothing was said") };
    assert_eq!(said, Error::Refused(heard.clone()));
    assert!(listener.is_done());
    heard
}

#[test]
fn both_ends_learn_who_the_other_is() {
    let (dialer, listener) = opened(client(), node(3));
    assert_eq!(dialer.peer().unwrap().party, node(3).party);
    let peer = Peer { party: client().party, cluster: Some(7), version: 2, limits: client().limits };
    assert_eq!(*listener.peer().unwrap(), peer);
}

#[test]
fn the_newest_version_that_both_speak_is_spoken() {
    let speaks = |versions| Introduction { versions, ..node(1) };
    let (dialer, listener) = opened(speaks(1..=4), speaks(3..=9));
    assert_eq!((dialer.peer().unwrap().version, listener.peer().unwrap().version), (4, 4));
    assert_eq!(refused(speaks(1..=2), speaks(3..=9)), Refusal::NoCommonVersion(3..=9));
    assert_eq!(refused(speaks(10..=12), speaks(3..=9)), Refusal::NoCommonVersion(3..=9));
}

#[test]
fn a_hello_of_a_later_version_is_refused_whatever_follows_the_versions() {
    let mut body = b"TyrProto".to_vec();
    body.extend_from_slice(&[8, 0, 9, 0]);
    body.extend_from_slice(b"what nobody knows yet");
    let mut listener = Connection::listen(node(1));
    listener.receive(&Frame::control(Kind::Hello, Channel::default(), &body).bytes());
    assert_eq!(listener.poll(), Err(Error::Refused(Refusal::NoCommonVersion(VERSIONS))));
}

#[test]
fn who_is_wrong_here_is_told_why() {
    let of = |cluster| Introduction { cluster, ..node(1) };
    assert_eq!(refused(of(Some(8)), of(Some(7))), Refusal::WrongCluster);
    assert_eq!(refused(of(Some(8)), of(None)), Refusal::WrongCluster);
    let wants = |wanted| Introduction { wanted: Some(wanted), ..client() };
    assert_eq!(refused(wants(4), node(3)), Refusal::WrongNode);
    opened(wants(3), node(3));
    let newcomer = || Introduction::new(Party::Newcomer { identity: 5 }, None);
    let member = |wanted| Introduction { wanted, ..node(1) };
    assert_eq!(refused(member(Some(4)), newcomer()), Refusal::WrongNode, "it may become that one");
    assert_eq!(refused(member(None), newcomer()), Refusal::WrongCluster);
    let (dialer, _) = opened(of(None), of(Some(7)));
    assert_eq!(dialer.peer().unwrap().cluster, Some(7), "who knew no cluster knows it now");
}

#[test]
fn a_listener_may_refuse_before_it_has_heard_anything() {
    let (mut dialer, mut listener) = (Connection::dial(client()), Connection::listen(node(1)));
    listener.refuse(Refusal::TooManyConnections);
    assert_eq!(carry(&mut listener, &mut dialer), Err(Error::Refused(Refusal::TooManyConnections)));
    assert!(listener.is_done());
}

#[test]
fn who_speaks_something_else_is_not_understood() {
    let mut listener = Connection::listen(node(1));
    listener.receive(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(listener.poll().is_err());
    let mut listener = Connection::listen(node(1));
    listener.receive(&Frame::control(Kind::Hello, Channel::default(), &[7; 60]).bytes());
    assert_eq!(listener.poll(), Err(Error::NotTyr));
}

#[test]
fn frames_come_in_any_pieces() {
    let (mut dialer, mut listener) = opened(client(), node(1));
    let number = 1 << 40;
    dialer.send(Frame::request(DATA, number, |out| out.extend_from_slice(b"question")).unwrap()).unwrap();
    dialer.send(message(DATA, b"")).unwrap();
    let bytes: Vec<u8> =
        core::iter::from_fn(|| dialer.transmit()).flat_map(|frame| frame.bytes().to_vec()).collect();
    let mut heard = Vec::new();
    for byte in bytes {
        listener.receive(&[byte]);
        if let Some(Event::Received(header, body)) = listener.poll().unwrap() {
            heard.push((header.kind, header.channel, header.request, body.to_vec()));
        }
    }
    let expected =
        [(Kind::Request, DATA, number, b"question".to_vec()), (Kind::Message, DATA, 0, Vec::new())];
    assert_eq!(heard, expected);
}

#[test]
fn nothing_is_sent_beyond_the_credit_and_channels_do_not_hold_one_another_up() {
    let (mut dialer, mut listener) = opened(client(), node(1));
    for number in 0..5 {
        dialer.send(message(DATA, &[number; 1000])).unwrap();
    }
    dialer.send(message(OTHER, b"overtakes")).unwrap();
    let mut came = Vec::new();
    while let Some(frame) = dialer.transmit() {
        listener.receive(&frame.bytes());
        while let Some(event) = listener.poll().unwrap() {
            if let Event::Received(header, body) = event {
                came.push((header, body[0]));
            }
        }
    }
    let on = |channel, came: &[(Header, u8)]| -> Vec<u8> {
        came.iter().filter(|(header, _)| header.channel == channel).map(|(_, first)| *first).collect()
    };
    assert_eq!((on(DATA, &came), on(OTHER, &came)), ([0, 1, 2].to_vec(), [b'o'].to_vec()));
    listener.consume(&came[0].0);
    assert_eq!(carry(&mut listener, &mut dialer), Ok(Vec::new()));
    assert!(dialer.transmit().is_none(), "less than half of the window is free");
    came[1..]
        .iter()
        .filter(|(header, _)| header.channel == DATA)
        .for_each(|(header, _)| listener.consume(header));
    carry(&mut listener, &mut dialer).unwrap();
    assert_eq!(carry(&mut dialer, &mut listener).unwrap(), [[3; 1000], [4; 1000]]);
}

/// A frame of one size and then one of the largest, from an end whose receiver is done with everything at once.
fn comes_through(limits: Limits, first: u32) {
    let (mut dialer, mut listener) = opened(client(), Introduction { limits, ..node(1) });
    for body_size in [first, limits.body_size_max, limits.body_size_max] {
        let body = vec![0; body_size as usize];
        dialer.send(message(DATA, &body)).unwrap();
        let frame =
            dialer.transmit().unwrap_or_else(|| panic!("{first} and then {body_size} stall {limits:?}"));
        listener.receive(&frame.bytes());
        let Some(Event::Received(header, _)) = listener.poll().unwrap() else { panic!("it came") };
        listener.consume(&header);
        carry(&mut listener, &mut dialer).unwrap();
    }
}

#[test]
fn no_channel_stalls_while_the_receiver_is_done_with_what_comes() {
    for body_size_max in 0..100 {
        let of = |window| Limits { body_size_max, window };
        let smallest = (0..).map(of).find(Limits::are_sound).unwrap();
        (0..=body_size_max).for_each(|first| comes_through(smallest, first));
    }
    let limits = Limits::default();
    for first in [0, limits.body_size_max - 1, limits.body_size_max] {
        comes_through(limits, first);
    }
}

#[test]
fn the_queue_of_one_channel_takes_no_room_from_another() {
    let limits = Limits { body_size_max: 8 << 20, window: 32 << 20 };
    let (mut dialer, _) = opened(client(), Introduction { limits, ..node(1) });
    let large = message(DATA, &vec![0; 8 << 20]);
    let sent = (0..100).take_while(|_| dialer.send(large.clone()).is_ok()).count();
    assert_eq!(sent, QUEUE_SIZE_MAX / large.size());
    assert!(matches!(dialer.send(message(DATA, &vec![0; 8 << 20])), Err(Unsent::Full(_))));
    dialer.send(message(OTHER, &vec![0; 8 << 20])).unwrap();
}

#[test]
fn who_ignores_its_credit_is_cut_off() {
    let (_, mut listener) = opened(client(), node(1));
    for _ in 0..3 {
        listener.receive(&message(DATA, &[0; 1000]).bytes());
        assert!(listener.poll().unwrap().is_some());
    }
    listener.receive(&message(DATA, b"").bytes());
    assert_eq!(listener.poll(), Err(Error::CreditExceeded));
    assert_eq!(listener.poll(), Err(Error::CreditExceeded), "an error stays");
}

#[test]
fn credit_that_comes_twice_or_late_changes_nothing_and_too_much_is_refused() {
    let (mut dialer, _) = opened(client(), node(1));
    let credit = |total: u64| Frame::control(Kind::Credit, DATA, &total.to_le_bytes());
    for total in [3100, 3100, 5] {
        dialer.receive(&credit(total).bytes());
        assert_eq!(dialer.poll(), Ok(None));
    }
    dialer.send(message(DATA, &[0; 1000])).unwrap();
    dialer.send(message(DATA, &[0; 1000])).unwrap();
    dialer.send(message(DATA, &[0; 1000])).unwrap();
    dialer.send(message(DATA, &[0; 20])).unwrap();
    dialer.send(message(DATA, b"")).unwrap();
    let sizes: Vec<usize> = core::iter::from_fn(|| dialer.transmit()).map(|frame| frame.size()).collect();
    assert_eq!(sizes, [1020, 1020, 1020, 40]);
    dialer.receive(&credit(u64::MAX).bytes());
    assert_eq!(dialer.poll(), Err(Error::CreditOutOfBounds));
}

#[test]
fn frames_that_are_too_large_are_refused_before_they_are_there() {
    let (mut dialer, mut listener) = opened(client(), node(1));
    let large = message(DATA, &[0; 1001]);
    assert!(matches!(dialer.send(large.clone()), Err(Unsent::TooLarge(_))));
    listener.receive(&large.bytes()[..8]);
    assert_eq!(listener.poll(), Err(Error::FrameTooLarge));
    let mut listener = Connection::listen(node(1));
    listener.receive(&[0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(listener.poll(), Err(Error::FrameTooLarge), "before the handshake, hardly anything is taken");
}

#[test]
fn a_frame_that_is_too_large_is_not_waited_for() {
    let claim = |size: usize| [[0; 4], u32::try_from(size).unwrap().to_le_bytes()].concat();
    let missing = |connection: &mut Connection, size: usize| {
        connection.receive(&claim(size));
        let missing = connection.missing();
        connection.buffer().clear();
        missing
    };
    let mut stranger = Connection::listen(node(1));
    assert_eq!(missing(&mut stranger, HANDSHAKE_SIZE_MAX), HANDSHAKE_SIZE_MAX + FRAME_HEADER_SIZE - 8);
    assert_eq!(missing(&mut stranger, HANDSHAKE_SIZE_MAX + 1), 0, "nobody knows who this is");
    let (mut open, _) = opened(client(), node(1));
    let size_max = open.me.limits.body_size_max as usize;
    assert_eq!(missing(&mut open, size_max), size_max + FRAME_HEADER_SIZE - 8);
    assert_eq!(missing(&mut open, size_max + 1), 0);
}

#[test]
fn whether_bytes_were_copied_into_a_frame_makes_no_difference_to_who_receives_it() {
    let shared = SharedBytes::from((0..100).collect::<Vec<u8>>());
    let inset =
        |at: usize, part: Range<usize>| Inset { at: FRAME_HEADER_SIZE + at, bytes: shared.clone(), part };
    // At the beginning, two in a row, and at the end.
    let insets = vec![inset(0, 5..9), inset(3, 0..100), inset(3, 98..99), inset(8, 7..7), inset(8, 50..60)];
    let (written, mut whole) = (*b"the rest", Vec::new());
    let mut from = 0;
    for inset in &insets {
        let at = inset.at - FRAME_HEADER_SIZE;
        whole.extend_from_slice(&written[from..at]);
        whole.extend_from_slice(&shared[inset.part.clone()]);
        from = at;
    }
    let frame = Frame::message_with_insets(DATA, |out| {
        out.extend_from_slice(&written);
        insets
    });
    let (frame, copied) = (frame.unwrap(), message(DATA, &whole));
    assert_eq!(frame.pieces().flatten().copied().collect::<Vec<_>>(), *copied.bytes());
    assert_eq!((frame.size(), frame.body()), (copied.size(), copied.body()));
    assert_eq!(frame, copied);
    assert_ne!(frame, message(DATA, &whole[1..]));
    let (mut dialer, mut listener) = opened(client(), node(1));
    dialer.send(frame).unwrap();
    assert_eq!(carry(&mut dialer, &mut listener).unwrap(), [whole]);
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let frame = message(DATA, b"body");
    for place in 0..frame.size() {
        let (_, mut listener) = opened(client(), node(1));
        let mut bytes = frame.bytes().to_vec();
        bytes[place] ^= 1;
        listener.receive(&bytes);
        assert!(!matches!(listener.poll(), Ok(Some(_))), "byte {place}");
    }
}

#[test]
fn what_comes_out_of_turn_is_refused() {
    let mut dialer = Connection::dial(client());
    assert!(matches!(dialer.send(message(DATA, b"early")), Err(Unsent::NotOpen(_))));
    let hello = dialer.transmit().unwrap();
    let (mut early, (_, mut open)) = (Connection::listen(node(1)), opened(client(), node(1)));
    early.receive(&message(DATA, b"early").bytes());
    assert_eq!(early.poll(), Err(Error::OutOfTurn));
    open.receive(&hello.bytes());
    assert_eq!(open.poll(), Err(Error::OutOfTurn), "a second hello");
}

#[test]
fn a_ping_is_answered_and_many_do_not_fill_memory() {
    let (mut dialer, mut listener) = opened(client(), node(1));
    dialer.ping();
    carry(&mut dialer, &mut listener).unwrap();
    let pong = listener.transmit().unwrap();
    assert_eq!(Header::parse(&pong.bytes(), 0).unwrap().unwrap().0.kind, Kind::Pong);
    for _ in 0..1000 {
        listener.receive(&Frame::control(Kind::Ping, Channel::default(), &[]).bytes());
        listener.poll().unwrap();
    }
    assert_eq!(core::iter::from_fn(|| listener.transmit()).count(), CONTROL_MAX);
}

#[test]
fn who_has_said_all_still_grants_credit() {
    let (mut dialer, mut listener) = opened(client(), node(1));
    for number in 0..4 {
        dialer.send(message(DATA, &[number; 1000])).unwrap();
        listener.send(message(DATA, &[number; 1000])).unwrap();
    }
    dialer.close();
    carry(&mut dialer, &mut listener).unwrap();
    assert_eq!(carry(&mut listener, &mut dialer).unwrap().len(), 3);
    let (header, _) = Header::parse(&message(DATA, &[0; 1000]).bytes(), 1000).unwrap().unwrap();
    (0..3).for_each(|_| dialer.consume(&header));
    carry(&mut dialer, &mut listener).unwrap();
    assert_eq!(carry(&mut listener, &mut dialer).unwrap(), [[3; 1000]]);
}

#[test]
fn what_is_queued_comes_before_the_farewell() {
    let (mut dialer, mut listener) = opened(client(), node(1));
    for number in 0..4 {
        dialer.send(message(DATA, &[number; 1000])).unwrap();
    }
    dialer.close();
    assert!(matches!(dialer.send(message(DATA, b"late")), Err(Unsent::NotOpen(_))));
    assert_eq!(carry(&mut dialer, &mut listener).unwrap().len(), 3, "one waits for credit");
    let (header, _) = Header::parse(&message(DATA, &[0; 1000]).bytes(), 1000).unwrap().unwrap();
    (0..3).for_each(|_| listener.consume(&header));
    carry(&mut listener, &mut dialer).unwrap();
    assert_eq!(carry(&mut dialer, &mut listener).unwrap(), [[3; 1000]]);
    assert!(dialer.is_done() && !listener.is_open());
    listener.receive(&message(DATA, b"after the farewell").bytes());
    assert_eq!(listener.poll(), Ok(None));
}

/// Goes on with the handshake until the listener has a proof to judge. Returns what both ends think was said.
fn challenged(dialer: &mut Connection, listener: &mut Connection) -> (Vec<u8>, Vec<u8>) {
    listener.demand_proof([7; NONCE_SIZE]);
    carry(dialer, listener).unwrap();
    let challenge = listener.transmit().unwrap();
    dialer.receive(&challenge.bytes());
    let Ok(Some(Event::Challenged(said))) = dialer.poll() else { panic!("there is no challenge") };
    let said = said.to_vec();
    dialer.prove(b"the proof", b"the other proof");
    listener.receive(&dialer.transmit().unwrap().bytes());
    let Ok(Some(Event::Proved(peer, heard, proof))) = listener.poll() else { panic!("there is no proof") };
    assert_eq!((peer.party, proof), (client().party, &b"the proof"[..]));
    (said, heard.to_vec())
}

#[test]
fn who_is_challenged_proves_who_he_is_and_hears_the_proof_of_the_other_one() {
    let (mut dialer, mut listener) = (Connection::dial(client()), Connection::listen(node(1)));
    dialer.insist();
    let (said, heard) = challenged(&mut dialer, &mut listener);
    assert_eq!(said, heard, "both prove for the same bytes");
    assert!(said.windows(NONCE_SIZE).any(|window| window == [7; NONCE_SIZE]));
    assert!(!listener.is_open(), "nothing is open before the proof is judged");
    listener.admit(b"the other proof");
    assert!(listener.is_open());
    carry(&mut listener, &mut dialer).unwrap();
    assert!(dialer.is_open());
}

#[test]
fn a_proof_that_does_not_hold_is_refused() {
    for refusal in [Refusal::Denied, Refusal::Expired, Refusal::Revoked, Refusal::ProofMissing] {
        let (mut dialer, mut listener) = (Connection::dial(client()), Connection::listen(node(1)));
        challenged(&mut dialer, &mut listener);
        listener.refuse(refusal.clone());
        assert_eq!(carry(&mut listener, &mut dialer), Err(Error::Refused(refusal)));
        assert!(listener.is_done() && !dialer.is_open());
    }
}

#[test]
fn a_listener_whose_proof_does_not_hold_is_not_talked_to() {
    let (mut dialer, mut listener) = (Connection::dial(client()), Connection::listen(node(1)));
    challenged(&mut dialer, &mut listener);
    listener.admit(b"something else");
    assert_eq!(carry(&mut listener, &mut dialer), Err(Error::Refused(Refusal::Unproved)));
}

#[test]
fn who_insists_talks_to_nobody_who_demands_no_proof() {
    let (mut dialer, mut listener) = (Connection::dial(client()), Connection::listen(node(1)));
    dialer.insist();
    carry(&mut dialer, &mut listener).unwrap();
    assert_eq!(carry(&mut listener, &mut dialer), Err(Error::Refused(Refusal::Unproved)));
}

#[test]
fn who_speaks_an_older_version_cannot_prove_anything_and_is_told_so_in_that_version() {
    let old = Introduction { versions: 1..=1, ..client() };
    let (mut dialer, mut listener) = (Connection::dial(old), Connection::listen(node(1)));
    listener.demand_proof([7; NONCE_SIZE]);
    assert_eq!(carry(&mut dialer, &mut listener), Err(Error::Refused(Refusal::ProofMissing)));
    assert_eq!(carry(&mut listener, &mut dialer), Err(Error::Refused(Refusal::Denied)));
}

#[test]
fn nothing_is_taken_in_place_of_a_proof() {
    let (mut dialer, mut listener) = (Connection::dial(client()), Connection::listen(node(1)));
    listener.demand_proof([7; NONCE_SIZE]);
    carry(&mut dialer, &mut listener).unwrap();
    listener.receive(&message(DATA, b"let me in").bytes());
    assert_eq!(listener.poll(), Err(Error::OutOfTurn));
    let (mut dialer, mut listener) = (Connection::dial(client()), Connection::listen(node(1)));
    carry(&mut dialer, &mut listener).unwrap();
    listener.receive(&Frame::control(Kind::Proof, Channel::default(), b"nobody asked").bytes());
    assert_eq!(listener.poll(), Err(Error::OutOfTurn));
}
