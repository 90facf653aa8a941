//! What a primary does with transactions of keyspaces that it has not heard of yet.

use super::*;

/// A node that leads partition 0 alone, and knows of the first so many keyspaces.
fn knowing(count: u32) -> Router {
    let mut router = primary();
    router.handle_keyspaces(keyspaces(count));
    router.handle_tick(Time(1), true);
    run(&mut router);
    router
}

fn keyspaces(count: u32) -> Arc<BTreeMap<KeyspaceId, Keyspace>> {
    Arc::new((1..=count).map(|number| (KeyspaceId(number), keyspace(1))).collect())
}

/// A transaction that creates a blob in each of some keyspaces.
fn plan(sequence: u64, keyspaces: &[u32]) -> Arc<Plan> {
    let head = |number: &u32| {
        let key = Key::new(alloc::format!("b{sequence}")).unwrap();
        let blob = BlobName { keyspace: KeyspaceId(*number), key };
        HeadPlan::blind(partition(0), blob, Vec::from([Operation::Create]))
    };
    let heads = keyspaces.iter().map(head).collect();
    Arc::new(Plan { id: id(sequence), answered: 1, reserve: None, heads })
}

fn tell(router: &mut Router, message: Message) {
    router.handle_message(Time(1), true, Envelope { partition: partition(0), message });
    run(router);
}

fn tick(router: &mut Router) {
    router.handle_tick(Time(2), true);
    run(router);
}

fn committed(router: &Router, sequence: u64) -> Option<bool> {
    let record = router.partition(partition(0)).unwrap().state().record(id(sequence))?;
    record.outcome.map(|outcome| outcome == Outcome::Committed)
}

#[test]
fn a_transaction_waits_until_all_its_keyspaces_are_heard_of() {
    let mut router = knowing(1);
    tell(&mut router, Message::Start(plan(1, &[1, 2])));
    tell(&mut router, Message::Start(plan(2, &[1])));
    assert_eq!((committed(&router, 1), committed(&router, 2)), (None, Some(true)));
    tick(&mut router);
    assert_eq!(committed(&router, 1), None, "nothing was heard");
    router.handle_keyspaces(keyspaces(2));
    tick(&mut router);
    assert_eq!(committed(&router, 1), Some(true));
}

#[test]
fn what_is_still_not_heard_of_waits_on_and_too_many_do_not() {
    let mut router = knowing(1);
    (1..=65).for_each(|sequence| tell(&mut router, Message::Start(plan(sequence, &[3]))));
    router.handle_keyspaces(keyspaces(2));
    tick(&mut router);
    assert!((1..=65).all(|sequence| committed(&router, sequence).is_none()));
    router.handle_keyspaces(keyspaces(3));
    tick(&mut router);
    assert_eq!(committed(&router, 1), None, "the first gave way; its client sends it again");
    assert!((2..=65).all(|sequence| committed(&router, sequence) == Some(true)));
    tell(&mut router, Message::Start(plan(1, &[3])));
    assert_eq!(committed(&router, 1), Some(true));
}
