//! What is left of chunks whose blobs are gone, and who still asks for them.

use std::sync::Arc;

use tyr_proto::{
    BlobName, End, Operation, ReadAnswer, Refusal, Time, Told, Transaction,
    entry::ChunkWrites,
    message::{Envelope, Message},
};
use tyr_types::CHUNK_SIZE_MIN;

use super::{KeyspaceId, World, partition};

/// A blob with its head in partition 0, and where it has a chunk in partition 1.
fn blob_and_chunk(world: &World) -> (BlobName, u64) {
    let name = world.blob_in(0);
    let keyspace = &world.keyspaces[&KeyspaceId(1)];
    let chunk = (1..).find(|chunk| keyspace.partition_of(&name, *chunk) == partition(1)).unwrap();
    (name, chunk * CHUNK_SIZE_MIN)
}

fn change(world: &mut World, name: &BlobName, operations: Vec<Operation>) {
    let mut transaction = Transaction::begin(0);
    for operation in operations {
        transaction.change(name, operation);
    }
    assert!(matches!(world.commit(&mut transaction), End::Committed(_)));
}

fn write(offset: u64, bytes: &[u8]) -> Operation {
    Operation::Write { offset, bytes: bytes.into() }
}

/// Lets the nodes go on for some seconds, while clients say nothing.
fn wait(world: &mut World) {
    for _ in 0..100 {
        world.now += 60_000;
        world.router.handle_tick(Time(world.now), true);
        world.settle();
    }
}

/// How many heads and chunks there are.
fn left(world: &World) -> (usize, usize) {
    let states = (0..super::PARTITIONS).filter_map(|index| world.router.partition(partition(index)));
    let of = states.map(|partition| (partition.state().heads().count(), partition.state().chunks().count()));
    of.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

/// What partition 1 has logged for a head elsewhere.
fn logged(world: &World) -> ChunkWrites {
    let mut records = world.router.partition(partition(1)).unwrap().state().records();
    ChunkWrites::clone(records.find_map(|(_, record)| Some(&record.write.as_ref()?.1)).unwrap())
}

/// A copy of that comes once more.
fn comes_late(world: &mut World, writes: ChunkWrites) {
    let message = Message::Write { driver: writes.decider, writes: Arc::new(writes) };
    world.router.handle_message(Time(world.now), true, Envelope { partition: partition(1), message });
    world.settle();
}

#[test]
fn what_is_left_of_a_deleted_chunk_goes_after_its_head_and_who_saw_it_has_to_begin_again() {
    let mut world = World::new();
    let (name, offset) = blob_and_chunk(&world);
    change(&mut world, &name, vec![write(0, b"first"), write(offset, b"there")]);
    assert_eq!(left(&world), (1, 2));
    let mut readers = [(); 2].map(|()| Transaction::begin(0));
    for reader in &mut readers {
        reader.stat(&mut world.client, Time(world.now), &name);
        assert!(matches!(world.tell(reader)[..], [Told::Read(_, ReadAnswer::Stat(Some(_)))]));
    }
    change(&mut world, &name, vec![Operation::Delete]);
    world.router.handle_tick(Time(world.now + 100_000), true);
    world.settle();
    assert_eq!(left(&world), (1, 2), "its readers hold it");
    wait(&mut world);
    assert_eq!(left(&world), (0, 0));

    let told = |world: &mut World, reader: &mut Transaction, offset: u64| {
        reader.read(&mut world.client, Time(world.now), &name, offset..offset + 5);
        let mut told = world.tell(reader);
        reader.roll_back(&mut world.client);
        let Some(Told::Read(_, answer)) = told.pop() else { panic!("{told:?}") };
        answer
    };
    let [mut first, mut second] = readers;
    assert_eq!(told(&mut world, &mut first, offset), ReadAnswer::Lost);
    change(&mut world, &name, vec![write(offset, b"again")]);
    assert_eq!(told(&mut world, &mut second, offset), ReadAnswer::Lost);
    assert_eq!(
        told(&mut world, &mut Transaction::begin(0), offset),
        ReadAnswer::Bytes(Some(b"again".into()))
    );
    assert_eq!(told(&mut world, &mut Transaction::begin(0), 0), ReadAnswer::Bytes(Some(vec![0; 5])));
}

#[test]
fn what_is_left_of_a_chunk_stays_as_long_as_there_is_a_blob() {
    let mut world = World::new();
    let (name, offset) = blob_and_chunk(&world);
    change(&mut world, &name, vec![write(0, b"first"), write(offset, b"there")]);
    change(&mut world, &name, vec![Operation::Truncate { size: 3 }]);
    wait(&mut world);
    assert_eq!(left(&world), (1, 2), "a later write follows the cut");
    change(&mut world, &name, vec![write(offset, b"again")]);
    assert_eq!(world.read(&name)[usize::try_from(offset).unwrap()..], *b"again");
    change(&mut world, &name, vec![Operation::Delete]);
    wait(&mut world);
    assert_eq!(left(&world), (0, 0));
}

#[test]
fn a_copy_of_a_write_that_comes_after_its_chunk_was_purged_is_not_logged_again() {
    let mut world = World::new();
    let (name, offset) = blob_and_chunk(&world);
    change(&mut world, &name, vec![write(offset, b"there")]);
    let writes = logged(&world);
    change(&mut world, &name, vec![Operation::Delete]);
    (0..100).for_each(|_| world.pass(60_000));
    assert_eq!((left(&world), world.remembered(1)), ((0, 0), 0));
    comes_late(&mut world, writes);
    assert_eq!((left(&world), world.remembered(1)), ((0, 0), 0), "nobody would know how it ended");
    assert_eq!(world.router.partition(partition(1)).unwrap().unfinished(), 0, "nothing waits for that");
}

#[test]
fn a_place_that_comes_after_its_chunk_was_purged_is_forgotten_again() {
    let mut world = World::new();
    let (name, offset) = blob_and_chunk(&world);
    change(&mut world, &name, vec![write(offset, b"there")]);
    let mut writes = logged(&world);
    change(&mut world, &name, vec![Operation::Delete]);
    (0..100).for_each(|_| world.pass(60_000));
    writes.refused = Some(Refusal::Conflict);
    writes.writes.iter_mut().for_each(|(_, _, write)| write.operations.clear());
    comes_late(&mut world, writes);
    assert_eq!(left(&world), (0, 1), "it has taken its place");
    (0..100).for_each(|_| world.pass(60_000));
    assert_eq!((left(&world), world.remembered(1)), ((0, 0), 0));
    change(&mut world, &name, vec![write(offset, b"again")]);
    assert_eq!(world.read(&name).len() as u64, offset + 5, "nobody else is taken for forgotten");
}
