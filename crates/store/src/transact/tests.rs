//! Transactions at the limits of memory.

use tyr_types::{Error, Number};
use tyr_wire::record::Existence;

use super::{BlobChange, Stop};
use crate::{
    miss::Wait,
    payload::Payload,
    testing::{key, store},
};

#[test]
fn a_transaction_that_needs_more_objects_than_the_cache_holds_comes_to_an_end() {
    let (store, space) = store();
    let names: Vec<String> = (0..2000).map(|name| format!("{name}")).collect();
    let committed = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
        for name in &names {
            let writes = vec![(0, Payload::new(b"x"))];
            let existence = Existence::Create;
            let change = BlobChange { existence, cut: None, size: 1, attributes: None, writes };
            writer.put(space, &key(name), change);
        }
        Ok(())
    });
    committed.expect("commits").1.wait().expect("durable");
    let found = store.scan(space, b"", None, usize::MAX, Number::MAX).expect("scans");
    assert_eq!(found.len(), names.len());
}
