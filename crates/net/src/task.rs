//! A task that does not outlive who started it.

use std::future::Future;

use tokio::{runtime::Handle, task::JoinHandle};

/// A task. Dropped, it ends at once.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Begins it, in the runtime that this is called in.
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Task(tokio::spawn(task))
    }

    /// Begins it in a runtime.
    pub(crate) fn spawn_on(runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Task(runtime.spawn(task))
    }

    /// Waits until it ends by itself. Who stops waiting ends it at once.
    pub(crate) async fn ended(mut self) {
        // If it panicked, there is nobody left to be told.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
