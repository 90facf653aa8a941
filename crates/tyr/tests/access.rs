//! Tests that try to get in: with wrong, expired, altered, forged, and replayed tokens, as somebody else, with too few rights, and after these
//! were taken away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "access/door.rs"]
mod door;
#[path = "access/kit.rs"]
mod kit;

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use kit::{Cluster, Raw, SECRET, logged, open, opened, refusal};
use tyr_client::{ErrorKind, KeyspaceSettings, Token as ClientToken};
use tyr_net::{Address, Credential, HatchOwner, HatchReader, Holder, Secret};
use tyr_proto::{
    BlobName, ChunkName, ClassId, Epoch, Extent, Freeze, PartitionId, SessionId,
    access::Rights,
    cluster::{Command, Fact, Request, Response},
    encoding::to_bytes,
    message::{Answer, Message, RequestId},
};
use tyr_server::{ClusterCommand, Guarding, Scope, Server, Token, read_claims};
use tyr_types::{Key, KeyspaceId, Number};
use tyr_wire::connection::{Frame, Header, Introduction, Kind, Party, Refusal};

const READ_WRITE: &[(&str, Rights)] = &[("events", Rights::READ)];

#[test]
fn nobody_comes_in_without_a_token_of_the_cluster() {
    let cluster = Cluster::start();
    let token = cluster.user("ada", READ_WRITE);
    let address = cluster.address();
    let none = open(&address, Credential::None).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Denied);
    assert!(none.to_string().contains("asks for a token"), "{none}");

    // Each digit in turn is another one. Those of the holder's secret half make it another holder's.
    let text = token.to_text();
    let step = text.len() / 24;
    for place in (5..text.len()).step_by(step) {
        let digit = if text.as_bytes()[place] == b'0' { "1" } else { "0" };
        let mut altered = text.clone();
        altered.replace_range(place..=place, digit);
        let altered = Token::parse(&altered).unwrap();
        let error = open(&address, Credential::Token(altered)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "digit {place}: {error}");
    }

    // What it says under another seal, and more than it says.
    let mut claims = read_claims(&token).unwrap();
    let (forger, holder) = (Holder::generate().unwrap(), Holder::generate().unwrap());
    claims.holder = holder.public();
    claims.expires += 1 << 30;
    let forged = Token::new(&forger.seal(&to_bytes(&claims)), holder);
    let error = open(&address, Credential::Token(forged)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);

    let other = Cluster::start();
    let foreign = other.user("ada", READ_WRITE);
    let error = open(&address, Credential::Token(foreign)).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("not valid"), "{error}");

    let wrong = Secret::new(b"another secret of sixteen bytes or more").unwrap();
    let error = open(&address, Credential::Secret(wrong)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    opened(&address, Credential::Token(token)).keyspace("events").unwrap();
}

#[test]
fn a_token_is_void_when_its_time_is_over() {
    let cluster = Cluster::start();
    cluster.user("ada", READ_WRITE);
    let token = cluster.token("ada", 1, Vec::new());
    let store = open(&cluster.address(), Credential::Token(token.clone()));
    // Until then it may be good; from then on it is not, and who came with it is hung up on.
    let error = loop {
        if let Err(error) = open(&cluster.address(), Credential::Token(token.clone())) {
            break error;
        }
        std::thread::yield_now();
    };
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("expired"), "{error}");
    if let Ok(store) = store {
        let error = store.keyspace("events").unwrap().read("a", ..).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    }
}

