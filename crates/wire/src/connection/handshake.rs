//! How two programs agree to talk: who they are, which cluster they belong to, which version they speak, and how much each takes.
//!
//! Everything that a later version may change comes after the versions, and is not read if there is none in common.

use alloc::vec::Vec;
use core::{fmt, ops::RangeInclusive};

use super::{BODY_SIZE_MAX, Channel, Error, FRAME_HEADER_SIZE, Frame, Kind};
use crate::{Malformed, Reader};

/// The versions of the protocol that this program speaks.
pub const VERSIONS: RangeInclusive<u16> = 1..=2;

/// From this version on a listener can demand a proof.
pub(super) const PROVED_SINCE: u16 = 2;

/// Who is at an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// A member of the cluster.
    Node {
        /// Its number.
        node: u32,
        /// Which start of it.
        incarnation: u64,
    },
    /// A node without a number: one that is to join.
    Newcomer {
        /// What it calls itself.
        identity: u128,
    },
    /// A client.
    Client {
        /// Its session.
        session: u64,
    },
}

/// How much one end takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest body of a frame.
    pub body_size_max: u32,
    /// Bytes of frames that may be on their way or waiting on one channel; room for two frames of the largest size at least. Credit is
    /// granted when half of the window is free again, and what is left meanwhile must do for any frame: else both ends wait for ever.
    pub window: u32,
}

impl Limits {
    /// Whether every frame that may be sent fits half of the window.
    pub fn are_sound(&self) -> bool {
        let frame_size_max = u64::from(self.body_size_max) + FRAME_HEADER_SIZE as u64;
        u64::from(self.body_size_max) <= BODY_SIZE_MAX as u64 && 2 * frame_size_max <= u64::from(self.window)
    }
}

impl Default for Limits {
    /// Bodies up to 16 MiB, and a window of two such frames.
    #[expect(clippy::cast_possible_truncation, reason = "a header has few bytes")]
    fn default() -> Self {
        let body_size_max = 16 << 20;
        Limits { body_size_max, window: 2 * (body_size_max + FRAME_HEADER_SIZE as u32) }
    }
}

/// What one end says of itself, and expects of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Who it is.
    pub party: Party,
    /// Its cluster; none if it does not know yet. One who knows none talks to every cluster.
    pub cluster: Option<u128>,
    /// The node that a dialer wants to talk to; none if to any.
    pub wanted: Option<u32>,
    /// The versions that it speaks.
    pub versions: RangeInclusive<u16>,
    /// How much it takes.
    pub limits: Limits,
}

impl Introduction {
    /// Somebody who speaks every version that this program does, with the usual limits.
    pub fn new(party: Party, cluster: Option<u128>) -> Self {
        Introduction { party, cluster, wanted: None, versions: VERSIONS, limits: Limits::default() }
    }
}

/// The other end of an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub party: Party,
    /// Its cluster, if it knows one.
    pub cluster: Option<u128>,
    /// The version that both speak.
    pub version: u16,
    /// How much it takes.
    pub limits: Limits,
}

/// Why a listener does not talk to a dialer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It belongs to another cluster.
    WrongCluster,
    /// It speaks only these versions.
    NoCommonVersion(RangeInclusive<u16>),
    /// It is another node than the one that was wanted.
    WrongNode,
    /// It has as many connections as it takes: try again later.
    TooManyConnections,
    /// It is about to stop: try again later, or elsewhere.
    Stopping,
    /// The proof of the dialer does not hold.
    Denied,
    /// It demands a proof, and the dialer has none, or is of a version without.
    ProofMissing,
    /// The dialer's token has expired.
    Expired,
    /// The dialer's token was revoked, or its user was removed.
    Revoked,
    /// It does not demand the proof that the dialer wants to give, or gives none itself.
    Unproved,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::WrongCluster => "it belongs to another cluster; check the address",
            Refusal::NoCommonVersion(theirs) => {
                let (first, last) = (theirs.start(), theirs.end());
                return write!(
                    f,
                    "it speaks versions {first} to {last} of the protocol; upgrade the older one"
                );
            }
            Refusal::WrongNode => "another node has this address now; fetch the members",
            Refusal::TooManyConnections => "it has too many connections; try again later",
            Refusal::Stopping => "it is starting or stopping; try again later or elsewhere",
            Refusal::Denied => {
                "access is denied: what is shown as a token or secret is not valid in this cluster"
            }
            Refusal::ProofMissing => {
                "access is denied: it asks for a token, or of a node for the secret of its cluster"
            }
            Refusal::Expired => "access is denied: the token has expired; ask for another one",
            Refusal::Revoked => {
                "access is denied: the token was revoked, or its user removed; ask for another one"
            }
            Refusal::Unproved => {
                "it does not know the secret, or is set up without one; check the address, or show it no secret"
            }
        })
    }
}

