//! Listeners and dialers on one machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{collections::BTreeMap, io, time::Duration};

use kit::{
    CLIENT, DATA, Ears, Hand, Heard, NODE, dial, dial_as, introduction, listen, listen_with, local, message,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixListener},
};
use tyr_net::{Address, End, Listener, Settings};
use tyr_wire::{
    connection::{
        Channel, Connection, Error, Frame, Inset, Introduction, Kind, Limits, Party, Refusal, Unsent,
        VERSIONS,
    },
    shared::SharedBytes,
};

async fn raw(address: &Address) -> TcpStream {
    let Address::Tcp(host) = address else { panic!("it is a TCP address") };
    TcpStream::connect(host).await.unwrap()
}

async fn frames_go_both_ways(address: &Address) {
    let (listener, mut there) = listen(address).await;
    let (dialer, mut here) = dial(listener.address());
    assert_eq!((there.open().await, here.open().await), (CLIENT, NODE));
    dialer.link().send(Frame::request(DATA, 77, |out| out.extend_from_slice(b"question")).unwrap()).unwrap();
    assert_eq!(there.body().await, b"question");
    let (header, body, _) = here.frame().await;
    assert_eq!((header.kind, header.request, &body[..]), (Kind::Reply, 77, &b"question"[..]));
    dialer.close().await;
    assert!(matches!(there.end().await, (Some(CLIENT), End::Closed)));
    assert!(matches!(here.end().await, (Some(NODE), End::Closed)));
    listener.close().await;
}

#[tokio::test]
async fn frames_go_both_ways_over_tcp() {
    frames_go_both_ways(&local()).await;
}

#[tokio::test]
async fn frames_go_both_ways_over_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    frames_go_both_ways(&Address::Unix(path.clone())).await;
    assert!(!path.exists(), "a listener that is closed leaves nothing behind");
}

#[tokio::test]
async fn many_frames_arrive_whole_and_in_the_order_of_their_channels() {
    let (listener, mut there) = listen(&local()).await;
    let (dialer, _here) = dial(listener.address());
    let body = |number: u32| [&number.to_le_bytes()[..], &vec![7; number as usize % 977 * 13]].concat();
    for number in 0..2000u32 {
        let channel = Channel::ALL[number as usize % 3];
        dialer.link().send(message(channel, &body(number))).unwrap();
    }
    let mut last: BTreeMap<Channel, u32> = BTreeMap::new();
    for _ in 0..2000 {
        let (header, came, _) = there.frame().await;
        let number = u32::from_le_bytes(came[..4].try_into().unwrap());
        assert_eq!(came, body(number));
        assert!(last.insert(header.channel, number).is_none_or(|before| before < number));
    }
}

#[tokio::test]
async fn two_ends_that_both_send_much_do_not_wait_for_one_another() {
    let (listener, mut there) = listen(&local()).await;
    let (dialer, mut here) = dial(listener.address());
    let question = Frame::request(DATA, 1, |out| out.extend_from_slice(&[1; 100_000])).unwrap();
    for _ in 0..200 {
        dialer.link().send(question.clone()).unwrap();
    }
    for _ in 0..200 {
        assert_eq!(there.body().await.len(), 100_000);
        assert_eq!(here.body().await.len(), 100_000);
    }
}

#[tokio::test]
async fn who_does_not_say_that_it_is_done_gets_no_more_than_the_window() {
    let (listener, mut there) = listen(&local()).await;
    let (dialer, mut here) = dial(listener.address());
    for number in 0..5 {
        dialer.link().send(message(DATA, &[number; 100_000])).unwrap();
    }
    let (one, two) = (there.frame().await, there.frame().await);
    // What is asked on another channel comes after whatever had credit.
    let channel = Channel::ALL[2];
    dialer.link().send(Frame::request(channel, 1, |_| {}).unwrap()).unwrap();
    let (header, ..) = there.frame().await;
    assert_eq!(header.channel, channel);
    assert_eq!(here.frame().await.0.kind, Kind::Reply);
    drop((one, two));
    for number in 2..5 {
        assert_eq!(there.body().await, [number; 100_000]);
    }
}

