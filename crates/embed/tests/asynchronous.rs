//! The asynchronous side: futures that may be sent and dropped, on no runtime in particular.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use common::{durable, in_memory, number};
use pollster::block_on;
use tyr_embed::{ErrorKind, IoMode, Keyspace, Operand, Outcome, Result, Store, Transform};

type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs all of them at once on this thread.
fn run_all(mut tasks: Vec<Task<'_>>) {
    block_on(poll_fn(|cx| {
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        if tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }));
}

fn on_each_store(test: impl AsyncFn(&Store)) {
    for io in [IoMode::Auto, IoMode::Buffered] {
        let directory = tempfile::tempdir().unwrap();
        block_on(async {
            let store = Store::options().io(io).segment_size(4 << 20).open(directory.path()).await.unwrap();
            test(&store).await;
            store.close().await.unwrap();
        });
    }
}

async fn keyspaces(store: &Store) -> [Keyspace; 2] {
    [
        store.create_keyspace("durable", durable()).await.unwrap(),
        store.create_keyspace("memory", in_memory()).await.unwrap(),
    ]
}

#[test]
fn futures_can_be_sent_to_other_threads() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    on_each_store(async |store| {
        let files = send(send(store.create_keyspace("files", in_memory())).await.unwrap());
        send(files.write("a", 0, b"content")).await.unwrap();
        send(files.append("a", vec![1; 100_000])).await.unwrap();
        send(files.read("a", ..)).await.unwrap();
        send(files.read_into("a", 0, &mut [0; 8])).await.unwrap();
        send(files.scan("", None, 10)).await.unwrap();
        let mut transaction = send(store.begin());
        send(transaction.read(&files, "a", 0..7)).await.unwrap();
        send(transaction.write(&files, "a", 0, vec![2; 100_000])).await.unwrap();
        send(transaction.transform(&files, "a", 0, Transform::add(Operand::U8(1)))).await.unwrap();
        let _ = send(transaction.commit()).await.unwrap();
        let snapshot = send(send(store.snapshot(&[&files])).await.unwrap());
        send(snapshot.get(&files, "a")).await.unwrap();
        let own = files.clone();
        send(store.run(async move |transaction| transaction.read(&own, "a", 0..1).await)).await.unwrap();
        send(store.compact()).await.unwrap();
    });
}

#[test]
fn many_tasks_on_one_thread_share_the_store() {
    on_each_store(async |store| {
        let [durable, memory] = &keyspaces(store).await;
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for n in 0..200u64 {
            tasks.push(Box::pin(async move {
                for keyspace in [durable, memory] {
                    let offset = keyspace.append("log", n.to_le_bytes()).await.unwrap();
                    let read = keyspace.read("log", offset..offset + 8).await.unwrap();
                    assert_eq!(number(&read), n);
                }
            }));
        }
        run_all(tasks);
        for keyspace in [durable, memory] {
            let mut all: Vec<u64> = keyspace.read("log", ..).await.unwrap().chunks(8).map(number).collect();
            all.sort_unstable();
            assert_eq!(all, (0..200).collect::<Vec<_>>());
        }
    });
}

#[test]
fn tasks_that_conflict_all_get_through() {
    on_each_store(async |store| {
        let [_, memory] = &keyspaces(store).await;
        memory.put("count", 0u64.to_le_bytes()).await.unwrap();
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for _ in 0..30 {
            let memory = memory.clone();
            tasks.push(Box::pin(async move {
                let increment = store.run(async move |transaction| {
                    let count = number(&transaction.read(&memory, "count", ..).await?);
                    // Lets all others read the same.
                    yield_now().await;
                    transaction.put(&memory, "count", (count + 1).to_le_bytes()).await
                });
                increment.await.unwrap();
            }));
        }
        run_all(tasks);
        assert_eq!(number(&memory.read("count", ..).await.unwrap()), 30);
    });
}

fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Polls a future a few times without waiting for it, then drops it; whether it was ready.
fn abandon<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return Some(value);
        }
    }
    None
}

