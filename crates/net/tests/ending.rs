//! How connections end: that nothing is forgotten, and nothing waits for ever.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{sync::Arc, time::Duration};

use kit::{CLIENT, DATA, Ears, Hand, Heard, NODE, dial, dial_as, introduction, listen, local, message};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UnixStream},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::yield_now,
    time::sleep,
};
use tyr_net::{Address, Dialer, End, Handler, Link, Listener, Received, Settings};
use tyr_wire::connection::{Connection, Error, Peer, Refusal, Unsent};

/// A listener and a dialer at a Unix socket, over which whatever is written can be read at once.
async fn pair() -> (TempDir, (Listener, Ears, Link), (Dialer, Ears)) {
    let directory = tempfile::tempdir().unwrap();
    let (listener, mut there) = listen(&Address::Unix(directory.path().join("socket"))).await;
    let (dialer, mut here) = dial(listener.address());
    here.open().await;
    let link = there.opened().await.1;
    (directory, (listener, there, link), (dialer, here))
}

/// Hands in more frames than the window has room for. The receiver keeps what comes, so that the others wait.
async fn three_wait_of_five(link: &Link, receiver: &mut Ears) -> [impl Drop + use<>; 2] {
    for number in 0..5 {
        link.send(message(DATA, &[number; 100_000])).unwrap();
    }
    [receiver.frame().await.2, receiver.frame().await.2]
}

fn expect_ended(link: &Link, dropped: u64) {
    assert!(matches!(link.send(message(DATA, b"late")), Err(Unsent::NotOpen(_))));
    assert_eq!((link.waiting(), link.dropped()), (0, dropped));
}

#[tokio::test]
async fn a_dialer_that_is_dropped_takes_no_more_and_counts_what_is_lost() {
    let (_directory, (_listener, mut there, _), (dialer, mut here)) = pair().await;
    let link = dialer.link().clone();
    let _kept = three_wait_of_five(&link, &mut there).await;
    drop(dialer);
    assert!(matches!(here.end().await, (Some(NODE), End::Closed)));
    expect_ended(&link, 3);
    here.hear_no_more().await;
}

#[tokio::test]
async fn a_listener_that_is_dropped_takes_no_more_and_counts_what_is_lost() {
    let (directory, (listener, mut there, link), (_dialer, mut here)) = pair().await;
    let _kept = three_wait_of_five(&link, &mut here).await;
    drop(listener);
    assert!(matches!(there.end().await, (Some(CLIENT), End::Closed)));
    expect_ended(&link, 3);
    there.hear_no_more().await;
    assert_eq!(directory.path().read_dir().unwrap().count(), 0, "its socket is gone");
}

#[tokio::test]
async fn a_dialer_that_is_dropped_before_it_has_begun_counts_what_is_lost() {
    let (dialer, mut here) = dial(&local());
    let link = dialer.link().clone();
    link.send(message(DATA, b"early")).unwrap();
    drop(dialer);
    here.hear_no_more().await;
    expect_ended(&link, 1);
}

#[tokio::test]
async fn a_dialer_that_closes_without_a_connection_counts_what_is_lost() {
    let (dialer, mut here) = dial(&Address::Unix("/nonexistent/socket".into()));
    here.end().await;
    let link = dialer.link().clone();
    link.send(message(DATA, b"early")).unwrap();
    dialer.close().await;
    expect_ended(&link, 1);
}

#[tokio::test]
async fn what_waits_when_a_connection_fails_is_counted_as_lost() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (dialer, mut here) = dial(&Address::Tcp(socket.local_addr().unwrap().to_string()));
    let mut hand = Hand::welcome(socket.accept().await.unwrap().0, introduction(NODE).limits).await;
    here.open().await;
    for _ in 0..5 {
        dialer.link().send(message(DATA, &[0; 100_000])).unwrap();
    }
    hand.frame().await;
    hand.frame().await;
    hand.stream.write_all(&[1; 20]).await.unwrap();
    assert!(matches!(here.end().await, (Some(NODE), End::Failed(_))));
    assert_eq!((dialer.link().waiting(), dialer.link().dropped()), (0, 3));
}

/// Says something more when it hears of the end.
struct Late(UnboundedSender<Result<(), Unsent>>);

