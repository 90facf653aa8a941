//! What the channels of a connection carry. `docs/wire-protocol.md` has it in prose.
//!
//! A connection serves whoever dialed it: a client, or the node that has something to send. What comes back on it are replies, answers,
//! and credit; a node that wants to be heard by another one dials it.

use tyr_wire::connection::Channel;

/// From voter to voter, messages: what `tyr_manager::Exchange` posts. The sender is the node of the handshake.
pub const CONSENSUS: Channel = Channel::ALL[0];
/// From node to node, messages: packets of gossip.
pub const GOSSIP: Channel = Channel::ALL[1];
/// To any node, requests: encoded `tyr_proto::cluster::Request`s, each replied to by an encoded `tyr_proto::cluster::Response`, or never.
/// From a node that has dialed another one, a message at the beginning: the encoded `tyr_proto::cluster::Address` at which it is reached.
pub const MANAGER: Channel = Channel::ALL[2];
/// To a node, messages: encoded `tyr_proto::message::Envelope`s. Back to a client, messages: encoded `tyr_proto::message::Answer`s.
pub const DATA: Channel = Channel::ALL[3];
/// To a node, messages: as on [`DATA`], each behind a `tyr_proto::TraceContext`.
pub const TRACED: Channel = Channel::ALL[5];
/// From node to node: messages and requests for a third one, to which the sender's own link is cut.
pub const RELAY: Channel = Channel::ALL[4];
