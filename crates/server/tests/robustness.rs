//! A server and those who do not behave: whatever they send, or do not, everybody else is served, and memory is bounded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use kit::Driver;
use tempfile::TempDir;
use tyr_net::{Address, channels::DATA};
use tyr_proto::{
    BlobName, BlobPlan, ChunkName, Client, ClientOutput, Keyspace, Operation, Outcome, SessionId, Time,
    cluster::{ClassSettings, Difference, Fact},
    encoding::append_to,
    message::{Envelope, Message, RequestId},
};
use tyr_server::{Server, Settings, Timing};
use tyr_types::{Key, KeyspaceId};
use tyr_wire::connection::{
    Channel, Connection, Error, Event, FRAME_HEADER_SIZE, Frame, Header, Introduction, Party, Refusal,
    VERSIONS,
};

/// What all servers of this process have logged.
fn logged() -> String {
    String::from_utf8_lossy(&log().lock().unwrap()).into_owned()
}

fn log() -> &'static Arc<Mutex<Vec<u8>>> {
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Arc::<Mutex<Vec<u8>>>::default();
        let writer = log.clone();
        let writer = move || Pen(writer.clone());
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .with_writer(writer)
            .init();
        log
    })
}

struct Pen(Arc<Mutex<Vec<u8>>>);

impl Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn settings(directory: &TempDir) -> Settings {
    log();
    Settings {
        class: ClassSettings { partitions: 16, min_replicas: 1, ..ClassSettings::new(3) },
        store: tyr_store::Options {
            segment_size: 4 << 20,
            index_cache: 8 << 20,
            data_cache: 0,
            ..tyr_store::Options::default()
        },
        timing: Timing::near(),
        ..Settings::new(directory.path())
    }
}

fn start(settings: Settings) -> Server {
    let server = Server::start(settings).unwrap();
    assert!(server.wait(Duration::from_secs(60), |status| status.is_ready), "it becomes ready");
    server
}

/// Somebody else is served.
fn expect_service(server: &Server, session: u64) {
    let mut driver = Driver::new(&[server.address().clone()], session);
    let keyspace = driver.keyspace("service");
    let key = session.to_string();
    assert_eq!(driver.append(keyspace, &[&key], b"served"), Outcome::Committed);
    assert_eq!(driver.read(keyspace, &key).unwrap(), b"served");
    assert!(!server.status().has_ended);
}

fn tcp(address: &Address) -> TcpStream {
    let Address::Tcp(host) = address else { panic!("it is a TCP address") };
    let stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// An end of a connection in the hands of the test.
struct Raw {
    stream: TcpStream,
    connection: Connection,
}

impl Raw {
    fn dial(address: &Address, me: Introduction) -> Raw {
        let mut raw = Raw { stream: tcp(address), connection: Connection::dial(me) };
        raw.flush();
        raw
    }

    /// Dials and waits until both have agreed.
    fn open(address: &Address, party: Party) -> Raw {
        let mut raw = Raw::dial(address, Introduction::new(party, None));
        raw.agree().unwrap();
        raw
    }

    fn flush(&mut self) {
        while let Some(frame) = self.connection.transmit() {
            self.stream.write_all(&frame.bytes()).unwrap();
        }
    }

    fn agree(&mut self) -> Result<(), Error> {
        loop {
            match self.connection.poll()? {
                Some(Event::Opened(_)) => return Ok(()),
                Some(_) => panic!("nothing comes before"),
                None => {}
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the server hangs up without a word");
            self.connection.receive(&bytes[..count]);
        }
    }
}

/// Bytes that look random, and are the same each time.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(size).collect()
}

/// Sends as much of it as is taken, and hangs up.
fn throw(address: &Address, bytes: &[u8]) {
    let mut stream = tcp(address);
    // It may be cut off any time.
    let _cut = stream.write_all(bytes);
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

const CLIENT: Party = Party::Client { session: 5 };
const NODE: Party = Party::Node { node: 7, incarnation: 1 << 32 };

fn hello(party: Party) -> Vec<u8> {
    let mut connection = Connection::dial(Introduction::new(party, None));
    connection.transmit().unwrap().bytes().to_vec()
}

#[test]
fn bytes_that_make_no_sense_harm_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(settings(&directory));
    let address = server.address();
    for seed in 0..100 {
        throw(address, &noise(seed, 10 + 37 * usize::try_from(seed).unwrap()));
        for party in [CLIENT, NODE, Party::Newcomer { identity: 3 }] {
            let hello = hello(party);
            // Half of it, damaged, or followed by noise.
            throw(address, &hello[..usize::try_from(seed).unwrap() % hello.len()]);
            let mut damaged = hello.clone();
            damaged[usize::try_from(seed).unwrap() % hello.len()] ^= 1 << (seed % 8);
            throw(address, &damaged);
            throw(address, &[&hello[..], &noise(seed, 300)].concat());
        }
    }
    // A length beyond all bounds, before and after the handshake.
    for length in [1025, 1 << 30, u32::MAX] {
        let header = [&[0; 4][..], &length.to_le_bytes(), &[1; 12]].concat();
        throw(address, &header);
        throw(address, &[hello(CLIENT), header].concat());
    }
    expect_service(&server, 100);
    server.stop().unwrap();
}

#[test]
fn frames_with_any_body_on_any_channel_harm_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(settings(&directory));
    for party in [CLIENT, NODE, Party::Newcomer { identity: 3 }] {
        let mut raw = Raw::open(server.address(), party);
        for seed in 0..400u64 {
            let body = noise(seed, usize::try_from(seed).unwrap());
            for channel in Channel::ALL.into_iter().take(5) {
                let put = |out: &mut Vec<u8>| out.extend_from_slice(&body);
                for frame in [
                    Frame::message(channel, put),
                    Frame::request(channel, seed, put),
                    Frame::reply(channel, seed, put),
                ] {
                    raw.stream.write_all(&frame.unwrap().bytes()).unwrap();
                }
            }
        }
    }
    expect_service(&server, 101);
    server.stop().unwrap();
}