impl Handler for Late {
    fn received(&self, _: &Link, _: Received<'_>) {}

    fn closed(&self, link: &Link, _: Option<&Peer>, _: &End) {
        let _ = self.0.send(link.send(message(DATA, b"late")));
    }
}

#[tokio::test]
async fn the_link_of_a_listener_takes_nothing_once_its_end_is_told() {
    let (sender, mut told) = unbounded_channel();
    let listener =
        Listener::bind(&local(), introduction(NODE), Arc::new(Late(sender)), Settings::default()).await;
    let (dialer, mut here) = dial(listener.as_ref().unwrap().address());
    here.open().await;
    dialer.close().await;
    assert!(matches!(told.recv().await.unwrap(), Err(Unsent::NotOpen(_))));
}

/// Receives what was handed in, and takes most of a peer's patience for each; time passes as soon as there is nothing else to do.
async fn take_slowly(receiver: &mut Ears) -> End {
    for number in 0..20 {
        let Heard::Frame(_, body, receipt) = receiver.next().await else { panic!("it is cut off") };
        assert_eq!(body, [number; 100_000]);
        sleep(Settings::default().silence_max - Duration::from_secs(1)).await;
        drop(receipt);
    }
    receiver.end().await.1
}

#[tokio::test(start_paused = true)]
async fn a_dialer_that_closes_waits_as_long_as_something_moves() {
    let (_directory, (_listener, mut there, _), (dialer, _here)) = pair().await;
    let link = dialer.link().clone();
    (0..20).for_each(|number| link.send(message(DATA, &[number; 100_000])).unwrap());
    let ((), end) = tokio::join!(dialer.close(), take_slowly(&mut there));
    assert!(matches!(end, End::Closed));
    expect_ended(&link, 0);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_closes_waits_as_long_as_something_moves() {
    let (_directory, (listener, _there, link), (_dialer, mut here)) = pair().await;
    (0..20).for_each(|number| link.send(message(DATA, &[number; 100_000])).unwrap());
    let ((), end) = tokio::join!(listener.close(), take_slowly(&mut here));
    assert!(matches!(end, End::Closed));
    expect_ended(&link, 0);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_closes_does_not_wait_for_a_stranger_who_goes_on_talking() {
    let (listener, _there) = listen(&local()).await;
    let mut stranger = TcpStream::connect(listener.address().to_string()).await.unwrap();
    let talks = async {
        for _ in 0..20 {
            // Once it is hung up on nobody takes it.
            let _refused = stranger.write_all(&[0]).await;
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = listener.close() => {}
        () = talks => panic!("it is waited for"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_closes_does_not_wait_for_a_peer_that_is_there_and_takes_nothing() {
    let (_directory, (_listener, mut there, _), (dialer, mut here)) = pair().await;
    let link = dialer.link().clone();
    let _kept = three_wait_of_five(&link, &mut there).await;
    dialer.close().await;
    assert!(matches!(here.end().await, (Some(NODE), End::Silent)));
    expect_ended(&link, 3);
}

#[tokio::test(start_paused = true)]
async fn a_dialer_that_closes_does_not_wait_for_an_attempt() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let socket = socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap();
    // The system completes so many connections that nobody accepts, and lets others wait.
    let (first, second) = (std::net::TcpStream::connect(address), std::net::TcpStream::connect(address));
    let _waiting = (first.unwrap(), second.unwrap());
    let (dialer, mut here) = dial(&Address::Tcp(address.to_string()));
    // It has begun after this.
    yield_now().await;
    dialer.close().await;
    assert!(matches!(here.end().await, (None, End::Closed)));
}

#[tokio::test]
async fn a_listener_that_drains_is_not_there_for_others_and_tells_those_who_have_dialed() {
    let (_directory, (listener, _there, link), (_dialer, mut here)) = pair().await;
    let Address::Unix(path) = listener.address().clone() else { panic!("it is a path") };
    let kept = three_wait_of_five(&link, &mut here).await;
    let mut early = UnixStream::connect(&path).await.unwrap();
    let closing = tokio::spawn(listener.close());
    let (mut said, mut dialer) = (Vec::new(), Connection::dial(introduction(CLIENT)));
    early.read_to_end(&mut said).await.unwrap();
    dialer.receive(&said);
    assert_eq!(dialer.poll(), Err(Error::Refused(Refusal::Stopping)));
    drop(early);
    assert!(UnixStream::connect(&path).await.is_err());
    let (_late, mut heard) = dial_as(&Address::Unix(path), introduction(CLIENT), Settings::default());
    assert!(matches!(heard.end().await, (None, End::Lost(_))));
    assert!(!closing.is_finished());
    drop(kept);
    for number in 2..5 {
        assert_eq!(here.body().await, [number; 100_000]);
    }
    closing.await.unwrap();
}
