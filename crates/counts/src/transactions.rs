//! Transactions and reads, from the client's call to its answer, with all that every node does for them.

use tyr_proto::{BlobName, BlobPlan, Event, Operation, Outcome, Payload};
use tyr_types::{Operand, Transform};

use crate::{
    cluster::{Cluster, Shape, name},
    collected::counted,
};

/// As many blobs there are, and each path meets all of them.
const BLOBS: u64 = 64;
/// Longer than the pause between two rounds of collection, in microseconds.
const PAUSE: u64 = 60_000;
const PARTITIONS: u32 = 16;

/// Counts these paths.
pub fn count() {
    count_at(1, "one replica");
    count_at(3, "three replicas");
}

fn count_at(replicas: u32, at: &str) {
    let mut cluster = Cluster::new(Shape { nodes: replicas, replicas, partitions: PARTITIONS });
    let blobs: Vec<BlobName> = (0..BLOBS).map(name).collect();
    for blob in &blobs {
        assert_committed(cluster.commit(vec![plan(blob, write())]));
    }
    cluster.rest();
    let plans = |operation: fn() -> Operation| blobs.iter().map(move |blob| vec![plan(blob, operation())]);

    counted(&format!("write of 4 KiB at {at}"), plans(write), |plan| assert_committed(cluster.commit(plan)));
    cluster.rest();
    for plan in plans(write) {
        assert_committed(cluster.commit(plan));
    }
    counted(&format!("collection of {BLOBS} blobs at {at}"), [()], |()| cluster.tick(PAUSE));
    cluster.rest();
    counted(&format!("append of 100 bytes at {at}"), plans(append), |plan| {
        assert_committed(cluster.commit(plan));
    });
    cluster.rest();
    counted(&format!("addition at {at}"), plans(add), |plan| assert_committed(cluster.commit(plan)));
    cluster.rest();
    let pairs = pairs(&cluster, &blobs);
    counted(&format!("write of two blobs of 4 KiB at {at}"), pairs, |plans| {
        assert_committed(cluster.commit(plans));
    });
    cluster.rest();
    let fresh: Vec<BlobName> = (BLOBS..2 * BLOBS).map(name).collect();
    for blob in &fresh {
        assert_committed(cluster.commit(vec![plan(blob, write())]));
    }
    cluster.rest();
    counted(&format!("get of 4 KiB at {at}"), fresh, |blob| {
        let got = cluster.get(blob);
        assert!(matches!(got, Some(Event::Got(_, _, Some(_), Some(_), _))), "{got:?}");
    });
}

/// Writes to each blob and another one of another partition.
fn pairs(cluster: &Cluster, blobs: &[BlobName]) -> Vec<Vec<BlobPlan>> {
    let pair = |(position, blob): (usize, &BlobName)| {
        let partition = cluster.partition_of(blob);
        let mut others = blobs[position..].iter().chain(blobs);
        let other = others.find(|other| cluster.partition_of(other) != partition);
        vec![plan(blob, write()), plan(other.expect("there are many partitions"), write())]
    };
    blobs.iter().enumerate().map(pair).collect()
}

fn plan(blob: &BlobName, operation: Operation) -> BlobPlan {
    BlobPlan::blind(blob.clone(), vec![operation])
}

fn write() -> Operation {
    Operation::Write { offset: 0, bytes: Payload::from(vec![7; 4096]) }
}

fn append() -> Operation {
    Operation::Append { bytes: Payload::from(vec![7; 100]) }
}

fn add() -> Operation {
    Operation::Transform { offset: 0, transform: Transform::add(Operand::U64(1)) }
}

fn assert_committed(told: Option<Event>) {
    assert!(matches!(told, Some(Event::Ended(_, Outcome::Committed, _))), "{told:?}");
}
