//! The end that dials: makes a connection, and another one when that is lost.

use std::{io, sync::Arc};

use tokio::{
    task::JoinHandle,
    time::{Duration, sleep, timeout},
};
use tyr_wire::connection::{Connection, Introduction};

use crate::{
    Address, Settings,
    link::{End, Handler, Link},
    run::Running,
    stream::Stream,
};

/// Keeps a connection to one address until it is closed.
#[derive(Debug)]
pub struct Dialer {
    link: Link,
    task: JoinHandle<()>,
}

impl Dialer {
    /// Begins to dial, in the runtime that this is called in.
    pub fn new(address: Address, me: Introduction, handler: Arc<dyn Handler>, settings: Settings) -> Self {
        let link = Link::new(&settings);
        let task = tokio::spawn(keep(address, me, handler, settings, link.clone()));
        Dialer { link, task }
    }

    /// Where frames are handed in. They wait while there is no connection.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Sends what was handed in if there is a connection, and ends.
    pub async fn close(mut self) {
        self.link.close();
        // It ends by itself; if it panicked, there is nobody left to be told.
        let _ = (&mut self.task).await;
    }
}

/// Ends at once.
impl Drop for Dialer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(address: Address, me: Introduction, handler: Arc<dyn Handler>, settings: Settings, link: Link) {
    let mut wait = settings.wait_min;
    while !link.is_closing() {
        let timed_out = |_| Err(io::ErrorKind::TimedOut.into());
        match timeout(settings.handshake_timeout, Stream::connect(&address)).await.unwrap_or_else(timed_out) {
            Ok(stream) => {
                let connection = Connection::dial(me.clone());
                if Running::new(stream, connection, &link, &handler, &settings).run().await {
                    wait = settings.wait_min;
                }
            }
            Err(error) => handler.closed(&link, None, &End::Lost(error)),
        }
        pause(&link, wait).await;
        wait = (wait * 2).min(settings.wait_max);
    }
}

/// Waits, but not if the link is closed meanwhile.
async fn pause(link: &Link, wait: Duration) {
    let sleep = sleep(wait);
    tokio::pin!(sleep);
    while !link.is_closing() {
        tokio::select! {
            () = &mut sleep => return,
            () = link.stirred() => {}
        }
    }
}
