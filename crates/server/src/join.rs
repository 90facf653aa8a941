//! How a node that belongs to no cluster yet joins one: it asks the nodes that it was told of, until one gives it a number.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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
    let dial = |address: &Address| (address.clone(), dial(address, party, reception, settings).0);
    addresses.iter().map(dial).collect()
}

/// A connection, and whether it leads back to this node, as far as that is known.
fn dial(
    address: &Address,
    party: Party,
    reception: &Arc<Reception>,
    settings: &tyr_net::Settings,
) -> (Dialer, Arc<AtomicBool>) {
    let is_own = Arc::<AtomicBool>::default();
    let greeter =
        Greeter { address: address.clone(), reception: reception.clone(), me: party, is_own: is_own.clone() };
    // Without a cluster, so that one that belongs to another says so instead of refusing.
    let me = Introduction::new(party, None);
    (Dialer::new(address.clone(), me, Arc::new(greeter), settings.clone()), is_own)
}

/// Registers with the cluster of one of the nodes at these addresses. Waits until one of them is there. Fails if all of them lead back to this
/// node.
pub(crate) async fn join(
    addresses: &[Address],
    registration: Command,
    reception: &Arc<Reception>,
    settings: &tyr_net::Settings,
) -> Result<(ClusterId, NodeId)> {
    let Command::Register { incarnation, identity, .. } = registration else {
        return Err(Error::internal("a node joins by registering"));
    };
    let party = Party::Newcomer { identity: identity.0 };
    let dial = |address: &Address| dial(address, party, reception, settings);
    let mut dialed: Vec<_> = addresses.iter().map(|address| (address, dial(address))).collect();
    let request = Request::Register(Replica { node: NodeId(0), incarnation }, registration);
    loop {
        if dialed.iter().all(|(_, (_, is_own))| is_own.load(Ordering::Relaxed)) {
            let own = addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::invalid(format!(
                "this node cannot join by {own}: that is its own address; name another node to join by, or none to found a cluster"
            )));
        }
        for (address, asked) in &mut dialed {
            let (dialer, is_own) = asked;
            let answer = reception.asking.ask(dialer.link(), &request);
            match timeout(PATIENCE, answer).await {
                Ok(Ok((peer, Response::Registered(node)))) => match peer.cluster {
                    Some(cluster) => return Ok((ClusterId(cluster), node)),
                    None => {
                        // When it was dialed it was a newcomer itself. By now it can say what its cluster is.
                        tracing::debug!(%address, "the node to join by has only just joined");
                        *asked = dial(address);
                    }
                },
                Ok(Ok((_, Response::Evicted(_)))) => {
                    return Err(Error::denied(format!(
                        "the cluster at {address} does not take this node: it has left, or there are too many; use an empty directory"
                    )));
                }
                Ok(Ok((_, response))) => tracing::debug!(%address, ?response, "cannot join yet"),
                Ok(Err(_)) | Err(_) if is_own.load(Ordering::Relaxed) => {
                    tracing::info!(%address, "an address to join by is this node's own");
                }
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