const MAGIC: [u8; 8] = *b"TyrProto";

/// The largest body of a frame before the two have agreed.
pub(super) const HANDSHAKE_SIZE_MAX: usize = 1024;
/// Random bytes for which a proof is made.
pub const NONCE_SIZE: usize = 32;

pub(super) fn hello(me: &Introduction) -> Frame {
    let mut body = versioned(&me.versions);
    body.extend_from_slice(&me.cluster.unwrap_or(0).to_le_bytes());
    body.extend_from_slice(&me.wanted.unwrap_or(0).to_le_bytes());
    write_party(me, &mut body);
    Frame::control(Kind::Hello, Channel::default(), &body)
}

/// The listener agrees; from [`PROVED_SINCE`] on with its own proof behind, if it was asked for one.
pub(super) fn welcome(me: &Introduction, version: u16, proof: &[u8]) -> Frame {
    let mut body = answer(me, version);
    body.extend_from_slice(proof);
    Frame::control(Kind::Welcome, Channel::default(), &body)
}

/// The listener demands a proof that is made for these random bytes.
pub(super) fn challenge(me: &Introduction, version: u16, nonce: &[u8; NONCE_SIZE]) -> Frame {
    let mut body = answer(me, version);
    body.extend_from_slice(nonce);
    Frame::control(Kind::Challenge, Channel::default(), &body)
}

fn answer(me: &Introduction, version: u16) -> Vec<u8> {
    let mut body = versioned(&(version..=version));
    body.extend_from_slice(&me.cluster.unwrap_or(0).to_le_bytes());
    write_party(me, &mut body);
    body
}

pub(super) fn refused(me: &Introduction, refusal: &Refusal) -> Frame {
    let mut body = versioned(&me.versions);
    body.push(match refusal {
        Refusal::WrongCluster => 1,
        Refusal::NoCommonVersion(_) => 2,
        Refusal::WrongNode => 3,
        Refusal::TooManyConnections => 4,
        Refusal::Stopping => 5,
        Refusal::Denied | Refusal::Unproved => 6,
        Refusal::ProofMissing => 7,
        Refusal::Expired => 8,
        Refusal::Revoked => 9,
    });
    Frame::control(Kind::Refused, Channel::default(), &body)
}

/// The dialer, as the listener sees it; or why the listener does not talk to it.
pub(super) fn judge_hello(me: &Introduction, body: &[u8]) -> Result<Result<Peer, Refusal>, Error> {
    let mut reader = Reader::new(body);
    let theirs = read_versions(&mut reader)?;
    let version = *me.versions.end().min(theirs.end());
    if version < *me.versions.start().max(theirs.start()) {
        return Ok(Err(Refusal::NoCommonVersion(me.versions.clone())));
    }
    let (cluster, wanted) = (read_cluster(&mut reader)?, reader.u32()?);
    let (party, limits) = read_party(&mut reader)?;
    reader.finish()?;
    let is_wanted = matches!(me.party, Party::Node { node, .. } if node == wanted);
    let is_another = wanted != 0 && !is_wanted;
    // One that belongs to no cluster yet may be about to become that node: nothing is wrong with its address.
    let is_newcomer = is_another && me.cluster.is_none();
    if cluster.is_some() && cluster != me.cluster && !is_newcomer {
        return Ok(Err(Refusal::WrongCluster));
    }
    if is_another {
        return Ok(Err(Refusal::WrongNode));
    }
    Ok(Ok(Peer { party, cluster, version, limits }))
}

/// The listener, as the dialer sees it, and its proof, which is empty if it gives none.
pub(super) fn judge_welcome<'a>(me: &Introduction, body: &'a [u8]) -> Result<(Peer, &'a [u8]), Error> {
    let mut reader = Reader::new(body);
    let peer = judge_answer(me, &mut reader)?;
    if peer.version >= PROVED_SINCE {
        return Ok((peer, reader.rest()));
    }
    reader.finish()?;
    Ok((peer, &[]))
}