#[test]
fn a_commit_that_is_dropped_happens_or_not_as_a_whole() {
    on_each_store(async |store| {
        let [durable, memory] = &keyspaces(store).await;
        for round in 0..60u16 {
            let mut transaction = store.begin();
            let large = vec![7; if round % 3 == 0 { 100_000 } else { 10 }];
            for keyspace in [durable, memory] {
                transaction.append(keyspace, "a", round.to_le_bytes()).await.unwrap();
                transaction.put(keyspace, round.to_le_bytes(), &large).await.unwrap();
            }
            let ready = abandon(transaction.commit(), usize::from(round % 4));
            // Whatever is under way is ordered before this.
            store.flush().await.unwrap();
            let mut reader = store.begin();
            let exists = [
                reader.exists(durable, round.to_le_bytes()).await.unwrap(),
                reader.exists(memory, round.to_le_bytes()).await.unwrap(),
            ];
            if let Outcome::Committed(_) = reader.commit().await.unwrap() {
                assert_eq!(exists[0], exists[1]);
            }
            assert!(ready.is_none() || exists[0]);
        }
        let lists = [durable.read("a", ..).await.unwrap(), memory.read("a", ..).await.unwrap()];
        assert_eq!(lists[0], lists[1]);
        for round in lists[0].chunks(2) {
            let sizes = [durable.stat(round).await.unwrap().size, memory.stat(round).await.unwrap().size];
            assert_eq!(sizes[0], sizes[1]);
        }
    });
}

#[test]
fn a_read_or_write_that_is_dropped_leaves_the_transaction_usable() {
    on_each_store(async |store| {
        let [durable, _] = &keyspaces(store).await;
        durable.put("a", vec![1; 300_000]).await.unwrap();
        for polls in 0..4 {
            let mut transaction = store.begin();
            abandon(transaction.read(durable, "a", ..), polls);
            abandon(transaction.write(durable, "a", 10, vec![2; 200_000]), polls);
            abandon(transaction.stat(durable, "a"), polls);
            let bytes = transaction.read(durable, "a", ..).await.unwrap();
            assert!(bytes == [1; 300_000] || bytes[..11] == [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
            transaction.write(durable, "a", 0, [3]).await.unwrap();
            assert_eq!(transaction.read(durable, "a", 0..2).await.unwrap(), [3, 1]);
            transaction.rollback();
        }
        assert_eq!(durable.read("a", ..).await.unwrap(), [1; 300_000]);
    });
}

#[test]
fn a_store_may_be_dropped_by_one_of_its_own_threads() {
    struct Owner(std::sync::Mutex<Option<Task<'static>>>);
    impl std::task::Wake for Owner {
        // An executor that is gone: waking drops the task, and with it the last handle.
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(directory.path())).unwrap();
    let owner = Arc::new(Owner(std::sync::Mutex::new(None)));
    let task = async move {
        let files = store.create_keyspace("files", durable()).await.unwrap();
        files.put("a", b"content").await.unwrap();
        drop(store);
    };
    let mut task: Task<'static> = Box::pin(task);
    let waker = Waker::from(owner.clone());
    let mut slot = owner.0.lock().unwrap();
    let pending = task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
    *slot = Some(task);
    drop(slot);
    assert!(pending);
    // Opening works as soon as the thread is done with it.
    loop {
        match block_on(Store::open(directory.path())) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
        }
        std::thread::yield_now();
    }
}

#[test]
fn both_ways_can_be_mixed() {
    on_each_store(async |store| {
        let [durable, _] = keyspaces(store).await;
        durable.put("a", b"content").await.unwrap();
        let blocking = tyr_embed::blocking::Store::from(store.clone());
        let files = blocking.keyspace("durable").unwrap();
        assert_eq!(files.read("a", ..).unwrap(), b"content");
        let files: Keyspace = files.into();
        let store: Store = blocking.into();
        let committed: Result<_> = store.run(async |transaction| transaction.delete(&files, "a").await).await;
        committed.unwrap();
        assert!(!durable.exists("a").await.unwrap());
    });
}
