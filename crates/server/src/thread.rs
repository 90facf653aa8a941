//! The threads of a node's shards. Each has a runtime of its own, in which its shard runs, and some of the node's connections.
//!
//! So what comes over a connection for the shard of its thread, and what that answers, wakes no other thread. The rest goes from one thread
//! to another by mailboxes and links, as if connections had threads of their own.
//!
//! A thread runs before it has a shard, for connections come before the node knows to which cluster it belongs. And it goes on when its
//! shard has ended, until everybody has heard what that said last.

use std::thread::JoinHandle;

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};
use tyr_types::{Error, Result};

use crate::shard::Task;

/// A thread that runs.
pub(crate) struct Thread {
    runtime: Handle,
    starts: oneshot::Sender<Task>,
    /// Dropped when it may end.
    stays: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

/// A thread with its shard.
pub(crate) struct Busy {
    stays: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Thread {
    /// Starts the thread of a shard.
    pub fn start(place: usize) -> Result<Thread> {
        let failed = |error| Error::unavailable(format!("cannot start a thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (starts, started) = oneshot::channel::<Task>();
        let (stays, leaves) = oneshot::channel::<()>();
        let body = move || {
            runtime.block_on(async move {
                // Without a shard the server has not started.
                let Ok(task) = started.await else { return Ok(()) };
                let ended = task.run(place).await;
                let _dropped = leaves.await;
                ended
            })
        };
        let thread = std::thread::Builder::new().name(format!("tyr-shard-{place}")).spawn(body);
        Ok(Thread { runtime: handle, starts, stays, thread: thread.map_err(failed)? })
    }

    /// Where connections may run.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Gives it its shard.
    pub fn begin(self, task: Task) -> Busy {
        // It waits for nothing else; if it has panicked, that is heard when it is joined.
        let _panicked = self.starts.send(task);
        Busy { stays: self.stays, thread: self.thread }
    }
}

impl Busy {
    /// What keeps it when its shard has ended, and the thread, which ends with what its shard says.
    pub fn into_parts(self) -> (oneshot::Sender<()>, JoinHandle<Result<()>>) {
        (self.stays, self.thread)
    }
}
