//! From a key to the node that is asked.

use std::{hint::black_box, sync::Arc};

use tyr_proto::{Client, SessionId, Time};

use crate::{
    cluster::{self, Shape},
    collected::counted,
};

/// Counts these paths.
pub fn count() {
    let shape = Shape { nodes: 16, replicas: 3, partitions: 4096 };
    let keyspaces = Arc::new(cluster::keyspaces(shape.partitions));
    let keyspace = &keyspaces[&cluster::KEYSPACE];
    counted("partition of a key", (0..256).map(cluster::name), |name| keyspace.partition_of(&name, 0));
    let mut client = Client::new(SessionId(1), keyspaces.clone());
    for (id, configuration) in cluster::ring(shape) {
        client.handle_configuration(id, configuration);
    }
    counted("node that a get goes to", (0..256).map(cluster::name), |name| {
        client.get(Time(0), name, 4096, Vec::new(), 0);
        black_box(client.poll_output())
    });
}