#[tokio::test]
async fn bytes_that_stay_where_they_are_come_in_their_places() {
    let (listener, mut there) = listen(&local()).await;
    let (dialer, _here) = dial(listener.address());
    let shared = SharedBytes::from((0..99_000_u32).map(|place| (place % 251) as u8).collect::<Vec<u8>>());
    // All are handed in before there is a connection, so that one write has many of them.
    let parts = || (0..20).map(|turn| turn * 4_000..99_000 - turn * 900);
    for part in parts() {
        let frame = Frame::message_with_insets(DATA, |out| {
            let at = out.len() + 3;
            out.extend_from_slice(b"behind");
            vec![Inset { at, bytes: shared.clone(), part }]
        });
        dialer.link().send(frame.unwrap()).unwrap();
    }
    for part in parts() {
        let body = there.body().await;
        assert!(body == [b"beh", &shared[part.clone()], b"ind"].concat(), "{part:?}");
    }
}

#[tokio::test]
async fn what_was_handed_in_is_sent_before_a_dialer_closes() {
    let (listener, mut there) = listen(&local()).await;
    let (dialer, mut here) = dial(listener.address());
    here.open().await;
    for number in 0..100 {
        dialer.link().send(message(DATA, &[number; 10_000])).unwrap();
    }
    let link = dialer.link().clone();
    let heard = tokio::spawn(async move {
        for number in 0..100 {
            assert_eq!(there.body().await, [number; 10_000]);
        }
        there.end().await
    });
    dialer.close().await;
    assert!(matches!(heard.await.unwrap(), (Some(CLIENT), End::Closed)));
    assert_eq!((link.waiting(), link.dropped()), (0, 0));
    assert!(matches!(link.send(message(DATA, b"late")), Err(Unsent::NotOpen(_))));
}

#[tokio::test]
async fn a_listener_that_closes_ends_its_connections() {
    let (listener, mut there) = listen(&local()).await;
    let (_dialer, mut here) = dial(listener.address());
    here.open().await;
    listener.close().await;
    assert!(matches!(here.end().await, (Some(NODE), End::Closed)));
    assert!(matches!(there.end().await, (Some(CLIENT), End::Closed)));
    assert!(matches!(here.end().await, (None, End::Lost(_))), "nobody is there any more");
}

#[tokio::test]
async fn a_dialer_comes_back_and_brings_what_waited() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("socket"));
    let (dialer, mut here) = dial(&address);
    assert!(matches!(here.end().await, (None, End::Lost(_))));
    dialer.link().send(message(DATA, b"early")).unwrap();
    let (listener, mut there) = listen(&address).await;
    assert_eq!(there.body().await, b"early");
    listener.close().await;
    here.end().await;
    dialer.link().send(message(DATA, b"between")).unwrap();
    let (_listener, mut there) = listen(&address).await;
    assert_eq!(there.body().await, b"between");
}

#[tokio::test]
async fn what_came_by_an_earlier_connection_gives_no_credit_to_a_later_one() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("socket"));
    let (dialer, mut here) = dial(&address);
    let (listener, _there) = listen(&address).await;
    dialer.link().send(Frame::request(DATA, 1, |out| out.extend_from_slice(&[1; 100_000])).unwrap()).unwrap();
    let kept = here.frame().await;
    listener.close().await;
    here.end().await;
    let (_listener, mut there) = listen(&address).await;
    here.open().await;
    drop(kept);
    dialer.link().send(Frame::request(DATA, 2, |_| {}).unwrap()).unwrap();
    there.frame().await;
    assert_eq!(here.frame().await.0.request, 2);
}