#[test]
fn who_speaks_another_version_or_belongs_elsewhere_is_told_so_and_so_is_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(settings(&directory));
    let refusal = |me: Introduction| match Raw::dial(server.address(), me).agree() {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("it is not refused: {other:?}"),
    };
    let me = Introduction::new(NODE, None);
    let newer = *VERSIONS.end() + 1..=*VERSIONS.end() + 2;
    for versions in [newer, 0..=*VERSIONS.start() - 1] {
        let refusal = refusal(Introduction { versions, ..me.clone() });
        assert_eq!(refusal, Refusal::NoCommonVersion(VERSIONS));
        assert!(refusal.to_string().contains("upgrade the older one"), "{refusal}");
    }
    assert_eq!(refusal(Introduction { cluster: Some(999), ..me.clone() }), Refusal::WrongCluster);
    assert_eq!(refusal(Introduction { wanted: Some(99), ..me }), Refusal::WrongNode);
    expect_service(&server, 102);
    server.stop().unwrap();
    let log = logged();
    assert!(log.contains("upgrade the older one"), "{log}");

    // The other way round: a server that dials one of a later version.
    let later = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: Address = later.local_addr().unwrap().to_string().parse().unwrap();
    let server = Server::start(Settings { join: vec![address], ..settings(&directory) }).unwrap();
    let (mut stream, _) = later.accept().unwrap();
    let versions = *VERSIONS.end() + 7..=*VERSIONS.end() + 8;
    let mut connection = Connection::listen(Introduction { versions, ..Introduction::new(NODE, None) });
    while connection.poll() == Ok(None) {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        connection.receive(&bytes[..count]);
    }
    stream.write_all(&connection.transmit().unwrap().bytes()).unwrap();
    let says = {
        let told = format!("speaks versions {} to {}", VERSIONS.end() + 7, VERSIONS.end() + 8);
        move || logged().contains(&told)
    };
    while !says() {
        std::thread::yield_now();
    }
    expect_service(&server, 103);
    server.stop().unwrap();
}

/// What came over a connection so far.
type Heard = Arc<Mutex<Vec<u8>>>;

/// Passes connections on, and keeps what those who dialed have sent.
struct Proxy {
    address: Address,
    upstream: Arc<OnceLock<Address>>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Proxy {
    fn start() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let (upstream, heard) = (Arc::<OnceLock<Address>>::default(), Arc::<Mutex<Vec<Heard>>>::default());
        let (to, all) = (upstream.clone(), heard.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (from, Some(address)) = (stream.unwrap(), to.get()) else { continue };
                let to = tcp(address);
                to.set_read_timeout(None).unwrap();
                let heard = Heard::default();
                all.lock().unwrap().push(heard.clone());
                let (back_from, back_to) = (to.try_clone().unwrap(), from.try_clone().unwrap());
                std::thread::spawn(move || {
                    carry(from, to, |bytes| heard.lock().unwrap().extend_from_slice(bytes))
                });
                std::thread::spawn(move || carry(back_from, back_to, |_| {}));
            }
        });
        Proxy { address, upstream, heard }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, mut hear: impl FnMut(&[u8])) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count) = from.read(&mut bytes)
        && count > 0
        && to.write_all(&bytes[..count]).is_ok()
    {
        hear(&bytes[..count]);
    }
    let _gone = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// The frames of what was heard, as far as they are whole.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Ok(Some((header, _))) = Header::parse(bytes, 1 << 30) {
        let (frame, rest) = bytes.split_at(header.frame_size());
        frames.push(frame.to_vec());
        bytes = rest;
    }
    frames
}

