//! What callers are told when a cluster does not answer, and that nothing is left half done.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use kit::Kit;
use tyr_client::{ErrorKind, Keyspace, KeyspaceSettings, Outcome, Store, blocking};
use tyr_proto::Refusal;

/// For who is not to be answered.
const SHORT: Duration = Duration::from_millis(300);
/// For who is, however busy the machine.
const LONG: Duration = Duration::from_secs(3600);

fn open(kit: &Kit) -> (blocking::Store, blocking::Keyspace) {
    let store = blocking::Store::options().deadline(LONG).open(kit.url()).unwrap();
    let keyspace = match store.keyspace("files") {
        Ok(keyspace) => keyspace,
        Err(_) => store.create_keyspace("files", KeyspaceSettings::default()).unwrap(),
    };
    (store, keyspace)
}

/// Has a future begin, and drops it. False if it was done at once: whoever answers may be faster than who goes on to wait.
fn is_left(future: impl Future) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn who_reaches_nobody_is_told_whom() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = blocking::Store::options().connect_timeout(SHORT);
    let error = options.open(format!("tyr://{nobody}")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains(&nobody.to_string()), "{error}");
    let error = blocking::Store::open("tyr://127.0.0.1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn reads_that_nobody_answers_end_at_their_deadline() {
    let kit = Kit::start(1);
    let (_, files) = open(&kit);
    files.put("a", b"x").unwrap();
    let store = blocking::Store::options().deadline(SHORT).open(kit.url()).unwrap();
    let files_soon = store.keyspace("files").unwrap();
    kit.set_deaf(true);
    for error in [
        files_soon.read("a", ..).unwrap_err(),
        files_soon.stat("a").unwrap_err(),
        files_soon.scan("", None, 1).unwrap_err(),
        store.snapshot(&[&files_soon]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.message().contains("no answer came"), "{error}");
    }
    kit.set_deaf(false);
    assert_eq!(files.read("a", ..).unwrap(), b"x");
}

#[test]
fn a_handle_may_have_a_deadline_of_its_own() {
    let kit = Kit::start(1);
    let (store, files) = open(&kit);
    files.put("a", b"x").unwrap();
    let (store_soon, files_soon) = (store.within(SHORT), files.within(SHORT));
    assert_eq!(files.within(LONG / 2).read("a", ..).unwrap(), b"x");
    kit.set_deaf(true);
    let mut transaction = store_soon.begin();
    for error in [
        files_soon.read("a", ..).unwrap_err(),
        files_soon.append("log", b"y").unwrap_err(),
        store_soon.snapshot(&[&files]).unwrap_err(),
        transaction.read(&files, "a", ..).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.message().contains("no answer came"), "{error}");
    }
    drop(transaction);
    let waiting = std::thread::scope(|scope| {
        let waits = scope.spawn(|| files.read("a", ..));
        // Those with a short deadline give up one after the other while it waits.
        for _ in 0..3 {
            files_soon.read("a", ..).unwrap_err();
        }
        assert!(!waits.is_finished());
        kit.set_deaf(false);
        waits.join().unwrap()
    });
    assert_eq!(waiting.unwrap(), b"x");
    drop((store, files));
    assert_eq!(
        files_soon.within(LONG).read("a", ..).unwrap(),
        b"x",
        "the client runs as long as it has a handle"
    );
}

#[test]
fn a_commit_that_could_not_begin_never_happens() {
    let kit = Kit::start(1);
    let (store, files) = open(&kit);
    files.put("a", b"x").unwrap();
    kit.set_deaf(true);
    let mut transaction = store.within(SHORT).begin();
    transaction.check(&files, "a", tyr_client::Check::Bytes { offset: 0, bytes: b"x".to_vec() }).unwrap();
    transaction.put(&files, "b", b"y").unwrap();
    let (pending, other) = (transaction.pending(), transaction.pending());
    let error = transaction.commit().unwrap_err();
    assert!(error.message().contains("nothing of it happened"), "{error}");
    drop(other); // does not keep the first from asking
    kit.set_deaf(false);
    assert_eq!(pending.outcome().unwrap_err().message(), error.message(), "it stays what it was");
    assert!(!files.exists("b").unwrap());
}

