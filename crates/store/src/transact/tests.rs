//! Transactions at the limits of memory.

use tyr_sim_env::{CrashMode, SimDisk};
use tyr_types::{BlobId, Error, KeyspaceId, Number};
use tyr_wire::record::{BlobCommit, Existence};

use super::{BlobChange, Stop, taken_away};
use crate::{
    miss::Wait,
    payload::Payload,
    store::Store,
    testing::{commit, key, keyspace, open, settle, store},
};

#[test]
fn a_transaction_that_needs_more_objects_than_the_cache_holds_comes_to_an_end() {
    let (store, space) = store();
    let names: Vec<String> = (0..2000).map(|name| format!("{name}")).collect();
    let committed = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
        for name in &names {
            let writes = vec![(0, Payload::new(b"x"))];
            let existence = Existence::Create;
            let change =
                BlobChange { existence, cut: None, holes: Vec::new(), size: 1, attributes: None, writes };
            writer.put(space, &key(name), change);
        }
        Ok(())
    });
    committed.expect("commits").1.wait().expect("durable");
    let found = store.scan(space, b"", None, usize::MAX, Number::MAX).expect("scans");
    assert_eq!(found.len(), names.len());
}

#[test]
fn a_new_blob_under_the_key_of_a_deleted_one_is_found_without_having_been_looked_for() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    commit(&store, space, "again", Existence::Create, &[1; 50_000]);
    commit(&store, space, "again", Existence::Delete, b"");
    // What else there is drives the deleted one out of memory.
    for name in 0..2000 {
        commit(&store, space, &format!("{name}"), Existence::Create, b"x");
    }
    store.checkpoint().expect("checkpoints");
    let change = |bytes: &[u8]| {
        let writes = vec![(0, Payload::new(bytes))];
        BlobChange {
            existence: Existence::Create,
            cut: None,
            holes: Vec::new(),
            size: bytes.len() as u64,
            attributes: None,
            writes,
        }
    };
    let mut runs = 0;
    let committed = store.transact(Wait::Never, |writer| -> Result<(), Stop<Error>> {
        runs += 1;
        writer.put_new(space, &key("again"), change(b"new"));
        writer.put_new(space, &key("fresh"), change(b"too"));
        Ok(())
    });
    committed.expect("commits").1.wait().expect("durable");
    assert_eq!(runs, 1);
    settle(&store);
    let is_found = |store: &Store| {
        for (name, bytes) in [("again", b"new"), ("fresh", b"too")] {
            let mut found = [0; 8];
            let read = store.read(space, &key(name), Number::MAX, 0, &mut found, Wait::Allowed);
            assert_eq!(read.expect("reads").expect("is there").1, 3);
            assert_eq!(&found[..3], bytes);
        }
    };
    is_found(&store);
    let store = open(&disk.crash(CrashMode::LoseAll));
    is_found(&store);
    settle(&store);
}

#[test]
fn what_a_commit_takes_away_wakes_maintenance_though_the_size_stays() {
    let commit = BlobCommit {
        keyspace: KeyspaceId(1),
        key: key("a"),
        blob: BlobId::from_u64(7),
        existence: Existence::Keep,
        size_before: Some(90_000),
        size: 90_000,
        cut: None,
        holes: Vec::new(),
        attributes: None,
        writes: Vec::new(),
    };
    assert_eq!(taken_away(&commit), 0);
    assert_eq!(taken_away(&BlobCommit { existence: Existence::Delete, size: 0, ..commit.clone() }), 90_000);
    assert_eq!(taken_away(&BlobCommit { size: 80_000, ..commit.clone() }), 10_000);
    assert_eq!(
        taken_away(&BlobCommit { cut: Some(50_000), ..commit.clone() }),
        40_000,
        "it was extended again"
    );
    let holes = vec![0..1_000, 4_000..u64::MAX];
    assert_eq!(taken_away(&BlobCommit { holes, ..commit.clone() }), u64::MAX - 3_000);
    assert_eq!(taken_away(&BlobCommit { size_before: None, ..commit }), 0);
}
