//! Gossip's packets as bytes: fixed fields, little-endian.

use std::fmt;

use bytes::{Buf, BufMut};
use foca::{Codec, Header, Member, Message, State};
use tyr_proto::{Incarnation, NodeId};

use super::Peer;

/// Encodes and decodes packets.
pub(super) struct PeerCodec;

/// Bytes that no encoder wrote, or a buffer that is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are no packet of gossip")
    }
}

impl std::error::Error for Malformed {}

const PEER_SIZE: usize = 4 + 8 + 4;

fn has_room(buffer: &impl BufMut, size: usize) -> Result<(), Malformed> {
    if buffer.remaining_mut() >= size { Ok(()) } else { Err(Malformed) }
}

fn put_peer(peer: &Peer, buffer: &mut impl BufMut) {
    buffer.put_u32_le(peer.node.0);
    buffer.put_u64_le(peer.incarnation.0);
    buffer.put_u32_le(peer.revival);
}

fn peer(buffer: &mut impl Buf) -> Result<Peer, Malformed> {
    let node = NodeId(buffer.try_get_u32_le().map_err(|_| Malformed)?);
    let incarnation = Incarnation(buffer.try_get_u64_le().map_err(|_| Malformed)?);
    let revival = buffer.try_get_u32_le().map_err(|_| Malformed)?;
    Ok(Peer { node, incarnation, revival })
}

fn byte(buffer: &mut impl Buf) -> Result<u8, Malformed> {
    buffer.try_get_u8().map_err(|_| Malformed)
}

/// The tag, the number of the probe, and the third node of a message.
fn parts(message: &Message<Peer>) -> (u8, u8, Option<&Peer>) {
    match message {
        Message::Ping(number) => (0, *number, None),
        Message::Ack(number) => (1, *number, None),
        Message::PingReq { target, probe_number } => (2, *probe_number, Some(target)),
        Message::IndirectPing { origin, probe_number } => (3, *probe_number, Some(origin)),
        Message::IndirectAck { target, probe_number } => (4, *probe_number, Some(target)),
        Message::ForwardedAck { origin, probe_number } => (5, *probe_number, Some(origin)),
        Message::Announce => (6, 0, None),
        Message::Feed => (7, 0, None),
        Message::Gossip => (8, 0, None),
        Message::Broadcast => (9, 0, None),
        Message::TurnUndead => (10, 0, None),
    }
}

fn message(buffer: &mut impl Buf) -> Result<Message<Peer>, Malformed> {
    let (tag, probe_number) = (byte(buffer)?, byte(buffer)?);
    Ok(match tag {
        0 => Message::Ping(probe_number),
        1 => Message::Ack(probe_number),
        2 => Message::PingReq { target: peer(buffer)?, probe_number },
        3 => Message::IndirectPing { origin: peer(buffer)?, probe_number },
        4 => Message::IndirectAck { target: peer(buffer)?, probe_number },
        5 => Message::ForwardedAck { origin: peer(buffer)?, probe_number },
        6 => Message::Announce,
        7 => Message::Feed,
        8 => Message::Gossip,
        9 => Message::Broadcast,
        10 => Message::TurnUndead,
        _ => return Err(Malformed),
    })
}

impl Codec<Peer> for PeerCodec {
    type Error = Malformed;

    fn encode_header(&mut self, header: &Header<Peer>, mut buffer: impl BufMut) -> Result<(), Malformed> {
        let (tag, number, third) = parts(&header.message);
        has_room(&buffer, 2 * PEER_SIZE + 4 + third.map_or(0, |_| PEER_SIZE))?;
        put_peer(&header.src, &mut buffer);
        buffer.put_u16_le(header.src_incarnation);
        put_peer(&header.dst, &mut buffer);
        buffer.put_u8(tag);
        buffer.put_u8(number);
        third.into_iter().for_each(|third| put_peer(third, &mut buffer));
        Ok(())
    }

    fn decode_header(&mut self, mut buffer: impl Buf) -> Result<Header<Peer>, Malformed> {
        let src = peer(&mut buffer)?;
        let src_incarnation = buffer.try_get_u16_le().map_err(|_| Malformed)?;
        let dst = peer(&mut buffer)?;
        Ok(Header { src, src_incarnation, dst, message: message(&mut buffer)? })
    }

    fn encode_member(&mut self, member: &Member<Peer>, mut buffer: impl BufMut) -> Result<(), Malformed> {
        has_room(&buffer, PEER_SIZE + 3)?;
        put_peer(member.id(), &mut buffer);
        buffer.put_u16_le(member.incarnation());
        buffer.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        Ok(())
    }

    fn decode_member(&mut self, mut buffer: impl Buf) -> Result<Member<Peer>, Malformed> {
        let peer = peer(&mut buffer)?;
        let incarnation = buffer.try_get_u16_le().map_err(|_| Malformed)?;
        let state = match byte(&mut buffer)? {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            _ => return Err(Malformed),
        };
        Ok(Member::new(peer, incarnation, state))
    }
}
