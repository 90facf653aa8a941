//! How a node that belongs to no cluster yet joins one: it asks the nodes that it was told of, until one gives it a number.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use tyr_net::{Address, Dialer};
use tyr_proto::{
    NodeId, Replica,
    cluster::{ClusterId, Command, Request, Response},
};
use tyr_types::{Error, Result};
use tyr_wire::connection::{Introduction, Party};

use crate::reception::{Greeter, Reception};

/// Connections to the nodes of the settings. Whoever answers there is heard of as long as they are kept.
pub(crate) fn greet(
    addresses: &[Address],
    party: Party,
    reception: &Arc<Reception>,
    settings: &tyr_net::Settings,
) -> Vec<(Address, Dialer)> {
    let dial = |address: &Address| {
        let greeter = Greeter { address: address.clone(), reception: reception.clone() };
        // Without a cluster, so that one that belongs to another says so instead of refusing.
        let me = Introduction::new(party, None);
        (address.clone(), Dialer::new(address.clone(), me, Arc::new(greeter), settings.clone()))
    };
    addresses.iter().map(dial).collect()
}

/// Registers with the cluster of one of these nodes. Waits until one of them is there.
pub(crate) async fn join(
    dialers: &[(Address, Dialer)],
    registration: Command,
    reception: &Reception,
) -> Result<(ClusterId, NodeId)> {
    let Command::Register { incarnation, .. } = registration else {
        return Err(Error::internal("a node joins by registering"));
    };
    let request = Request::Register(Replica { node: NodeId(0), incarnation }, registration);
    loop {
        for (address, dialer) in dialers {
            let answer = reception.asking.ask(dialer.link(), &request);
            match timeout(PATIENCE, answer).await {
                Ok(Ok((peer, Response::Registered(node)))) => {
                    let unknown =
                        || Error::internal(format!("{address} gives out numbers and knows no cluster"));
                    return Ok((peer.cluster.map(ClusterId).ok_or_else(unknown)?, node));
                }
                Ok(Ok((_, Response::Evicted(_)))) => {
                    return Err(Error::denied(format!(
                        "the cluster at {address} does not take this node: it has left, or there are too many; use an empty directory"
                    )));
                }
                Ok(Ok((_, response))) => tracing::debug!(%address, ?response, "cannot join yet"),
                Ok(Err(_)) | Err(_) => tracing::info!(%address, "no answer yet from a node to join by"),
            }
        }
        reception.asking.tick();
        sleep(PAUSE).await;
    }
}

/// How long an answer is waited for before the next node is asked.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
