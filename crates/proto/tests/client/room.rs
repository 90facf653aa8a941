//! What a client does when there is no room: for payload that it stages, and for anything at all.

use std::sync::Arc;

use tyr_proto::{
    Answered, BlobName, Check, End, Limits, Operation, Outcome, Refusal, RingVersion, SessionId, Stage, Time,
    Told, Transaction, TransactionId,
    message::{Envelope, Message},
};

use super::{World, blob, partition, payload};

const MIB: u64 = 1 << 20;

/// A world with room for three MiB in each partition, of which somebody else has taken two in the first one.
fn crowded() -> World {
    let mut world = World::new();
    world.router.set_limits(Limits { staged_max: 3 * MIB, ..Limits::default() });
    world.router.handle_ring_version(RingVersion(1));
    let id = TransactionId { session: SessionId(9), sequence: 1, birth: RingVersion(1) };
    let bytes: tyr_proto::Payload = payload(1 << 20).into();
    for from in [0, MIB] {
        let (decider, part) = (partition(0), 0..bytes.len());
        let stage = Stage { id, decider, payload: (0, 0), from, bytes: bytes.clone(), part };
        let message = Message::Stage(Arc::new(stage));
        world.router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    }
    world.settle();
    world
}

/// The other one needs its payload no more.
fn leave(world: &mut World) {
    let message =
        Message::Answered { session: SessionId(9), answered: Answered::below(2), born: RingVersion(1) };
    let time = Time(world.now);
    world.router.handle_message(time, true, Envelope { partition: partition(0), message });
    world.pass(100_000);
}

fn starts(world: &World) -> usize {
    world.said.iter().filter(|said| matches!(said.message, Message::Start(_))).count()
}

#[test]
fn payload_for_one_partition_waits_for_room_there_and_then_is_sent_on() {
    let mut world = crowded();
    let name = world.blob_in(0);
    let bytes = payload(2_900_000);
    let mut transaction = Transaction::begin(0);
    transaction.append(&name, &bytes[..]);
    transaction.commit(&mut world.client, Time(0), None);
    world.settle();
    for _ in 0..20 {
        world.pass(100_000);
    }
    assert_eq!((world.tell(&mut transaction), starts(&world)), (vec![], 0), "it waits");
    leave(&mut world);
    let mut told = Vec::new();
    // Before what is staged would be asked about because nothing is heard of its client.
    while told.is_empty() && world.now < 20_000_000 {
        world.pass(100_000);
        told = world.tell(&mut transaction);
    }
    assert!(matches!(told[..], [Told::Ended(End::Committed(_))]), "{told:?}");
    assert!(world.read(&name) == bytes);
    // Under one name: nothing that was staged was sent again under another.
    let named = world.said.iter().filter_map(|said| match &said.message {
        Message::Stage(stage) => Some(stage.id),
        _ => None,
    });
    assert_eq!(named.collect::<std::collections::BTreeSet<_>>().len(), 1);
}

#[test]
fn what_waits_for_room_until_its_time_is_over_never_happens() {
    let mut world = crowded();
    let name = world.blob_in(0);
    let mut transaction = Transaction::begin(0);
    transaction.append(&name, payload(2_900_000));
    transaction.commit(&mut world.client, Time(0), Some(Time(300_000)));
    world.settle();
    world.pass(299_999);
    assert_eq!(world.tell(&mut transaction), []);
    world.pass(1);
    assert_eq!(world.tell(&mut transaction), [Told::Ended(End::Late)]);
    leave(&mut world);
    for _ in 0..20 {
        world.pass(100_000);
    }
    assert_eq!((world.tell(&mut transaction), starts(&world)), (vec![], 0));
    let partition = world.router.partition(partition(0)).unwrap();
    assert_eq!(partition.state().stages().ids(), [], "its payload is let go of");
}

#[test]
fn payload_for_several_partitions_waits_nowhere() {
    let mut world = crowded();
    let (here, there) = (world.blob_in(0), world.blob_in(1));
    let mut transaction = Transaction::begin(0);
    transaction.append(&here, payload(2_900_000));
    transaction.append(&there, payload(2_900_000));
    // What was checked keeps it from being sent again by itself.
    transaction.check(&mut world.client, Time(0), &here, Check::Missing);
    transaction.exists(&mut world.client, Time(0), &here);
    transaction.commit(&mut world.client, Time(0), None);
    let told = world.tell(&mut transaction);
    assert!(told.contains(&Told::Ended(End::Refused(Refusal::Busy))), "{told:?}");
}

#[test]
fn an_attribute_that_grows_by_nothing_needs_no_room() {
    let mut world = World::new();
    let (name, other) = (world.blob_in(0), blob("never made"));
    let note = |name: &str, size: usize| {
        let value = Some(vec![1; size].into());
        Operation::SetAttribute { name: name.into(), value }
    };
    let end = |world: &mut World, of: &BlobName, operation: &Operation| {
        let mut transaction = Transaction::begin(0);
        transaction.change(of, operation.clone());
        match world.commit(&mut transaction) {
            End::Committed(_) => Outcome::Committed,
            End::Refused(refusal) => Outcome::Refused(refusal),
            end => panic!("{end:?}"),
        }
    };
    assert_eq!(end(&mut world, &name, &note("a", 100)), Outcome::Committed);
    world.router.handle_room(true);
    let full = Outcome::Refused(Refusal::Full);
    for (of, operation, outcome) in [
        (&name, note("a", 100), Outcome::Committed),
        (&name, note("a", 101), full),
        (&name, note("b", 1), full),
        (&other, note("a", 1), full),
        (&name, Operation::Write { offset: 0, bytes: vec![1].into() }, full),
        (&other, Operation::Create, full),
        (&name, Operation::SetAttribute { name: "a".into(), value: None }, Outcome::Committed),
        (&name, note("a", 1), full),
        (&name, Operation::Delete, Outcome::Committed),
        (&name, Operation::SetAttribute { name: "a".into(), value: None }, full),
    ] {
        assert_eq!(end(&mut world, of, &operation), outcome, "{operation:?} of {of:?}");
    }
}