/// Carries a connection to a node and keeps what the dialer says.
fn overhear(node: &Address) -> (Address, Arc<Mutex<Vec<u8>>>) {
    let Address::Tcp(node) = node.clone() else { panic!("it is a TCP address") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap().to_string());
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let keep = heard.clone();
    std::thread::spawn(move || {
        // The last one who comes, since he may have to come twice.
        for dialer in listener.incoming() {
            let mut dialer = dialer.unwrap();
            keep.lock().unwrap().clear();
            let mut onward = TcpStream::connect(&node).unwrap();
            let (mut back, mut to_dialer) = (onward.try_clone().unwrap(), dialer.try_clone().unwrap());
            std::thread::spawn(move || {
                // Either may hang up.
                let _ended = std::io::copy(&mut back, &mut to_dialer);
                let _ended = to_dialer.shutdown(Shutdown::Both);
            });
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = dialer.read(&mut buffer) {
                keep.lock().unwrap().extend_from_slice(&buffer[..count]);
                if onward.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
        }
    });
    (address, heard)
}

/// The whole frame of a kind among these bytes.
fn frame_of(kind: Kind, mut bytes: &[u8]) -> Option<Vec<u8>> {
    while let Ok(Some((header, _))) = Header::parse(bytes, 1 << 20) {
        let (frame, rest) = bytes.split_at(header.frame_size());
        if header.kind == kind {
            return Some(frame.to_vec());
        }
        bytes = rest;
    }
    None
}

#[test]
fn what_was_overheard_is_of_no_use_on_another_connection() {
    let cluster = Cluster::start();
    let token = cluster.user("ada", READ_WRITE);
    for credential in [Credential::Token(token.clone()), cluster.operator_credential()] {
        let (address, heard) = overhear(&cluster.address());
        opened(&address, credential);
        let heard = heard.lock().unwrap().clone();
        let (hello, proof) = (frame_of(Kind::Hello, &heard).unwrap(), frame_of(Kind::Proof, &heard).unwrap());
        let Address::Tcp(node) = cluster.address() else { panic!("it is a TCP address") };
        let mut stream = TcpStream::connect(node).unwrap();
        stream.write_all(&hello).unwrap();
        stream.write_all(&proof).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        assert!(frame_of(Kind::Challenge, &said).is_some());
        assert!(frame_of(Kind::Welcome, &said).is_none(), "the proof was taken again");
        assert!(frame_of(Kind::Refused, &said).is_some());
        // Neither the secret nor the secret half of the token has gone by.
        let seed = &token.to_text()[5..69];
        let hex: String = heard.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!hex.contains(seed) && !heard.windows(SECRET.len()).any(|window| window == SECRET));
    }
}

#[test]
fn a_user_is_nobody_else() {
    let cluster = Cluster::start();
    let token = Credential::Token(cluster.user("ada", READ_WRITE));
    let as_party = |party| refusal(&cluster.address(), Introduction::new(party, None), token.clone());
    assert_eq!(as_party(Party::Node { node: 1, incarnation: 1 << 40 }), Some(Refusal::Denied));
    assert_eq!(as_party(Party::Newcomer { identity: 7 }), Some(Refusal::Denied));
    assert_eq!(as_party(Party::Client { session: 7 }), None);
    let old = Introduction { versions: 1..=1, ..Introduction::new(Party::Client { session: 7 }, None) };
    assert_eq!(refusal(&cluster.address(), old, token.clone()), Some(Refusal::Denied), "an older version");

    // The session of somebody who is there.
    let mut ada = Raw::dial(&cluster.address(), 77, token);
    let reports = |response: Option<Response>| matches!(response, Some(Response::Report(_)));
    assert!(reports(ada.ask(&Request::Report)));
    let bob = Credential::Token(cluster.user("bob", READ_WRITE));
    let mut thief = Raw::dial(&cluster.address(), 77, bob);
    assert_eq!(thief.ask(&Request::Report), None, "it is hung up on");
    assert!(reports(ada.ask(&Request::Report)), "she is not disturbed");
}

/// What a client can ask of a partition that tells something of a blob.
fn questions(blob: &BlobName, request: RequestId) -> Vec<Message> {
    let chunk = ChunkName { blob: blob.clone(), index: 0 };
    let partition = PartitionId { class: ClassId(0), index: 0 };
    let freeze = |stays, extent| Message::Freeze {
        freeze: Arc::new(Freeze { request, stays, extent }),
        stands: Vec::new(),
    };
    vec![
        Message::Look { request, blob: blob.clone() },
        Message::Get { request, blob: blob.clone(), size_max: 100 },
        Message::GetWith { request, blob: blob.clone(), size_max: 100, others: vec![blob.clone()] },
        Message::Borrow { request, blob: blob.clone(), size_max: 100 },
        Message::Stat { request, blobs: vec![blob.clone()] },
        Message::Read { request, chunk: chunk.clone(), range: 0..10, at: None },
        Message::Locate { request, chunk, range: 0..10, at: None },
        Message::Scan { request, after: blob.clone(), inclusive: true, limit: 10 },
        freeze(false, Extent::Blobs(vec![(partition, blob.clone())])),
        freeze(true, Extent::Blobs(vec![(partition, blob.clone())])),
        freeze(false, Extent::Prefixes(vec![(blob.keyspace, b""[..].into())])),
    ]
}

