//! What was aimed for: how many times as fast as a peer Týr should be.
//!
//! The aims are those of the design, for servers and clients that share the processors of one machine.

use crate::{
    case::{Case, Durability},
    system::Manner,
    work::Work,
};

/// Two contenders of a case.
#[derive(Clone, Copy)]
pub struct Pairing<'a> {
    /// What is done.
    pub case: Case,
    /// The peer's name.
    pub peer: &'a str,
    /// How the peer does it.
    pub peer_manner: Manner,
    /// How Týr does it.
    pub manner: Manner,
}

/// How many times the peer's rate was aimed for.
pub fn rate(pairing: Pairing<'_>) -> Option<f64> {
    let Pairing { case, peer, peer_manner, manner } = pairing;
    let Case { work, in_flight, replicas, .. } = case;
    if !is_aimed(&case) {
        return None;
    }
    let is_rados = peer == "RADOS";
    match (work, case.bytes()) {
        (Work::Get, KIB_4) if peer == "TCP echo" && in_flight == 16 => Some(0.6),
        (Work::Write, KIB_4) if is_rados && in_flight == 16 => by_replicas(replicas, 8.0, 10.0),
        (Work::Write, KIB_64) if is_rados && in_flight == 16 => by_replicas(replicas, 4.0, 5.0),
        (Work::Write, MIB_1) if is_rados && in_flight == 16 => by_replicas(replicas, 2.5, 3.0),
        (Work::Get, KIB_4) if is_rados && in_flight == 16 => Some(5.0),
        (Work::Read, 800) if is_rados && in_flight == 16 => Some(8.0),
        (Work::Read, KIB_100) if is_rados && in_flight == 16 => {
            Some(if manner == Manner::OverNetwork { 4.0 } else { 10.0 })
        }
        (Work::Read, MIB_1) if is_rados && in_flight == 16 => Some(1.5),
        (Work::Append, _) if is_rados => by_replicas(replicas, 6.0, 15.0),
        (Work::Counter, _) if peer_manner == Manner::ServerClass => by_replicas(replicas, f64::NAN, 30.0),
        (Work::HotTransfer, _) if is_rados && peer_manner == Manner::Locks => Some(50.0),
        (Work::HotTransfer, _) if peer_manner == Manner::Rows => Some(5.0),
        _ => None,
    }
    .filter(|aim| aim.is_finite())
}

/// What part of the peer's p50 was aimed for.
pub fn p50(pairing: Pairing<'_>) -> Option<f64> {
    match (pairing.case.work, pairing.case.bytes(), pairing.case.in_flight) {
        (Work::Write, KIB_4, 1) if pairing.peer == "RADOS" => Some(0.25),
        (Work::Get, KIB_4, 1) if pairing.peer == "RADOS" => Some(0.33),
        _ => None,
    }
}

/// What part of the peer's processor time in its servers was aimed for.
pub fn server(pairing: Pairing<'_>) -> Option<f64> {
    (pairing.peer == "RADOS").then_some(0.2)
}

/// What part of Týr's rate without transactions was aimed for with them.
pub fn in_transactions(case: &Case) -> Option<f64> {
    (case.work == Work::Batch).then_some(0.75)
}

/// Whether anything was aimed for.
pub fn is_aimed(case: &Case) -> bool {
    let Case { work, in_flight, durability, .. } = *case;
    let sizes: &[usize] = match (work, in_flight) {
        _ if durability != Durability::Disk => &[],
        (Work::Append, 8) => return case.blobs == Some(1),
        (Work::Counter, 8) => return true,
        (Work::HotTransfer | Work::ColdTransfer, 8) => return case.blobs == Some(2),
        (Work::Batch, 8) => return true,
        (Work::Write, 16) => &[KIB_4, KIB_64, MIB_1],
        (Work::Read, 16) => &[800, KIB_100, MIB_1],
        (Work::Get, 16) | (Work::Write | Work::Get, 1) => &[KIB_4],
        _ => &[],
    };
    sizes.contains(&case.bytes())
}

fn by_replicas(replicas: u32, one: f64, three: f64) -> Option<f64> {
    match replicas {
        1 => Some(one),
        3 => Some(three),
        _ => None,
    }
}

const KIB_4: usize = 4 << 10;
const KIB_64: usize = 64 << 10;
const KIB_100: usize = 100 << 10;
const MIB_1: usize = 1 << 20;