/// Fails unless a listener that demands a proof is one to whom the dialer wants to talk.
pub(super) fn judge_challenge(me: &Introduction, body: &[u8]) -> Result<(), Error> {
    let mut reader = Reader::new(body);
    judge_answer(me, &mut reader)?;
    let _nonce: [u8; NONCE_SIZE] = reader.array()?;
    Ok(reader.finish()?)
}

fn judge_answer(me: &Introduction, reader: &mut Reader<'_>) -> Result<Peer, Error> {
    let version = *read_versions(reader)?.start();
    if !me.versions.contains(&version) {
        return Err(Error::Refused(Refusal::NoCommonVersion(version..=version)));
    }
    let cluster = read_cluster(reader)?;
    let (party, limits) = read_party(reader)?;
    let is_wanted = |wanted: u32| matches!(party, Party::Node { node, .. } if node == wanted);
    let is_another = me.wanted.is_some_and(|wanted| !is_wanted(wanted));
    let is_newcomer = is_another && cluster.is_none();
    if me.cluster.is_some() && me.cluster != cluster && !is_newcomer {
        return Err(Error::Refused(Refusal::WrongCluster));
    }
    if is_another {
        return Err(Error::Refused(Refusal::WrongNode));
    }
    Ok(Peer { party, cluster, version, limits })
}

pub(super) fn read_refusal(body: &[u8]) -> Result<Refusal, Error> {
    let mut reader = Reader::new(body);
    let versions = read_versions(&mut reader)?;
    Ok(match reader.u8()? {
        1 => Refusal::WrongCluster,
        2 => Refusal::NoCommonVersion(versions),
        3 => Refusal::WrongNode,
        4 => Refusal::TooManyConnections,
        5 => Refusal::Stopping,
        6 => Refusal::Denied,
        7 => Refusal::ProofMissing,
        8 => Refusal::Expired,
        9 => Refusal::Revoked,
        _ => return Err(Malformed("a refusal has an unknown reason").into()),
    })
}

fn versioned(versions: &RangeInclusive<u16>) -> Vec<u8> {
    let mut body = Vec::from(MAGIC);
    body.extend_from_slice(&versions.start().to_le_bytes());
    body.extend_from_slice(&versions.end().to_le_bytes());
    body
}

fn read_versions(reader: &mut Reader<'_>) -> Result<RangeInclusive<u16>, Error> {
    if reader.array()? != MAGIC {
        return Err(Error::NotTyr);
    }
    let versions = reader.u16()?..=reader.u16()?;
    if versions.is_empty() {
        return Err(Malformed("a range of versions is empty").into());
    }
    Ok(versions)
}

fn read_cluster(reader: &mut Reader<'_>) -> Result<Option<u128>, Malformed> {
    let cluster = reader.array().map(u128::from_le_bytes)?;
    Ok(Some(cluster).filter(|cluster| *cluster != 0))
}

fn write_party(me: &Introduction, body: &mut Vec<u8>) {
    match me.party {
        Party::Node { node, incarnation } => {
            body.push(1);
            body.extend_from_slice(&node.to_le_bytes());
            body.extend_from_slice(&incarnation.to_le_bytes());
        }
        Party::Newcomer { identity } => {
            body.push(2);
            body.extend_from_slice(&identity.to_le_bytes());
        }
        Party::Client { session } => {
            body.push(3);
            body.extend_from_slice(&session.to_le_bytes());
        }
    }
    body.extend_from_slice(&me.limits.body_size_max.to_le_bytes());
    body.extend_from_slice(&me.limits.window.to_le_bytes());
}

fn read_party(reader: &mut Reader<'_>) -> Result<(Party, Limits), Malformed> {
    let party = match reader.u8()? {
        1 => Party::Node { node: reader.u32()?, incarnation: reader.u64()? },
        2 => Party::Newcomer { identity: reader.array().map(u128::from_le_bytes)? },
        3 => Party::Client { session: reader.u64()? },
        _ => return Err(Malformed("a party is of an unknown kind")),
    };
    let limits = Limits { body_size_max: reader.u32()?, window: reader.u32()? };
    if !limits.are_sound() {
        return Err(Malformed("a window has no room for two frames of the largest size"));
    }
    Ok((party, limits))
}
