//! The end that dials: makes a connection, and another one when that is lost.

use std::{future::Future, io, sync::Arc};

use tokio::time::{sleep, timeout};
use tyr_wire::connection::{Connection, Introduction};

use crate::{
    Address, Settings,
    attempt::Attempt,
    link::{End, Handler, Link},
    run::Running,
    stream::Stream,
    task::Task,
    waits::Waits,
};

/// Keeps a connection to one address until it is closed. Dropped, it ends at once.
#[derive(Debug)]
pub struct Dialer {
    link: Link,
    task: Task,
}

impl Dialer {
    /// Begins to dial, in one of the [runtimes](Settings::runtimes).
    pub fn new(address: Address, me: Introduction, handler: Arc<dyn Handler>, settings: Settings) -> Self {
        let link = Link::new(&settings);
        let runtime = settings.runtimes.next();
        let dialing = Dialing { address, me, handler, settings, link: link.clone() };
        Dialer { link, task: Task::spawn_on(&runtime, dialing.keep()) }
    }

    /// Where frames are handed in. They wait while there is no connection.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Sends what was handed in if there is a connection, as long as anything of it or of what the other end sends moves; and ends. Who
    /// does not wait for that ends it at once.
    pub async fn close(self) {
        self.link.close();
        self.task.ended().await;
    }
}

/// The task of a dialer.
struct Dialing {
    address: Address,
    me: Introduction,
    handler: Arc<dyn Handler>,
    settings: Settings,
    link: Link,
}

/// Also if it was aborted, nobody is left who would send anything.
impl Drop for Dialing {
    fn drop(&mut self) {
        self.link.finish();
    }
}

impl Dialing {
    async fn keep(self) {
        let mut waits = Waits::new(&self.settings);
        while !self.link.is_closing() {
            if self.connect().await {
                waits.begin_again();
            }
            unless_closing(&self.link, sleep(waits.next())).await;
        }
    }

    /// Makes a connection and runs it to its end. Says whether it was ever open.
    async fn connect(&self) -> bool {
        let attempt = Attempt::of_dialer(self.link.clone(), self.handler.clone());
        let stream = timeout(
            self.settings.handshake_timeout,
            Stream::connect(&self.address, self.settings.tls.as_ref()),
        );
        let end = match unless_closing(&self.link, stream).await {
            Some(Ok(Ok(stream))) => {
                let mut connection = Connection::dial(self.me.clone());
                if self.settings.credential.is_mutual() {
                    connection.insist();
                }
                return Running::new(stream, connection, attempt, self.settings.clone()).run().await;
            }
            Some(Ok(Err(error))) => End::Lost(error),
            Some(Err(_)) => End::Lost(io::ErrorKind::TimedOut.into()),
            None => End::Closed,
        };
        attempt.end(end);
        false
    }
}

/// Waits for this, but not if the link is closed meanwhile.
async fn unless_closing<T>(link: &Link, waited_for: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(waited_for);
    while !link.is_closing() {
        tokio::select! {
            output = &mut waited_for => return Some(output),
            () = link.stirred() => {}
        }
    }
    None
}
