//! The bytes of what voters say to one another, and of what they keep: openraft's types, which are not ours to give an encoding, around
//! the commands and clusters of `tyr_proto`.
//!
//! Decoding never panics, whatever the bytes. What decodes may still make no sense to the consensus; only other voters are believed.

use std::collections::BTreeMap;

use openraft::{
    CommittedLeaderId, EmptyNode, EntryPayload, Vote,
    raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse},
};
use tyr_proto::{
    Awaited, RingVersion,
    cluster::{Cluster, Command},
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
};

use crate::{
    Surroundings,
    journal::Change,
    transport::Message,
    types::{Entry, LogId, Membership, Premise, Proposal, Request, Response, SnapshotMeta, VoterId},
};

/// What the codec of this module writes and reads.
pub(crate) trait Coded: Sized {
    fn put(&self, out: &mut Encoder);
    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed>;
}

/// The bytes of a value.
pub(crate) fn to_bytes(value: &impl Coded) -> Vec<u8> {
    let mut out = Encoder::new(Vec::new());
    value.put(&mut out);
    out.finish()
}

/// The value that has exactly these bytes.
pub(crate) fn from_bytes<T: Coded>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut input = Decoder::new(bytes);
    let value = T::read(&mut input)?;
    input.finish()?;
    Ok(value)
}

fn unknown<T>() -> Result<T, Malformed> {
    Err(Malformed("a voter knows no such thing"))
}

fn voter(input: &mut Decoder<'_>) -> Result<VoterId, Malformed> {
    VoterId::try_from(input.varint()?).map_err(|_| Malformed("a voter's number is too large"))
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, out: &mut Encoder) {
        out.byte(u8::from(self.is_some()));
        self.iter().for_each(|value| value.put(out));
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(if bool::read(input)? { Some(T::read(input)?) } else { None })
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, out: &mut Encoder) {
        out.varint(self.len() as u64);
        self.iter().for_each(|value| value.put(out));
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let count = input.count()?;
        (0..count).map(|_| T::read(input)).collect()
    }
}

impl Coded for bool {
    fn put(&self, out: &mut Encoder) {
        out.byte(u8::from(*self));
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => unknown(),
        }
    }
}

impl Coded for u64 {
    fn put(&self, out: &mut Encoder) {
        out.varint(*self);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        input.varint()
    }
}

/// What `tyr_proto` encodes.
macro_rules! of_the_protocol {
    ($($type:ty),+) => {
        $(impl Coded for $type {
            fn put(&self, out: &mut Encoder) {
                self.encode(out);
            }

            fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Self::decode(input)
            }
        })+
    };
}
of_the_protocol!(Command, Cluster, RingVersion);

impl Coded for CommittedLeaderId<VoterId> {
    fn put(&self, out: &mut Encoder) {
        out.varint(self.term);
        out.varint(u64::from(self.node_id));
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(CommittedLeaderId { term: input.varint()?, node_id: voter(input)? })
    }
}

impl Coded for LogId {
    fn put(&self, out: &mut Encoder) {
        self.leader_id.put(out);
        out.varint(self.index);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let leader_id = CommittedLeaderId::read(input)?;
        let index = input.varint()?;
        // The index after it must be a number, too.
        ensure(index < u64::MAX, "an index of a log is too large")?;
        Ok(LogId { leader_id, index })
    }
}

impl Coded for Vote<VoterId> {
    fn put(&self, out: &mut Encoder) {
        self.leader_id.put(out);
        self.committed.put(out);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Vote { leader_id: CommittedLeaderId::read(input)?, committed: bool::read(input)? })
    }
}

impl Coded for openraft::Membership<VoterId, EmptyNode> {
    fn put(&self, out: &mut Encoder) {
        let put_all = |voters: &mut dyn Iterator<Item = VoterId>, out: &mut Encoder| {
            let voters: Vec<u64> = voters.map(u64::from).collect();
            voters.put(out);
        };
        out.varint(self.get_joint_config().len() as u64);
        self.get_joint_config().iter().for_each(|voters| put_all(&mut voters.iter().copied(), out));
        put_all(&mut self.nodes().map(|(voter, _)| *voter), out);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let take_all = |input: &mut Decoder<'_>| -> Result<Vec<VoterId>, Malformed> {
            let count = input.count()?;
            let all: Vec<_> = (0..count).map(|_| voter(input)).collect::<Result<_, _>>()?;
            ensure(all.is_sorted_by(|one, next| one < next), "voters are out of order")?;
            Ok(all)
        };
        let count = input.count()?;
        let configs =
            (0..count).map(|_| Ok(take_all(input)?.into_iter().collect())).collect::<Result<_, _>>()?;
        let nodes: BTreeMap<VoterId, EmptyNode> =
            take_all(input)?.into_iter().map(|voter| (voter, EmptyNode {})).collect();
        let count = nodes.len();
        let membership = openraft::Membership::new(configs, nodes);
        ensure(membership.nodes().count() == count, "a voter is no node")?;
        Ok(membership)
    }
}

impl Coded for Membership {
    fn put(&self, out: &mut Encoder) {
        self.log_id().put(out);
        self.membership().put(out);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Membership::new(Option::read(input)?, openraft::Membership::read(input)?))
    }
}

impl Coded for SnapshotMeta {
    fn put(&self, out: &mut Encoder) {
        self.last_log_id.put(out);
        self.last_membership.put(out);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let last_log_id = Option::read(input)?;
        Ok(crate::types::snapshot_meta(last_log_id, Membership::read(input)?))
    }
}

