//! Transactions that a log takes, and those that it does not.

use super::{
    served::{DONE, Served, append, bytes},
    *,
};

const ENTRY_MAX: usize = 8 << 10;
const TOO_LARGE: Option<Outcome> = Some(Outcome::Refused(Refusal::TooLarge));

fn served() -> Served {
    let mut served = Served::new();
    served.router.set_limits(Limits { entry_max: ENTRY_MAX, ..Limits::default() });
    served
}

fn attribute(number: usize) -> Operation {
    Operation::SetAttribute { name: alloc::format!("{number:04}"), value: Some([1; 100][..].into()) }
}

fn write(chunk: u64) -> Operation {
    Operation::Write { offset: chunk * CHUNK_SIZE_MIN, bytes: bytes(1) }
}

#[test]
fn a_transaction_is_refused_that_is_more_than_a_log_takes() {
    let mut served = served();
    let many: Vec<Operation> = (0..60).map(attribute).collect();
    assert_eq!(served.ends(&[("blob", &many)]), TOO_LARGE);
    assert_eq!(served.ends(&[("blob", &many[..20])]), DONE);
    let keys: Vec<_> = (0..80).map(|number: usize| alloc::format!("{number:02}")).collect();
    let create = [Operation::Create];
    let heads: Vec<(&str, &[Operation])> = keys.iter().map(|key| (key.as_str(), &create[..])).collect();
    assert_eq!(served.ends(&heads), TOO_LARGE);
    assert_eq!(served.ends(&heads[..20]), DONE);
    // A store keeps what is large apart.
    assert_eq!(served.does("large", append(ENTRY_MAX)), DONE);
    assert_eq!(served.does("large", append(4095)), DONE);
    assert_eq!(served.ends(&[("large", &[append(4095), append(4095)])]), TOO_LARGE);
}

#[test]
fn a_blob_has_no_more_chunks_than_one_transaction_deletes() {
    let mut served = served();
    let mut chunks = 0;
    let refused = (0..10_000).map(write).find_map(|write| match served.does("wide", write) {
        DONE => {
            chunks += 1;
            None
        }
        refused => Some(refused),
    });
    assert_eq!(refused, Some(TOO_LARGE));
    assert!((20..ENTRY_MAX / 20).contains(&chunks), "{chunks}");
    assert_eq!(served.does("wide", write(1)), DONE, "where something was written before");
    assert_eq!(served.does("wide", Operation::Truncate { size: 1 }), DONE);
    assert_eq!(served.does("wide", write(1 << 20)), TOO_LARGE, "they have been there");
    assert_eq!(served.does("wide", Operation::Delete), DONE);
    assert_eq!(served.does("other", write(1 << 20)), DONE);
}
