//! Who waits for what is not decided yet, and who does not.

use super::{served::KEYSPACE, *};
use crate::freeze::{Extent, Freeze};

/// A primary whose disk is as slow as a test wants.
struct Slow {
    router: Router,
    answers: Vec<Answer>,
    /// What is on its way to the disk.
    stores: Vec<(PartitionId, u64, Epoch)>,
}

fn named(key: &str) -> BlobName {
    BlobName { keyspace: KEYSPACE, key: Key::new(key).unwrap() }
}

fn request(number: u64) -> RequestId {
    RequestId { session: SessionId(1), number }
}

impl Slow {
    fn new() -> Self {
        Slow { router: primary(), answers: Vec::new(), stores: Vec::new() }
    }

    fn hear(&mut self, message: Message) {
        self.router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        self.note();
    }

    fn note(&mut self) {
        while let Some(output) = self.router.poll_output() {
            match output {
                Output::Store { partition, index, epoch, .. } => self.stores.push((partition, index, epoch)),
                Output::Answer(_, answer) => self.answers.push(answer),
                _ => {}
            }
        }
    }

    /// A transaction comes that writes a blob.
    fn write(&mut self, sequence: u64, blob: BlobName) {
        let operations = Vec::from([Operation::Append { bytes: [7][..].into() }]);
        let heads = Vec::from([HeadPlan::blind(partition(0), blob, operations)]);
        self.hear(Message::Start(Arc::new(Plan { id: id(sequence), answered: 0, reserve: None, heads })));
    }

    /// The disk is done with everything.
    fn store(&mut self) {
        while !self.stores.is_empty() {
            for (partition, index, epoch) in core::mem::take(&mut self.stores) {
                self.router.handle_stored(Time(0), true, partition, index, epoch);
            }
            self.note();
        }
    }

    fn is_committed(&self, sequence: u64) -> bool {
        let of_it = |answer: &Answer| matches!(answer, Answer::Outcome { id: of, outcome: Some((Outcome::Committed, _)) } if *of == id(sequence));
        self.answers.iter().any(of_it)
    }

    /// The names of a page that was asked for under a number, and whether there are more.
    fn page(&self, number: u64) -> Option<(Vec<&str>, bool)> {
        self.answers.iter().find_map(|answer| match answer {
            Answer::Names { request: of, names, more } if *of == request(number) => {
                let names = names.iter().map(|blob| core::str::from_utf8(blob.key.as_bytes()).unwrap());
                Some((names.collect(), *more))
            }
            _ => None,
        })
    }

    fn scan(&mut self, number: u64, after: &str, limit: u32) {
        self.hear(Message::Scan { request: request(number), after: named(after), inclusive: true, limit });
    }
}

#[test]
fn who_waits_for_a_freeze_goes_on_once_it_stands_however_much_it_has_to_tell() {
    let mut slow = Slow::new();
    // More than its first part tells.
    let many = (0..100).map(|index| named(&alloc::format!("{index:03}{}", "x".repeat(1000))));
    (1..).zip(many).for_each(|(sequence, blob)| slow.write(sequence, blob));
    slow.store();
    slow.write(101, named("first"));
    let prefixes = Vec::from([(KEYSPACE, Arc::from(&b""[..]))]);
    let freeze = Freeze { request: request(1), stays: false, extent: Extent::Prefixes(prefixes) };
    slow.hear(Message::Freeze { freeze: Arc::new(freeze), stands: Vec::new() });
    slow.write(102, named("second"));
    assert!(!slow.is_committed(101) && !slow.is_committed(102));
    slow.store();
    let tells_in_parts = |answer: &Answer| matches!(answer, Answer::FrozenPart { more: true, .. });
    assert!(slow.is_committed(101) && slow.answers.iter().any(tells_in_parts));
    assert!(slow.is_committed(102), "the freeze stands, and keeps nobody out any more");
}

#[test]
fn a_freeze_of_blobs_that_are_elsewhere_keeps_nobody_out() {
    let keeps_out = |partitions: &[PartitionId], key| {
        let mut slow = Slow::new();
        let blobs = partitions.iter().map(|partition| (*partition, named(key))).collect();
        let freeze = Freeze { request: request(1), stays: false, extent: Extent::Blobs(blobs) };
        slow.hear(Message::Freeze { freeze: Arc::new(freeze), stands: Vec::new() });
        slow.write(1, named(key));
        slow.store();
        !slow.is_committed(1)
    };
    let (here, there) = (partition(0), partition(4_000_000_000));
    assert!(!keeps_out(&[here], "a"), "it stands at once, and is over");
    assert!(!keeps_out(&[here, there], "a"));
}

#[test]
fn who_lists_waits_for_what_is_on_the_page() {
    let mut slow = Slow::new();
    ["a", "b", "c"].iter().zip(1..).for_each(|(key, sequence)| slow.write(sequence, named(key)));
    slow.store();
    slow.write(4, named("bb"));
    slow.write(5, named("z"));
    slow.scan(1, "a", 2);
    slow.scan(2, "a", 3);
    slow.scan(3, "c", 1);
    assert_eq!(slow.page(1), Some((Vec::from(["a", "b"]), true)));
    assert_eq!(slow.page(2), None, "bb would be on it");
    assert_eq!(slow.page(3), Some((Vec::from(["c"]), true)));
    slow.store();
    assert_eq!(slow.page(2), Some((Vec::from(["a", "b", "bb"]), true)));
    slow.scan(4, "a", u32::MAX);
    assert_eq!(slow.page(4), Some((Vec::from(["a", "b", "bb", "c", "z"]), false)));
}

#[test]
fn a_page_goes_on_where_what_would_have_been_on_it_is_not_there() {
    let mut slow = Slow::new();
    [("a", 1), ("c", 2)].iter().for_each(|(key, sequence)| slow.write(*sequence, named(key)));
    slow.store();
    let delete = |key| HeadPlan::blind(partition(0), named(key), Vec::from([Operation::Delete]));
    let heads = Vec::from([delete("a")]);
    slow.hear(Message::Start(Arc::new(Plan { id: id(3), answered: 0, reserve: None, heads })));
    slow.write(4, named("b"));
    slow.write(5, named("bb"));
    slow.scan(1, "a", 2);
    slow.scan(2, "d", 2);
    assert_eq!(slow.page(2), Some((Vec::new(), false)));
    assert_eq!(slow.page(1), None);
    slow.store();
    assert_eq!(slow.page(1), Some((Vec::from(["b", "bb"]), true)));
}

#[test]
fn as_many_names_as_are_asked_for_are_bounded() {
    let mut slow = Slow::new();
    (1..=1100).for_each(|sequence| slow.write(sequence, named(&alloc::format!("{sequence:04}"))));
    slow.store();
    slow.scan(1, "0", u32::MAX);
    let (names, more) = slow.page(1).unwrap();
    assert_eq!((names.len(), more), (1024, true));
    slow.scan(2, "1025", u32::MAX);
    assert_eq!(slow.page(2).map(|(names, more)| (names.len(), more)), Some((76, false)));
}