#[test]
fn a_client_reads_and_writes_what_it_has_rights_to_and_nothing_else() {
    let cluster = Cluster::start();
    let token = Credential::Token(cluster.user("ada", &[("events", Rights::READ | Rights::WRITE)]));
    let store = opened(&cluster.address(), token.clone());
    let (events, secrets) = (store.keyspace("events").unwrap(), store.keyspace("secrets").unwrap());
    events.append("a", b"hers").unwrap();
    assert_eq!(events.read("a", ..).unwrap(), b"hers");
    let denied = |error: tyr_client::Error| assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    denied(secrets.read("a", ..).unwrap_err());
    denied(secrets.get("a").map(drop).unwrap_err());
    denied(secrets.stat("a").map(drop).unwrap_err());
    denied(secrets.scan("", None, 10).map(drop).unwrap_err());
    denied(secrets.append("a", b"x").map(drop).unwrap_err());
    denied(secrets.append("a", vec![7; 3 << 20]).map(drop).unwrap_err());
    denied(store.snapshot(&[&secrets]).map(drop).unwrap_err());
    denied(store.run(|transaction| transaction.read(&secrets, "a", ..).map(drop)).map(drop).unwrap_err());
    // What it may do does not carry what it may not.
    let both = store.run(|transaction| {
        transaction.put(&events, "a", b"changed")?;
        transaction.put(&secrets, "a", b"changed")
    });
    denied(both.map(drop).unwrap_err());
    assert_eq!(events.read("a", ..).unwrap(), b"hers", "all or nothing");
    denied(store.create_keyspace("mine", KeyspaceSettings::default()).map(drop).unwrap_err());
    denied(store.drop_keyspace("events").unwrap_err());

    // Past the client, message by message.
    let mut raw = Raw::dial(&cluster.address(), 77, token);
    let blob = |keyspace: KeyspaceId| BlobName { keyspace, key: Key::new("a").unwrap() };
    let (events, secrets) = (cluster.keyspace("events"), cluster.keyspace("secrets"));
    for (number, message) in questions(&blob(secrets), request(77, 0)).into_iter().enumerate() {
        let message_text = format!("{message:?}");
        let answer = raw.tell(message);
        assert!(matches!(answer, Some(Answer::Denied { .. })), "{number} {message_text}: {answer:?}");
    }
    // A list of one's own names tells nothing of the others'.
    let partitions = (0..kit::PARTITIONS).map(|index| PartitionId { class: ClassId(0), index });
    for partition in partitions {
        let after = BlobName { keyspace: events, key: Key::new([0]).unwrap() };
        let scan = Message::Scan { request: request(77, 1), after, inclusive: true, limit: 1000 };
        if let Some(Answer::Names { names, .. }) = raw.tell_to(partition, scan) {
            assert!(names.iter().all(|name| name.keyspace == events), "{names:?}");
        }
    }
    // In the name of another session, and what only nodes say: nobody answers, so the next thing is answered first.
    let own = Message::Look { request: request(77, 5), blob: blob(secrets) };
    let foreign = [
        Message::Look { request: request(78, 2), blob: blob(events) },
        Message::Stored { epoch: Epoch(1), index: 1 << 30, node: tyr_proto::NodeId(1), is_short: false },
        Message::AskPins { epoch: Epoch(1), blobs: vec![(blob(secrets), Number::ZERO)] },
        Message::Pin { request: request(78, 3), keep: false },
    ];
    for message in foreign {
        raw.send(message);
        // Nor is an answer heard to what others were asked.
        raw.reply(&Response::Evicted(tyr_proto::Replica {
            node: tyr_proto::NodeId(1),
            incarnation: tyr_proto::Incarnation(1),
        }));
        let answer = raw.tell(own.clone());
        assert!(matches!(answer, Some(Answer::Denied { request }) if request.number == 5), "{answer:?}");
    }
}