#[test]
fn what_is_replayed_or_reordered_happens_once() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start();
    let server = start(Settings { advertise: Some(proxy.address.clone()), ..settings(&directory) });
    proxy.upstream.set(server.address().clone()).unwrap();
    let mut driver = Driver::new(std::slice::from_ref(&proxy.address), 77);
    let keyspace = driver.keyspace("events");
    let mut expected = Vec::new();
    for number in 0..30u32 {
        let bytes = number.to_be_bytes();
        assert_eq!(driver.append(keyspace, &["a", "b"], &bytes), Outcome::Committed);
        expected.extend(bytes);
    }
    drop(driver);
    let recordings: Vec<Vec<u8>> =
        proxy.heard.lock().unwrap().iter().map(|heard| heard.lock().unwrap().clone()).collect();
    assert!(recordings.iter().map(Vec::len).sum::<usize>() > 30 * FRAME_HEADER_SIZE);
    for recording in recordings {
        let frames = frames(&recording);
        let Some((hello, rest)) = frames.split_first() else { continue };
        let (reversed, twice) =
            (rest.iter().rev().cloned(), rest.iter().flat_map(|frame| [frame.clone(), frame.clone()]));
        for order in [rest.to_vec(), reversed.collect::<Vec<_>>(), twice.collect()] {
            let mut stream = tcp(server.address());
            let sent = stream.write_all(&[hello.clone(), order.concat()].concat());
            // A farewell in the middle ends it.
            let _cut = sent.and_then(|()| stream.shutdown(Shutdown::Write));
            let _ended = io::copy(&mut stream, &mut io::sink());
        }
    }
    let mut driver = Driver::new(std::slice::from_ref(&proxy.address), 78);
    let keyspace = driver.keyspace("events");
    for key in ["a", "b"] {
        assert_eq!(driver.read(keyspace, key).as_ref(), Some(&expected));
    }
    expect_service(&server, 104);
    server.stop().unwrap();
}

#[test]
fn thousands_of_idle_connections_are_borne() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(settings(&directory));
    let before = memory();
    let open: Vec<Raw> = (0..2000)
        .map(|session| Raw::open(server.address(), Party::Client { session: 1000 + session }))
        .collect();
    let silent: Vec<TcpStream> = (0..500).map(|_| tcp(server.address())).collect();
    expect_service(&server, 105);
    let grown = memory().saturating_sub(before);
    assert!(grown < 600 << 20, "{} connections take {grown} bytes", open.len() + silent.len());
    drop((open, silent));
    expect_service(&server, 106);
    server.stop().unwrap();
}

/// A keyspace as the protocol sees it.
fn keyspace(told: &Difference, id: KeyspaceId) -> Keyspace {
    let class = told.facts.iter().find_map(|fact| match fact {
        Fact::Class(_, settings) => Some(*settings),
        _ => None,
    });
    let found = told.facts.iter().find_map(|fact| match fact {
        Fact::Keyspace(known, keyspace) if *known == id => Some(keyspace),
        _ => None,
    });
    Keyspace::of(found.unwrap(), &class.unwrap()).unwrap()
}

#[test]
fn who_asks_and_does_not_listen_fills_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(settings(&directory));
    let mut driver = Driver::new(&[server.address().clone()], 77);
    let id = driver.keyspace("large");
    assert_eq!(driver.append(id, &["blob"], &[7; 60 << 10]), Outcome::Committed);
    let told = driver.ring();
    let placed = keyspace(&told, id);
    let blob = BlobName { keyspace: id, key: Key::new("blob").unwrap() };
    let partition = placed.partition_of(&blob, 0);
    let chunk = ChunkName { blob, index: 0 };
    let before = memory();
    let mut deaf = Raw::open(server.address(), Party::Client { session: 4 });
    // Two gigabytes of answers.
    for number in 0..35_000 {
        let request = RequestId { session: SessionId(4), number };
        let message = Message::Read { request, chunk: chunk.clone(), range: 0..60 << 10, at: None };
        let frame = Frame::message(DATA, |out| append_to(out, &Envelope { partition, message })).unwrap();
        if deaf.stream.write_all(&frame.bytes()).is_err() {
            break;
        }
    }
    assert_eq!(driver.append(id, &["blob"], b"."), Outcome::Committed, "others are served meanwhile");
    let grown = memory().saturating_sub(before);
    assert!(grown < 400 << 20, "{grown} bytes wait for one who does not listen");
    drop(deaf);
    expect_service(&server, 107);
    server.stop().unwrap();
}