#[tokio::test]
async fn who_is_not_wanted_is_told_why() {
    let (listener, _there) = listen(&local()).await;
    for (me, refusal) in [
        (Introduction { cluster: Some(4), ..introduction(CLIENT) }, Refusal::WrongCluster),
        (Introduction { wanted: Some(2), ..introduction(CLIENT) }, Refusal::WrongNode),
        (Introduction { versions: 7..=8, ..introduction(CLIENT) }, Refusal::NoCommonVersion(VERSIONS)),
    ] {
        let (_dialer, mut here) = dial_as(listener.address(), me, Settings::default());
        let (None, End::Failed(Error::Refused(told))) = here.end().await else { panic!("it was refused") };
        assert_eq!(told, refusal);
    }
}

#[tokio::test]
async fn more_connections_than_there_may_be_are_refused() {
    let (listener, mut there) =
        listen_with(&local(), Settings { connections_max: 1, ..Settings::default() }).await;
    let (first, _here) = dial(listener.address());
    there.open().await;
    let (_second, mut here) = dial(listener.address());
    let (None, End::Failed(error)) = here.end().await else { panic!("it was refused") };
    assert_eq!(error, Error::Refused(Refusal::TooManyConnections));
    first.close().await;
    assert_eq!(here.open().await, NODE, "there is room now");
}

#[tokio::test]
async fn who_waits_to_be_refused_takes_room_that_is_bounded() {
    let settings = Settings { connections_max: 1, ..Settings::default() };
    let (listener, mut there) = listen_with(&local(), settings).await;
    let (_first, _here) = dial(listener.address());
    there.open().await;
    let (mut second, mut third) = (raw(listener.address()).await, raw(listener.address()).await);
    assert_eq!(ended(&mut third).await, 0);
    assert!(ended(&mut second).await > 0, "it was told why");
}

#[tokio::test]
async fn a_full_outbox_takes_no_more() {
    let settings = Settings { outbox_size_max: 50_000, ..Settings::default() };
    let nowhere = Address::Unix("/nonexistent/socket".into());
    let (dialer, _here) = dial_as(&nowhere, introduction(CLIENT), settings);
    let sent = (0..100).take_while(|_| dialer.link().send(message(DATA, &[1; 980])).is_ok()).count();
    assert_eq!((sent, dialer.link().waiting()), (50, 50_000));
    assert!(matches!(dialer.link().send(message(DATA, b"")), Err(Unsent::Full(_))));
    dialer.close().await;
}

#[tokio::test]
async fn a_channel_that_takes_no_more_leaves_room_to_others() {
    let settings = Settings { outbox_size_max: 50_000, ..Settings::default() };
    let nowhere = Address::Unix("/nonexistent/socket".into());
    let (dialer, _here) = dial_as(&nowhere, introduction(CLIENT), settings);
    for channel in Channel::ALL {
        dialer.link().send(message(channel, &[1; 49_980])).unwrap();
        assert!(matches!(dialer.link().send(message(channel, b"")), Err(Unsent::Full(_))));
    }
    assert_eq!(dialer.link().waiting(), Channel::COUNT * 50_000);
}

#[tokio::test]
async fn a_heartbeat_waits_behind_few_bytes_of_other_channels() {
    const SIZE: usize = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let socket = UnixListener::bind(&path).unwrap();
    let (dialer, mut here) = dial(&Address::Unix(path));
    let limits = Limits { body_size_max: 1 << 20, window: 64 << 20 };
    let mut hand = Hand::welcome(socket.accept().await.unwrap().0, limits).await;
    here.open().await;
    for _ in 0..100 {
        dialer.link().send(message(DATA, &[1; SIZE])).unwrap();
    }
    let before = dialer.link().waiting();
    hand.stream.readable().await.unwrap();
    // By now it writes, and no more fits the socket than this and a part of a frame.
    let written = before - dialer.link().waiting() + SIZE;
    dialer.link().send(message(Channel::ALL[0], b"heartbeat")).unwrap();
    let mut ahead = 0;
    loop {
        let (header, body) = hand.frame().await;
        if header.channel != DATA {
            break;
        }
        ahead += body.len();
    }
    assert!(ahead <= written + (256 << 10) + 2 * SIZE, "{ahead} bytes, of which {written} were written");
}