fn request(session: u64, number: u64) -> RequestId {
    RequestId { session: SessionId(session), number }
}

#[test]
fn a_client_administers_what_it_has_rights_to_and_nothing_else() {
    let cluster = Cluster::start();
    let token = Credential::Token(cluster.user("ada", &[("events", Rights::ALL)]));
    let ada = cluster.account("ada");
    let mut raw = Raw::dial(&cluster.address(), 77, token.clone());
    let (events, secrets) = (cluster.keyspace("events"), cluster.keyspace("secrets"));
    let grant = |scope| Command::Grant { account: ada, scope, more: Rights::ALL, less: Rights::NONE };
    let seal = tyr_proto::cluster::Seal { public: [1; 32], salt: [1; 32] };
    let denied = [
        Request::Command(grant(Scope::Cluster)),
        Request::Command(grant(Scope::Keyspaces)),
        Request::Command(grant(Scope::Keyspace(secrets))),
        Request::Command(Command::DropKeyspace(secrets)),
        Request::Command(Command::RemoveAccount(ada)),
        Request::Command(Command::Drain(tyr_proto::NodeId(1))),
        Request::Command(Command::AddSeal(tyr_proto::cluster::SealId(2), seal)),
        Request::Command(Command::Advance(tyr_proto::RingVersion(1))),
        Request::Seal,
        Request::Token(tyr_proto::cluster::TokenOrder {
            user: ada,
            lifetime: 1,
            limits: Vec::new(),
            holder: [0; 32],
        }),
    ];
    for request in denied {
        let response = raw.ask(&request);
        assert!(matches!(response, Some(Response::Denied(..))), "{request:?}: {response:?}");
    }
    let granted = raw.ask(&Request::Command(grant(Scope::Keyspace(events))));
    assert!(matches!(granted, Some(Response::Replied(Ok(_)))), "{granted:?}");
    // She administers something, so she sees accounts; bob sees none.
    let accounts = |raw: &mut Raw| match raw.ask(&Request::Newest(tyr_proto::RingVersion(0))) {
        Some(Response::Ring(told)) => {
            let is_account = |fact: &&Fact| matches!(fact, Fact::Account(..) | Fact::Seal(..));
            told.facts.iter().filter(is_account).count()
        }
        other => panic!("{other:?}"),
    };
    let bob = Credential::Token(cluster.user("bob", READ_WRITE));
    assert!(accounts(&mut raw) >= 2);
    assert_eq!(accounts(&mut Raw::dial(&cluster.address(), 78, bob)), 0);

    // What is gone is written down by the name that it had.
    let operator = opened(&cluster.address(), cluster.operator_credential());
    let passing = operator.create_keyspace("passing", KeyspaceSettings::default()).unwrap();
    operator.create_snapshot(&passing, "noon").unwrap();
    operator.drop_snapshot(&passing, "noon").unwrap();
    operator.drop_keyspace("passing").unwrap();
    let audited = cluster.audited(|text| text.contains("drop keyspace"));
    for (action, subject) in
        [("create snapshot", "passing@noon"), ("drop snapshot", "passing@noon"), ("drop keyspace", "passing")]
    {
        let expected = format!("\"action\":\"{action}\",\"subject\":\"{subject}\",\"result\":\"done\"");
        assert!(audited.contains(&expected), "{expected}: {audited}");
    }

    // All of that is written down, and who was denied what.
    let audited = cluster.audited(|text| text.contains("denied") && text.contains("\"granted\""));
    assert!(
        audited.contains("\"who\":\"user ada\"") && audited.contains("\"from\":\"127.0.0.1:"),
        "{audited}"
    );
    assert!(
        audited.contains("\"action\":\"drain\",\"subject\":\"node 1\",\"result\":\"denied\""),
        "{audited}"
    );
}

