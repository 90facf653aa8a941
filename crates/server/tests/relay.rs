//! Nodes that do not reach each other, though others reach both, go on through those.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use kit::{Driver, Growing};
use tyr_proto::cluster::Fact;
use tyr_server::{Server, Settings, Timing};

/// Pairs of nodes between which nothing goes.
type Cut = Arc<Mutex<BTreeSet<(u32, u32)>>>;

/// Stands before a node: whoever dials it dials this, which carries everything as long as the two are not cut.
fn stand_before(node: u32, socket: TcpListener, to: SocketAddr, cut: &Cut) {
    let cut = cut.clone();
    std::thread::spawn(move || {
        for dialer in socket.incoming() {
            let (dialer, cut) = (dialer.unwrap(), cut.clone());
            // Whoever wants to be heard by a node that has ended is not.
            std::thread::spawn(move || {
                TcpStream::connect(to).map(|listener| carry(dialer, listener, node, cut))
            });
        }
    });
}

fn carry(mut dialer: TcpStream, mut listener: TcpStream, node: u32, cut: Cut) {
    let mut hello = [0; HELLO_SIZE];
    if dialer.read_exact(&mut hello).is_err() {
        return;
    }
    let from = match hello[PARTY] {
        NODE => u32::from_le_bytes(hello[PARTY + 1..].try_into().unwrap()),
        _ => 0,
    };
    let pair = (from.min(node), from.max(node));
    let back = (listener.try_clone().unwrap(), dialer.try_clone().unwrap(), cut.clone());
    std::thread::spawn(move || pump(back.0, back.1, pair, &back.2));
    if !cut.lock().unwrap().contains(&pair) && listener.write_all(&hello).is_ok() {
        pump(dialer, listener, pair, &cut);
    }
}

/// Carries what comes. What comes while the two are cut is swallowed, and with it all that follows on this connection.
fn pump(mut from: TcpStream, mut to: TcpStream, pair: (u32, u32), cut: &Cut) {
    let mut buffer = vec![0; 64 << 10];
    let mut is_lost = false;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        is_lost |= cut.lock().unwrap().contains(&pair);
        if !is_lost && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // One that is gone already needs no telling.
    let _gone = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// A node that others reach by what stands before it.
fn start(directory: &tempfile::TempDir, number: u32, join: &[String], cut: &Cut) -> Server {
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let behind = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut settings = Settings::new(directory.path());
    settings.listen = behind.to_string().parse().unwrap();
    settings.advertise = Some(front.local_addr().unwrap().to_string().parse().unwrap());
    settings.join = join.iter().map(|address| address.parse().unwrap()).collect();
    settings.timing = Timing::near();
    settings.class = tyr_server::ClassSettings { partitions: 16, ..tyr_server::ClassSettings::new(3) };
    settings.store.segment_size = 1 << 20;
    stand_before(number, front, behind, cut);
    Server::start(settings).unwrap()
}

#[test]
fn two_nodes_whose_link_is_cut_go_on_with_what_both_have_to_do() {
    kit::log();
    let cut = Cut::default();
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let first = start(&directories[0], 1, &[], &cut);
    let join = [first.address().to_string()];
    let servers = [first, start(&directories[1], 2, &join, &cut), start(&directories[2], 3, &join, &cut)];
    let addresses = servers.each_ref().map(|server| server.address().clone());
    let mut driver = Driver::new(&addresses, 90);
    let is_whole = |driver: &mut Driver| {
        let facts = driver.ring().facts;
        let mut partitions = facts.iter().filter_map(|fact| match fact {
            Fact::Partition(_, configuration, proposal) => Some((configuration, proposal)),
            _ => None,
        });
        partitions.all(|(configuration, proposal)| configuration.replicas.len() == 3 && proposal.is_none())
    };
    while !is_whole(&mut driver) || servers.iter().any(|server| server.status().voters < 3) {
        servers[0].wait(Duration::from_millis(100), |_| false);
    }
    // Every transaction concerns partitions that each of the three leads.
    let mut blobs = Growing::new(&mut driver, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    blobs.append(&mut driver, 0..20);
    // The last one founded the cluster, and led the cluster manager at least at first.
    for (pair, from) in [((2, 3), 20), ((1, 2), 40)] {
        *cut.lock().unwrap() = BTreeSet::from([pair]);
        blobs.append(&mut driver, from..from + 20);
    }
    cut.lock().unwrap().clear();
    servers.into_iter().for_each(|server| server.stop().unwrap());
}

/// Where a hello says who dials: after the header of the frame and what comes before it in the body.
const PARTY: usize = 20 + 32;
/// Up to the number of a node that dials.
const HELLO_SIZE: usize = PARTY + 5;
/// A node dials.
const NODE: u8 = 1;
