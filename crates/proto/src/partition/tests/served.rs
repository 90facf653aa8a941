//! A primary that serves a client, to see how transactions end.

use super::*;
use crate::Payload;

pub const KEYSPACE: KeyspaceId = KeyspaceId(1);
pub const DONE: Option<Outcome> = Some(Outcome::Committed);

/// A primary with clients of whose transactions each has the next sequence.
pub struct Served {
    pub router: Router,
    last: u64,
}

impl Served {
    pub fn new() -> Self {
        Served { router: primary(), last: 0 }
    }

    /// How a transaction ends that does these things to blobs.
    pub fn ends(&mut self, heads: &[(&str, &[Operation])]) -> Option<Outcome> {
        self.last += 1;
        let head = |(key, operations): &(&str, &[Operation])| {
            HeadPlan::blind(
                partition(0),
                BlobName { keyspace: KEYSPACE, key: Key::new(key).unwrap() },
                operations.to_vec(),
            )
        };
        let heads = heads.iter().map(head).collect();
        let plan = Plan { id: id(self.last), answered: self.last, reserve: None, heads };
        let message = Message::Start(Arc::new(plan));
        self.router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        let mut ended = None;
        while let Some(output) = self.router.poll_output() {
            match output {
                Output::Store { partition, index, epoch, .. } => {
                    self.router.handle_stored(Time(0), true, partition, index, epoch);
                }
                Output::Answer(_, Answer::Outcome { outcome: Some((outcome, _)), .. }) => {
                    ended = Some(outcome)
                }
                _ => {}
            }
        }
        ended
    }

    pub fn does(&mut self, key: &str, operation: Operation) -> Option<Outcome> {
        self.ends(&[(key, &[operation])])
    }
}

pub fn bytes(count: usize) -> Payload {
    alloc::vec![7; count][..].into()
}

pub fn append(count: usize) -> Operation {
    Operation::Append { bytes: bytes(count) }
}
