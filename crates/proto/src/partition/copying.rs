//! A partition's state on its way to a replica whose log has nothing to go on from: encoded, and sent part by part, each when the one
//! before has arrived.
//!
//! A part that is lost is asked for again when the primary says again that it wants to reconcile, so the copy goes on where it stopped. What
//! is on its way is not sent again before that, however often it is asked for: else whatever comes twice would have all that follows it sent
//! twice, and four times after that (the Sorcerer's Apprentice of RFC 1123, section 4.2.3.1).

use alloc::{sync::Arc, vec::Vec};

use crate::{
    Epoch, NodeId,
    encoding::{from_bytes, to_bytes},
    message::Message,
    state::State,
};

/// Up to where a state is folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The last entry.
    pub index: u64,
    /// The epochs of the log up to there.
    pub epochs: Vec<(Epoch, u64)>,
}

/// A copy at the primary.
#[derive(Clone, Debug)]
pub struct Sending {
    folded: Folded,
    bytes: Vec<u8>,
    /// Up to which byte parts have been sent.
    sent: u64,
}

/// A copy at the replica that gets it.
#[derive(Debug)]
pub struct Receiving {
    folded: Folded,
    size: u64,
    bytes: Vec<u8>,
}

impl Sending {
    /// A copy of a state as it is now.
    pub fn new(folded: Folded, state: &State) -> Self {
        Sending { folded, bytes: to_bytes(&*state.to_copy()), sent: 0 }
    }

    /// The entry up to which it is folded.
    pub fn index(&self) -> u64 {
        self.folded.index
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// What is on its way may be lost: the replica is asked how much of it is there, and gets what it asks for then.
    pub fn lose(&mut self) {
        self.sent = 0;
    }

    /// The first part.
    pub fn begin(&mut self, epoch: Epoch, most: usize) -> Message {
        self.part(epoch, 0, most)
    }

    /// The part that begins at a byte, unless it is on its way.
    pub fn next(&mut self, epoch: Epoch, from: u64, most: usize) -> Option<Message> {
        (from >= self.sent).then(|| self.part(epoch, from, most))
    }

    fn part(&mut self, epoch: Epoch, from: u64, most: usize) -> Message {
        let start = usize::try_from(from).map_or(self.bytes.len(), |from| from.min(self.bytes.len()));
        let end = self.bytes.len().min(start.saturating_add(most.max(1)));
        let Folded { index, epochs } = self.folded.clone();
        self.sent = end as u64;
        let (size, bytes) = (self.bytes.len() as u64, Arc::from(&self.bytes[start..end]));
        Message::Copy { epoch, index, epochs, size, from: start as u64, bytes }
    }
}

impl Receiving {
    /// A copy of which nothing is here.
    pub fn new(folded: Folded, size: u64) -> Self {
        Receiving { folded, size, bytes: Vec::new() }
    }

    /// Whether it is this copy.
    pub fn is_of(&self, folded: &Folded, size: u64) -> bool {
        self.folded == *folded && self.size == size
    }

    /// Takes a part, if it is the next one.
    pub fn take(&mut self, from: u64, bytes: &[u8]) {
        let here = self.bytes.len() as u64;
        if from == here && here + bytes.len() as u64 <= self.size {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Whether all of it is here.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.size
    }

    /// Asks for the next part.
    pub fn ask(&self, epoch: Epoch, node: NodeId) -> Message {
        Message::Copied { epoch, index: self.folded.index, from: self.bytes.len() as u64, node }
    }

    /// The state; none if the bytes are not those of one.
    pub fn into_state(self) -> Option<(Folded, Arc<State>)> {
        Some((self.folded, Arc::new(from_bytes(&self.bytes).ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassId, PartitionId, SessionId, entry::Entry};

    fn state() -> State {
        let mut state = State::new(PartitionId { class: ClassId(0), index: 3 });
        for session in 1..50 {
            let born = crate::RingVersion(1);
            let mark = Entry::Mark {
                session: SessionId(session),
                answered: Arc::new(crate::Answered::below(7)),
                born,
            };
            state.apply(session, Epoch(1), &mark);
        }
        state
    }

    #[test]
    fn a_copy_goes_on_where_it_stopped_whatever_is_lost_or_comes_twice() {
        let folded = Folded { index: 49, epochs: Vec::from([(Epoch(1), 49)]) };
        let mut sending = Sending::new(folded.clone(), &state());
        let mut receiving = Receiving::new(folded, sending.bytes.len() as u64);
        let mut parts = 0;
        while !receiving.is_whole() {
            let Message::Copied { from, .. } = receiving.ask(Epoch(2), NodeId(1)) else { unreachable!() };
            let Some(Message::Copy { from, bytes, .. }) = sending.next(Epoch(2), from, 10) else {
                assert!(parts % 3 == 0, "it is on its way");
                sending.lose();
                continue;
            };
            assert!(bytes.len() <= 10);
            assert!(sending.next(Epoch(2), from, 10).is_none(), "asked for twice");
            parts += 1;
            if parts % 3 > 0 {
                receiving.take(from, &bytes);
                receiving.take(from, &bytes);
            }
        }
        assert!(parts > 10);
        let (_, received) = receiving.into_state().expect("decodes");
        assert_eq!(to_bytes(&*received), to_bytes(&state()));
    }
}