#[test]
fn who_administers_a_keyspace_takes_and_drops_its_snapshots_and_reads_nothing_of_them() {
    let cluster = Cluster::start();
    let ada = Credential::Token(cluster.user("ada", &[("events", Rights::ADMINISTER)]));
    let store = opened(&cluster.address(), ada);
    let events = store.keyspace("events").unwrap();
    store.create_snapshot(&events, "monday").unwrap();
    let denied = |error: tyr_client::Error| assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    denied(store.open_snapshot(&events, "monday").map(drop).unwrap_err());
    store.drop_snapshot(&events, "monday").unwrap();

    let bob = Credential::Token(cluster.user("bob", &[("events", Rights::READ | Rights::WRITE)]));
    let store = opened(&cluster.address(), bob.clone());
    let events = store.keyspace("events").unwrap();
    denied(store.create_snapshot(&events, "tuesday").unwrap_err());
    let extent = Extent::Keyspace(cluster.keyspace("events"), tyr_proto::SnapshotId(1));
    let freeze = Arc::new(Freeze { request: request(77, 1), stays: false, extent });
    let taken = Raw::dial(&cluster.address(), 77, bob).tell(Message::Freeze { freeze, stands: Vec::new() });
    assert!(matches!(taken, Some(Answer::Denied { .. })), "{taken:?}");
    let audited = cluster.audited(|text| text.contains("take snapshot"));
    let lines = |who: &str, action: &str, result: &str| {
        let has =
            |line: &&str| [who, action, result].iter().all(|part| line.contains(&format!("\"{part}\"")));
        audited.lines().filter(has).count()
    };
    for action in ["create snapshot", "complete snapshot", "drop snapshot"] {
        assert_eq!(lines("user ada", action, "done"), 1, "{action}: {audited}");
    }
    for action in ["create snapshot", "take snapshot"] {
        assert_eq!(lines("user bob", action, "denied"), 1, "{action}: {audited}");
    }
}