impl Coded for Proposal {
    fn put(&self, out: &mut Encoder) {
        let Proposal { premise: Premise { term, awaited }, command } = self;
        term.put(out);
        out.byte(u8::from(awaited.is_some()));
        if let Some(Awaited { partition, since }) = awaited {
            partition.encode(out);
            since.put(out);
        }
        command.put(out);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let term = Option::read(input)?;
        let awaited = match bool::read(input)? {
            true => Some(Awaited { partition: Decode::decode(input)?, since: Option::read(input)? }),
            false => None,
        };
        Ok(Proposal { premise: Premise { term, awaited }, command: Command::read(input)? })
    }
}

impl<S: Surroundings> Coded for Entry<S> {
    fn put(&self, out: &mut Encoder) {
        self.log_id.put(out);
        match &self.payload {
            EntryPayload::Blank => out.byte(0),
            EntryPayload::Normal(proposal) => {
                out.byte(1);
                proposal.put(out);
            }
            EntryPayload::Membership(membership) => {
                out.byte(2);
                membership.put(out);
            }
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let log_id = LogId::read(input)?;
        let payload = match input.byte()? {
            0 => EntryPayload::Blank,
            1 => EntryPayload::Normal(Proposal::read(input)?),
            2 => EntryPayload::Membership(openraft::Membership::read(input)?),
            _ => return unknown(),
        };
        Ok(Entry::<S> { log_id, payload })
    }
}

impl<S: Surroundings> Coded for Request<S> {
    fn put(&self, out: &mut Encoder) {
        match self {
            Request::Append(request) => {
                out.byte(0);
                request.vote.put(out);
                request.prev_log_id.put(out);
                request.entries.put(out);
                request.leader_commit.put(out);
            }
            Request::Vote(request) => {
                out.byte(1);
                request.vote.put(out);
                request.last_log_id.put(out);
            }
            Request::Snapshot(vote, meta, cluster) => {
                out.byte(2);
                vote.put(out);
                meta.put(out);
                cluster.put(out);
            }
            Request::Canvass(last) => {
                out.byte(3);
                last.put(out);
            }
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = input.byte()?;
        if kind == 3 {
            return Ok(Request::Canvass(Option::read(input)?));
        }
        let vote = Vote::read(input)?;
        Ok(match kind {
            0 => Request::Append(AppendEntriesRequest {
                vote,
                prev_log_id: Option::read(input)?,
                entries: Vec::read(input)?,
                leader_commit: Option::read(input)?,
            }),
            1 => Request::Vote(VoteRequest { vote, last_log_id: Option::read(input)? }),
            2 => Request::Snapshot(vote, SnapshotMeta::read(input)?, Box::new(Cluster::read(input)?)),
            _ => return unknown(),
        })
    }
}

impl Coded for Response {
    fn put(&self, out: &mut Encoder) {
        match self {
            Response::Append(AppendEntriesResponse::Success) => out.byte(0),
            Response::Append(AppendEntriesResponse::PartialSuccess(upto)) => {
                out.byte(1);
                upto.put(out);
            }
            Response::Append(AppendEntriesResponse::Conflict) => out.byte(2),
            Response::Append(AppendEntriesResponse::HigherVote(vote)) => {
                out.byte(3);
                vote.put(out);
            }
            Response::Vote(VoteResponse { vote, vote_granted, last_log_id }) => {
                out.byte(4);
                vote.put(out);
                vote_granted.put(out);
                last_log_id.put(out);
            }
            Response::Snapshot(SnapshotResponse { vote }) => {
                out.byte(5);
                vote.put(out);
            }
            Response::Canvass(would_vote) => {
                out.byte(6);
                would_vote.put(out);
            }
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => Response::Append(AppendEntriesResponse::Success),
            1 => Response::Append(AppendEntriesResponse::PartialSuccess(Option::read(input)?)),
            2 => Response::Append(AppendEntriesResponse::Conflict),
            3 => Response::Append(AppendEntriesResponse::HigherVote(Vote::read(input)?)),
            4 => Response::Vote(VoteResponse {
                vote: Vote::read(input)?,
                vote_granted: bool::read(input)?,
                last_log_id: Option::read(input)?,
            }),
            5 => Response::Snapshot(SnapshotResponse { vote: Vote::read(input)? }),
            6 => Response::Canvass(bool::read(input)?),
            _ => return unknown(),
        })
    }
}

impl<S: Surroundings> Coded for Message<S> {
    fn put(&self, out: &mut Encoder) {
        match self {
            Message::Ask(number, request) => {
                out.byte(0);
                out.varint(*number);
                request.put(out);
            }
            Message::Answer(number, response) => {
                out.byte(1);
                out.varint(*number);
                response.put(out);
            }
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => Message::Ask(input.varint()?, Request::read(input)?),
            1 => Message::Answer(input.varint()?, Response::read(input)?),
            _ => return unknown(),
        })
    }
}

impl<S: Surroundings> Coded for Change<S> {
    fn put(&self, out: &mut Encoder) {
        match self {
            Change::Vote(vote) => {
                out.byte(0);
                vote.put(out);
            }
            Change::Append(entries) => {
                out.byte(1);
                entries.put(out);
            }
            Change::Truncate(index) => {
                out.byte(2);
                out.varint(*index);
            }
            Change::Purge(last) => {
                out.byte(3);
                last.put(out);
            }
            Change::Snapshot(meta, cluster) => {
                out.byte(4);
                meta.put(out);
                cluster.put(out);
            }
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => Change::Vote(Vote::read(input)?),
            1 => Change::Append(Vec::read(input)?),
            2 => Change::Truncate(input.varint()?),
            3 => Change::Purge(LogId::read(input)?),
            4 => Change::Snapshot(SnapshotMeta::read(input)?, Box::new(Cluster::read(input)?)),
            _ => return unknown(),
        })
    }
}