#[test]
fn what_was_checked_to_exist_is_not_asked_for() {
    let kit = Kit::start(1);
    let (store, files) = open(&kit);
    files.put("a", b"x").unwrap();
    for (key, is_there) in [("a", true), ("b", false)] {
        // Whoever asks anything before the commit gets no answer.
        kit.set_deaf(true);
        let mut transaction = store.within(SHORT).begin();
        transaction.check(&files, key, tyr_client::Check::Exists).unwrap();
        transaction.set_attribute(&files, key, "k", Some(b"v")).unwrap();
        transaction.truncate(&files, key, 7).unwrap();
        let pending = transaction.pending();
        assert!(transaction.commit().unwrap_err().message().contains("not known"));
        kit.set_deaf(false);
        let outcome = pending.within(LONG).outcome().unwrap();
        assert!(matches!(outcome, Outcome::Conflict(_)) || is_there, "{key} is not there: {outcome:?}");
    }
    let mut transaction = store.begin();
    transaction.check(&files, "a", tyr_client::Check::Missing).unwrap();
    let error = transaction.set_attribute(&files, "b", "k", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "nobody has checked that it exists");
    let mut transaction = store.begin();
    transaction.check(&files, "b", tyr_client::Check::Exists).unwrap();
    let error = transaction.attribute(&files, "b", "k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "who reads is told what is there");
    drop(transaction);
    let error = store.run(|transaction| {
        transaction.check(&files, "b", tyr_client::Check::Exists)?;
        transaction.truncate(&files, "b", 7)
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound, "a run comes to an end");
}

#[test]
fn an_attribute_that_cannot_be_set_now_is_set_later_and_asked_for_seldom() {
    let kit = Kit::start(1);
    let (_, files) = open(&kit);
    files.put("a", b"x").unwrap();
    for refusal in [Refusal::Busy, Refusal::TooFewReplicas, Refusal::Conflict] {
        kit.refuse(refusal, 2);
        let value = format!("{refusal:?}");
        files.set_attribute("a", "refused", Some(value.as_bytes())).unwrap();
        assert_eq!(kit.refusals_left(), 0);
        assert_eq!(files.attribute("a", "refused").unwrap().unwrap(), value.as_bytes());

        kit.refuse(refusal, usize::MAX);
        let error = files.within(SHORT).set_attribute("a", "k", Some(b"v")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let tries = usize::MAX - kit.refusals_left();
        // After conflicts it is the blob's turn that is waited for.
        assert!(tries < 40 || refusal == Refusal::Conflict, "{tries} tries");
        kit.refuse(refusal, 0);
        assert_eq!(files.attribute("a", "k").unwrap(), None);
    }
    let error = files.set_attribute("b", "k", Some(b"v")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn an_unknown_outcome_is_found_out() {
    for (is_deaf, number) in [(true, 1), (false, 2)] {
        let kit = Kit::start(3);
        let (store, files) = open(&kit);
        match is_deaf {
            true => kit.set_deaf(true),
            false => kit.set_mute(true),
        }
        let mut transaction = store.within(SHORT).begin();
        let slot = transaction.append(&files, "a", b"first").unwrap();
        transaction.put(&files, "b", [number]).unwrap();
        let pending = transaction.pending();
        for error in [transaction.commit().unwrap_err(), pending.outcome().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().contains("not known"), "{error}");
        }
        let pending = pending.within(LONG);
        let error = files.within(SHORT).append("c", b"lone").unwrap_err();
        assert!(error.message().contains("not known"), "{error}");
        kit.set_deaf(false);
        kit.set_mute(false);
        match pending.outcome().unwrap() {
            Outcome::Committed(receipt) => {
                assert_eq!(receipt.offset(slot), Some(0));
                assert_eq!(files.read("a", ..).unwrap(), b"first");
                assert_eq!(files.read("b", ..).unwrap(), [number]);
            }
            Outcome::Conflict(_) => {
                assert!(is_deaf, "it happened, though nobody said so");
                assert!(!files.exists("a").unwrap() && !files.exists("b").unwrap());
            }
        }
        assert!(pending.outcome().is_ok(), "it can be asked for again");
        store.close().unwrap();
        let (_, files) = open(&kit);
        let lone = files.read("c", ..).unwrap_or_default();
        assert!(lone == b"lone" || (lone.is_empty() && is_deaf), "once or not at all: {lone:?}");
    }
}

#[test]
fn a_conflict_of_which_the_place_is_not_known_names_none() {
    let kit = Kit::start(1);
    let (store, files) = open(&kit);
    files.put("a", b"x").unwrap();
    let mut transaction = store.begin();
    transaction.read(&files, "a", ..).unwrap();
    files.put("a", b"y").unwrap();
    transaction.append(&files, "b", b"z").unwrap();
    let pending = transaction.pending();
    let Outcome::Conflict(known) = transaction.commit().unwrap() else { panic!("it has read what changed") };
    assert!(known.to_string().starts_with("keyspace 'files', blob 'a': something"), "{known}");
    let Outcome::Conflict(conflict) = pending.outcome().unwrap() else { panic!("it was refused") };
    assert_eq!(conflict.to_string(), "something that was read or checked of the transaction has changed");
}

#[test]
fn what_another_client_has_created_is_found_though_not_everybody_has_heard_of_it() {
    let kit = Kit::start(3);
    let open = || blocking::Store::open(kit.url()).unwrap();
    let (one, other) = (open(), open());
    kit.set_stale(true);
    one.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    let files = other.keyspace("files").unwrap();
    files.put("a", b"x").unwrap();
    other.drop_keyspace("files").unwrap();
    assert!(one.keyspaces().is_empty());
    assert_eq!(one.keyspace("files").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_cluster_whose_members_are_not_where_they_say_is_asked_where_the_caller_says() {
    // Nobody listens at port 1 of the loop-back.
    let kit = Kit::start_as(3, |_| "127.0.0.1:1".to_owned());
    let store = blocking::Store::open(kit.url()).unwrap();
    store.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    let other = blocking::Store::open(kit.url()).unwrap();
    assert!(other.keyspace("files").is_ok());
    store.create_keyspace("more", KeyspaceSettings::default()).unwrap();
    assert!(other.keyspace("more").is_ok());
}

#[test]
fn a_transaction_that_was_not_committed_has_no_outcome() {
    let kit = Kit::start(1);
    let (store, files) = open(&kit);
    let mut transaction = store.begin();
    transaction.put(&files, "a", b"x").unwrap();
    let pending = transaction.pending();
    drop(transaction);
    assert_eq!(pending.outcome().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_commit_that_is_not_waited_for_happens_as_a_whole() {
    let kit = Kit::start(3);
    let (store, files): (Store, Keyspace) = pollster::block_on(async {
        let store = Store::open(kit.url()).await.unwrap();
        let files = store.create_keyspace("files", KeyspaceSettings::default()).await.unwrap();
        (store, files)
    });
    let lone = pollster::block_on(async {
        let mut transaction = store.begin();
        for number in 0..20u8 {
            transaction.put(&files, [number], [number]).await.unwrap();
        }
        assert!(is_left(transaction.commit()));
        let mut transaction = store.begin();
        transaction.put(&files, "never", b"x").await.unwrap();
        drop(transaction.commit());
        let lone = (0..).map(|number| format!("lone/{number}")).find(|key| is_left(files.put(key, b"x")));
        store.close().await.unwrap();
        lone.unwrap()
    });
    let (_, files) = open(&kit);
    for number in 0..20u8 {
        assert_eq!(files.read([number], ..).unwrap(), [number]);
    }
    assert!(files.exists(lone).unwrap());
    assert!(!files.exists("never").unwrap(), "it was dropped before it began");
}

#[test]
fn who_closes_a_store_hears_of_what_was_sent_that_nobody_knows_whether_it_happened() {
    let kit = Kit::start(1);
    pollster::block_on(async {
        let store = Store::options().deadline(LONG).open(kit.url()).await.unwrap();
        let files = store.create_keyspace("files", KeyspaceSettings::default()).await.unwrap();
        files.put("a", b"x").await.unwrap();
        kit.set_deaf(true);
        let mut transaction = store.begin();
        transaction.put(&files, "b", b"y").await.unwrap();
        let (commit, append) = (transaction.commit(), files.append("log", b"z"));
        let (mut commit, mut append, mut read) = (pin!(commit), pin!(append), pin!(files.read("a", ..)));
        assert!(is_left(commit.as_mut()) && is_left(append.as_mut()) && is_left(read.as_mut()));
        store.clone().close().await.unwrap();
        for error in [commit.await.unwrap_err(), append.await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().contains("closed before an answer came: it is not known"), "{error}");
        }
        let error = read.await.unwrap_err();
        assert_eq!(error.message(), "the store is closed; open it again");
    });
}

#[test]
fn reads_that_are_not_waited_for_leave_the_transaction_as_it_was() {
    let kit = Kit::start(1);
    pollster::block_on(async {
        let store = Store::open(kit.url()).await.unwrap();
        let files = store.create_keyspace("files", KeyspaceSettings::default()).await.unwrap();
        files.put("a", b"x").await.unwrap();
        let mut transaction = store.begin();
        while !is_left(transaction.read(&files, "a", ..)) {}
        while !is_left(transaction.stat(&files, "a")) {}
        assert_eq!(transaction.read(&files, "a", ..).await.unwrap(), b"x");
        transaction.put(&files, "b", b"y").await.unwrap();
        assert!(matches!(transaction.commit().await.unwrap(), Outcome::Committed(_)));
        while !is_left(files.read("a", ..)) {}
        while !is_left(files.scan("", None, 10)) {}
        while !is_left(store.snapshot(&[&files])) {}
        assert_eq!(files.read("b", ..).await.unwrap(), b"y");
        store.close().await.unwrap();
    });
}

#[test]
fn no_node_has_two_connections_of_a_session() {
    let kit = Kit::start(3);
    for _ in 0..3 {
        let (store, files) = open(&kit);
        files.put("a", b"x").unwrap();
        store.close().unwrap();
    }
    assert_eq!(kit.doubled(), 0, "a node answers only one of them, which may be the one that ends");
}

#[test]
fn clients_do_not_stand_in_one_anothers_way() {
    let kit = Kit::start(3);
    let (_store, files) = open(&kit);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (store, files) = open(&kit);
                for _ in 0..50 {
                    files.append("log", b"12345").unwrap();
                }
                store.close().unwrap();
            });
        }
    });
    assert_eq!(files.stat("log").unwrap().size, 4 * 50 * 5);
}