#[test]
fn a_token_lets_through_no_more_than_it_says() {
    let cluster = Cluster::start();
    cluster.user("ada", &[("events", Rights::ALL), ("secrets", Rights::ALL)]);
    let events = Scope::Keyspace(cluster.keyspace("events"));
    let token = cluster.token("ada", 3600, vec![(events, Rights::READ)]);
    let store = opened(&cluster.address(), Credential::Token(token));
    let (events, secrets) = (store.keyspace("events").unwrap(), store.keyspace("secrets").unwrap());
    assert_eq!(events.read("a", ..).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(events.append("a", b"x").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(secrets.read("a", ..).unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn rights_that_are_taken_away_are_gone_on_open_connections() {
    let cluster = Cluster::start();
    let rights = &[("events", Rights::READ | Rights::WRITE)];
    let token = cluster.user("ada", rights);
    let store = opened(&cluster.address(), Credential::Token(token.clone()));
    let events = store.keyspace("events").unwrap();
    events.append("a", b"x").unwrap();
    let events_scope = Scope::Keyspace(cluster.keyspace("events"));
    cluster.command(ClusterCommand::Grant {
        account: cluster.account("ada"),
        scope: events_scope,
        more: Rights::NONE,
        less: Rights::WRITE,
    });
    let mut appended = 1;
    let error = loop {
        match events.append("a", b"x") {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // What was denied has not happened, and what was acknowledged has.
    assert_eq!(events.read("a", ..).unwrap().len(), appended);

    // The token itself.
    let account = cluster.account("ada");
    cluster.command(ClusterCommand::RevokeTokens { user: account, before: 1 });
    let error = std::iter::repeat_with(|| events.read("a", ..)).find_map(Result::err).unwrap();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("revoked"), "{error}");
    let error = open(&cluster.address(), Credential::Token(token)).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("revoked"), "{error}");

    // One that is made later is good, until its seal is removed, or the user.
    let later = cluster.token("ada", 3600, Vec::new());
    let store = opened(&cluster.address(), Credential::Token(later.clone()));
    store.keyspace("events").unwrap().read("a", ..).unwrap();
    cluster.operator().seal().unwrap().unwrap();
    opened(&cluster.address(), Credential::Token(later.clone()));
    cluster.command(ClusterCommand::RemoveSeal(tyr_server::SealId(1)));
    let until_refused = |token: &Token| {
        std::iter::repeat_with(|| open(&cluster.address(), Credential::Token(token.clone())))
            .find_map(Result::err)
            .unwrap()
    };
    assert_eq!(until_refused(&later).kind(), ErrorKind::Denied);
    let last = cluster.token("ada", 3600, Vec::new());
    opened(&cluster.address(), Credential::Token(last.clone()));
    cluster.command(ClusterCommand::RemoveAccount(account));
    assert_eq!(until_refused(&last).kind(), ErrorKind::Denied);
}

#[test]
fn who_reads_what_a_voter_keeps_can_make_no_token() {
    let cluster = Cluster::start();
    cluster.user("ada", READ_WRITE);
    let facts = cluster.facts().facts;
    let public = facts.iter().find_map(|fact| match fact {
        Fact::Seal(_, Some(public)) => Some(*public),
        _ => None,
    });
    let public = public.unwrap();
    let files = fs::read_dir(cluster.directory().join("manager")).unwrap();
    let mut times_kept = 0;
    for path in files.map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
        let bytes = fs::read(path).unwrap();
        for at in 0..bytes.len().saturating_sub(96) {
            if bytes[at..].starts_with(&public) {
                times_kept += 1;
                let near = &bytes[at.saturating_sub(96)..at + 96];
                let makes = |seed: &[u8]| Holder::of(seed.try_into().unwrap()).unwrap().public() == public;
                assert!(!near.windows(32).any(makes), "the secret half is beside the public one");
            }
        }
    }
    assert!(times_kept > 0, "seals are kept");
}

#[test]
fn groups_give_rights_and_take_them_away() {
    let cluster = Cluster::start();
    let token = cluster.user("ada", &[]);
    let store = opened(&cluster.address(), Credential::Token(token));
    let events = store.keyspace("events").unwrap();
    let denied = || events.append("a", b"x").unwrap_err().kind() == ErrorKind::Denied;
    assert!(denied());
    let group = cluster.group("writers", &[("events", Rights::WRITE)]);
    let user = cluster.account("ada");
    cluster.command(ClusterCommand::Enroll { user, group });
    std::iter::repeat_with(|| events.append("a", b"x")).find_map(Result::ok).unwrap();
    assert_eq!(events.read("a", ..).unwrap_err().kind(), ErrorKind::Denied, "to write is not to read");
    cluster.command(ClusterCommand::Dismiss { user, group });
    while !denied() {}
    cluster.command(ClusterCommand::Enroll { user, group });
    std::iter::repeat_with(|| events.append("a", b"x")).find_map(Result::ok).unwrap();
    cluster.command(ClusterCommand::RemoveAccount(group));
    while !denied() {}
}

#[test]
fn files_are_handed_only_to_who_may_read_everything() {
    let cluster = Cluster::start();
    let operator = opened(&cluster.address(), cluster.operator_credential());
    let large = vec![7; 1 << 20];
    operator.keyspace("events").unwrap().put("large", large.clone()).unwrap();
    // Who may read everything reads files.
    let all = cluster.user("reader", &[]);
    let reader = cluster.account("reader");
    let everything =
        |more, less| ClusterCommand::Grant { account: reader, scope: Scope::Keyspaces, more, less };
    cluster.command(everything(Rights::READ, Rights::NONE));
    let store = opened(&cluster.address(), Credential::Token(all.clone()));
    let events = store.keyspace("events").unwrap();
    while store.reads().from_files == 0 {
        match events.read("large", ..) {
            Ok(bytes) => assert!(bytes == large),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Denied, "before the node has heard of it"),
        }
    }
    // Who may read some of it is sent that.
    let some = cluster.user("ada", READ_WRITE);
    let store = opened(&cluster.address(), Credential::Token(some.clone()));
    for _ in 0..20 {
        assert!(store.keyspace("events").unwrap().read("large", ..).unwrap() == large);
    }
    assert_eq!(store.reads().from_files, 0);
    let mut raw = Raw::dial(&cluster.address(), 78, Credential::Token(some));
    assert_eq!(raw.ask(&Request::Hatch), Some(Response::Hatch(None)));

    // At the hatch itself: no ticket, another one, and one of somebody whose rights were taken away.
    let mut raw = Raw::dial(&cluster.address(), 79, Credential::Token(all));
    let Some(Response::Ticket(address, ticket)) = raw.ask(&Request::Hatch) else {
        panic!("there is a hatch")
    };
    let Ok(Address::Unix(path)) = address.as_str().parse() else { panic!("it is a socket") };
    let owner = HatchOwner { cluster: cluster.server.cluster().0, node: 1 };
    let file = cluster.large_file();
    let fetch = |ticket: Option<u128>| {
        cluster.block_on(async {
            let mut reader = HatchReader::dial(&path, owner, ticket).await.unwrap();
            reader.fetch(file).await.unwrap().is_some()
        })
    };
    assert!(fetch(Some(ticket)));
    assert!(!fetch(Some(ticket ^ 1)) && !fetch(Some(0)));
    cluster.command(everything(Rights::NONE, Rights::READ));
    while fetch(Some(ticket)) {}
}

#[test]
fn a_node_with_a_secret_and_one_without_do_not_talk() {
    let cluster = Cluster::start();
    let join = vec![cluster.address()];
    for guarding in
        [Guarding::Insecure, Guarding::Secret(Secret::new(b"another secret of some bytes").unwrap())]
    {
        let directory = tempfile::tempdir().unwrap();
        let settings = kit::settings(directory.path(), guarding);
        let settings = tyr_server::Settings { join: join.clone(), ..settings };
        // It waits for somebody who takes it, for ever: the process of the test ends it.
        std::thread::spawn(move || Server::start(settings).map(drop));
        let refused = || logged().matches("not connected to a node that is named to join by").count();
        let before = refused();
        while refused() == before {
            std::thread::yield_now();
        }
        assert_eq!(cluster.members(), 1);
    }
    // The other way round: one that knows the secret goes to nobody who does not ask for it.
    let directory = tempfile::tempdir().unwrap();
    let open_to_all = Server::start(kit::settings(directory.path(), Guarding::Local)).unwrap();
    let me = Introduction::new(Party::Newcomer { identity: 9 }, None);
    let found = refusal(open_to_all.address(), me, cluster.operator_credential());
    assert_eq!(found, Some(Refusal::Unproved));
    let told = open(open_to_all.address(), cluster.operator_credential()).unwrap_err();
    assert_eq!((told.kind(), told.to_string().contains("without one")), (ErrorKind::Denied, true), "{told}");
}

#[test]
fn no_secret_is_ever_shown() {
    let cluster = Cluster::start();
    let token = cluster.user("ada", READ_WRITE);
    let text = token.to_text();
    let store = opened(&cluster.address(), Credential::Token(token.clone()));
    store.keyspace("events").unwrap().read("a", ..).unwrap_err();
    // Failures, in words.
    let errors = [
        ClientToken::parse(&text[..text.len() - 3]).unwrap_err().to_string(),
        ClientToken::parse(&format!("{text}xyz")).unwrap_err().to_string(),
        open(&cluster.address(), Credential::None).unwrap_err().to_string(),
        format!("{:?} {:?}", Credential::Token(token), cluster.operator_credential()),
        format!("{:?}", cluster.settings()),
    ]
    .join("\n");
    let shown = [logged(), errors, cluster.audited(|text| text.contains("create token")), cluster.metrics()];
    let (seed, sealed) = (&text[5..69], &text[text.len() - 128..]);
    let secret = String::from_utf8(SECRET.to_vec()).unwrap();
    for (place, text) in shown.iter().enumerate() {
        assert!(!text.is_empty());
        for secret in [seed, sealed, &secret] {
            assert!(!text.contains(secret), "{place}");
        }
    }
    assert!(shown[0].contains("TRACE"), "everything is logged here");
    // Nor does a file of the node that others can read: they cannot even look for one.
    let mode = |path: &std::path::Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(cluster.directory()) & 0o077, 0);
    for path in tyr_server::audit_files(cluster.directory()) {
        assert_eq!(mode(&path) & 0o077, 0);
    }
}

/// Frames of the test itself.
#[test]
fn frames_are_found_among_others() {
    let channel = tyr_net::channels::DATA;
    let bytes = [
        Frame::message(channel, |out| out.push(1)).unwrap().bytes().to_vec(),
        Frame::request(channel, 3, |out| out.push(2)).unwrap().bytes().to_vec(),
    ]
    .concat();
    assert_eq!(frame_of(Kind::Request, &bytes).unwrap().last(), Some(&2));
    assert_eq!(frame_of(Kind::Proof, &bytes), None);
}