#[test]
fn a_client_whose_dead_connection_was_opened_after_its_living_one_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(settings(&directory));
    let mut driver = Driver::new(&[server.address().clone()], 77);
    let id = driver.keyspace("small");
    let content = b"what the answer holds";
    assert_eq!(driver.append(id, &["blob"], content), Outcome::Committed);
    let told = driver.ring();
    let blob = BlobName { keyspace: id, key: Key::new("blob").unwrap() };
    let partition = keyspace(&told, id).partition_of(&blob, 0);
    let party = Party::Client { session: 9 };
    let mut living = Raw::open(server.address(), party);
    let dead = Raw::open(server.address(), party);
    drop(dead);
    // Until the node has seen that, what it answers goes to nobody; a client says again what it asked.
    living.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut buffer = [0; 4096];
    for number in 0.. {
        let request = RequestId { session: SessionId(9), number };
        let message = Message::Get { request, blob: blob.clone(), size_max: 100 };
        let frame = Frame::message(DATA, |out| append_to(out, &Envelope { partition, message })).unwrap();
        living.stream.write_all(&frame.bytes()).unwrap();
        match living.stream.read(&mut buffer) {
            Ok(count) if buffer[..count].windows(content.len()).any(|part| part == content) => break,
            Ok(count) => assert_ne!(count, 0, "the connection lives"),
            Err(error) => assert!(number < 200, "nothing is answered: {error}"),
        }
    }
    server.stop().unwrap();
}

#[test]
fn who_says_hello_byte_by_byte_is_heard_and_holds_up_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(settings(&directory));
    let mut slow =
        Raw { stream: tcp(server.address()), connection: Connection::dial(Introduction::new(CLIENT, None)) };
    let hello = slow.connection.transmit().unwrap();
    for byte in hello.bytes().iter() {
        slow.stream.write_all(&[*byte]).unwrap();
    }
    slow.agree().unwrap();
    let _stuck = tcp(server.address()).write_all(&hello.bytes()[..30]);
    expect_service(&server, 108);
    server.stop().unwrap();
}

#[test]
fn clients_that_vanish_amid_their_payload_leave_nothing_in_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(settings(&directory));
    let mut driver = Driver::new(&[server.address().clone()], 77);
    let id = driver.keyspace("large");
    let told = driver.ring();
    let keyspaces = Arc::new([(id, keyspace(&told, id))].into_iter().collect());
    for session in 200..220u64 {
        let mut client = Client::new(SessionId(session), Arc::clone(&keyspaces));
        for fact in &told.facts {
            if let Fact::Partition(id, configuration, _) = fact {
                client.handle_configuration(*id, configuration.clone());
            }
        }
        client.handle_ring_version(told.reached.unwrap());
        let blob = BlobName { keyspace: id, key: Key::new("blob").unwrap() };
        let operations = vec![Operation::Append { bytes: vec![7; 3 << 20].into() }];
        client.commit(Time(1), vec![BlobPlan::blind(blob, operations)], None);
        let outputs: Vec<ClientOutput> = std::iter::from_fn(|| client.poll_output()).collect();
        assert!(!outputs.is_empty());
        let mut raw = Raw::open(server.address(), Party::Client { session });
        for output in outputs {
            let ClientOutput::Send(_, envelope) = output else { continue };
            let frame = Frame::message(DATA, |out| append_to(out, &envelope)).unwrap();
            // The last of it is cut off, so that the next one makes no sense: the server may have hung up by then.
            let size = frame.size() - usize::try_from(session % 3).unwrap();
            let _hung_up = raw.stream.write_all(&frame.bytes()[..size]);
        }
    }
    assert_eq!(driver.append(id, &["blob"], b"mine"), Outcome::Committed);
    expect_service(&server, 109);
    server.stop().unwrap();
}
