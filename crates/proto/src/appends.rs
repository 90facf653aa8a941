//! Log entries that are about to be sent: those of one partition's log for one replica go together, however many steps they are of.
//!
//! The surroundings take what is wanted of them after they have handed over all messages that had come. So when many clients write at
//! a time, a backup gets one message, writes one record, and acknowledges once.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use crate::{Epoch, NodeId, PartitionId, entry::Entry, message::Message};

/// What is held back until the surroundings have taken everything else.
#[derive(Debug, Default)]
pub struct Appends {
    held: BTreeMap<(NodeId, PartitionId), Held>,
}

#[derive(Debug)]
struct Held {
    epoch: Epoch,
    previous: u64,
    entries: Vec<(Epoch, Arc<Entry>)>,
    durable: u64,
    /// Bytes of payload.
    size: usize,
}

impl Held {
    fn end(&self) -> u64 {
        self.previous + self.entries.len() as u64
    }

    fn into_message(self) -> Message {
        let Held { epoch, previous, entries, durable, .. } = self;
        Message::Append { epoch, previous, entries, durable }
    }
}

impl Appends {
    /// Holds entries back, with those before them if there are some. Returns what is to be sent now: another message, or what was
    /// held of entries that these do not follow or do not fit beside, of at most about so many bytes.
    pub fn hold(
        &mut self,
        node: NodeId,
        partition: PartitionId,
        message: Message,
        size_max: usize,
    ) -> Option<Message> {
        let Message::Append { epoch, previous, entries, durable } = message else { return Some(message) };
        let size = entries.iter().map(|(_, entry)| entry.size()).sum();
        let new = Held { epoch, previous, entries, durable, size };
        match self.held.get_mut(&(node, partition)) {
            Some(held) if held.epoch == epoch && held.end() == previous && held.size + size <= size_max => {
                held.entries.extend(new.entries);
                held.durable = held.durable.max(durable);
                held.size += size;
                None
            }
            Some(held) => Some(core::mem::replace(held, new).into_message()),
            None => {
                self.held.insert((node, partition), new);
                None
            }
        }
    }

    /// The next that was held back.
    pub fn pop(&mut self) -> Option<(NodeId, PartitionId, Message)> {
        let ((node, partition), held) = self.held.pop_first()?;
        Some((node, partition, held.into_message()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassId;

    const P: PartitionId = PartitionId { class: ClassId(0), index: 1 };

    fn append(epoch: u32, previous: u64, count: usize) -> Message {
        let entries = (0..count).map(|_| (Epoch(epoch), Arc::new(Entry::Marker))).collect();
        Message::Append { epoch: Epoch(epoch), previous, entries, durable: previous }
    }

    /// Up to where a message has entries, and what it says is durable.
    fn bounds(message: Message) -> (u64, u64, u64) {
        match message {
            Message::Append { previous, entries, durable, .. } => {
                (previous, previous + entries.len() as u64, durable)
            }
            other => panic!("{other:?} has no entries"),
        }
    }

    #[test]
    fn entries_that_follow_each_other_go_together_and_others_do_not_wait_for_them() {
        let mut appends = Appends::default();
        let mut hold = |node, message| appends.hold(NodeId(node), P, message, 1000).map(bounds);
        assert_eq!(hold(1, append(1, 4, 1)), None);
        assert_eq!(hold(2, append(1, 4, 1)), None);
        assert_eq!(hold(1, append(1, 5, 2)), None);
        assert_eq!(hold(1, append(1, 3, 1)), Some((4, 7, 5)), "it is sent again");
        assert_eq!(hold(2, append(2, 5, 1)), Some((4, 5, 4)), "an epoch has begun");
        let rest: Vec<_> =
            core::iter::from_fn(|| appends.pop()).map(|(_, _, message)| bounds(message)).collect();
        assert_eq!(rest, [(3, 4, 3), (5, 6, 5)]);
    }

    #[test]
    fn what_is_no_entry_is_sent_at_once() {
        let other = Message::Reconciled { epoch: Epoch(1), index: 3, node: NodeId(2) };
        let said = Appends::default().hold(NodeId(1), P, other, 1000);
        assert!(matches!(said, Some(Message::Reconciled { index: 3, .. })));
    }
}