#[tokio::test]
async fn a_frame_that_the_peer_does_not_take_is_given_back() {
    let (listener, mut there) = listen(&local()).await;
    let (dialer, mut here) = dial(listener.address());
    here.open().await;
    assert!(matches!(dialer.link().send(message(DATA, &[0; 100_001])), Err(Unsent::TooLarge(_))));
    dialer.link().send(message(DATA, &[0; 100_000])).unwrap();
    assert_eq!(there.body().await.len(), 100_000);
}

#[tokio::test]
async fn who_speaks_something_else_is_cut_off_and_others_are_not() {
    let (listener, mut there) = listen(&local()).await;
    let (dialer, mut here) = dial(listener.address());
    here.open().await;
    let mut stranger = raw(listener.address()).await;
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(matches!(there.end().await, (None, End::Failed(_))));
    assert_eq!(ended(&mut stranger).await, 0);
    dialer.link().send(message(DATA, b"still here")).unwrap();
    assert_eq!(there.body().await, b"still here");
}

/// How much a stream brings until its end, or until it is reset.
async fn ended(stream: &mut TcpStream) -> usize {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes).await {
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        Ok(count) => assert_eq!(count, bytes.len()),
    }
    bytes.len()
}

/// Time passes as soon as there is nothing else to do.
#[tokio::test(start_paused = true)]
async fn who_never_says_hello_is_cut_off() {
    let (listener, mut there) = listen(&local()).await;
    let mut silent = raw(listener.address()).await;
    assert_eq!(ended(&mut silent).await, 0);
    assert!(matches!(there.end().await, (None, End::Silent)));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_a_ping_is_not_there() {
    let settings = Settings { handshake_timeout: Duration::from_secs(1000), ..Settings::default() };
    let (listener, mut there) = listen_with(&local(), settings).await;
    let mut silent = raw(listener.address()).await;
    let hello = Connection::dial(introduction(CLIENT)).transmit().unwrap();
    silent.write_all(&hello.bytes()).await.unwrap();
    assert!(ended(&mut silent).await > 0, "it was welcomed");
    assert!(matches!(there.end().await, (Some(CLIENT), End::Silent)));
}

#[tokio::test(start_paused = true)]
async fn a_dialer_tries_again_and_again() {
    let (_dialer, mut here) = dial(&Address::Unix("/nonexistent/socket".into()));
    for _ in 0..20 {
        assert!(matches!(here.next().await, Heard::Closed(None, End::Lost(_))));
    }
}

#[tokio::test]
async fn a_socket_that_a_dead_process_left_is_replaced_and_a_live_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let address = Address::Unix(path);
    let (_listener, _ears) = listen(&address).await;
    let (handler, _ears) = Ears::new();
    let second = Listener::bind(&address, introduction(NODE), handler, Settings::default()).await;
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn a_newcomer_that_has_got_its_number_says_so_to_whoever_dials_then_or_has_dialed() {
    let newcomer = Party::Newcomer { identity: 77 };
    let (handler, _there) = Ears::new();
    let me = Introduction { cluster: None, ..introduction(newcomer) };
    let listener = Listener::bind(&local(), me, handler, Settings::default()).await.unwrap();
    let nobodys = Introduction { cluster: None, ..introduction(CLIENT) };
    let (_early, mut early) = dial_as(listener.address(), nobodys, Settings::default());
    assert_eq!(early.open().await, newcomer);
    listener.introduce(introduction(NODE));
    assert_eq!(early.open().await, NODE);
    let (_late, mut here) = dial(listener.address());
    assert_eq!(here.open().await, NODE);
}
