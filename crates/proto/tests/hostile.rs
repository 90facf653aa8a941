//! Whatever can be decoded can be handled: no message makes a server panic, and no command or snapshot the cluster manager, whoever sent it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod limit;
mod samples;

use std::sync::Arc;

use samples::{
    append, cluster, commands, configuration, damaged, messages, partition, replica, small_keyspaces,
};
use std::panic::AssertUnwindSafe;

use tyr_proto::{
    ClassId, Configuration, Epoch, Output, Router, Time,
    cluster::{Cluster, Command, Position},
    encoding::{from_bytes, to_bytes},
    message::{Envelope, Message},
};

/// A server that is told to be what the first byte says, and does what it is asked at once.
struct Server {
    router: Router,
    now: u64,
}

impl Server {
    fn new(role: u8) -> Self {
        let me = replica(1 + u32::from(role % 3));
        let mut server = Server { router: Router::new(me, Arc::new(small_keyspaces())), now: 1 };
        for (index, replicas) in [(1, vec![me]), (2, vec![me, replica(9)]), (7, configuration().replicas)] {
            let configuration = Configuration { replicas, epoch: Epoch(300), ..configuration() };
            server.router.handle_configuration(Time(1), true, partition(index), configuration);
        }
        server.settle();
        server
    }

    /// Every write succeeds at once; what is sent is lost.
    fn settle(&mut self) {
        while let Some(output) = self.router.poll_output() {
            match output {
                Output::Store { partition, index, epoch, .. } => {
                    self.router.handle_stored(Time(self.now), true, partition, index, epoch);
                }
                Output::Install { partition, index, epochs, .. } => {
                    let epoch = epochs.last().map_or(Epoch(0), |(epoch, _)| *epoch);
                    self.router.handle_stored(Time(self.now), true, partition, index, epoch);
                }
                _ => {}
            }
        }
    }

    fn hear(&mut self, envelope: Envelope) {
        self.now += 100_000;
        self.router.handle_message(Time(self.now), true, envelope);
        self.settle();
        self.router.handle_tick(Time(self.now), true);
        self.settle();
    }
}

/// Those of the samples, and what makes a backup take the primary's log as its own.
fn said() -> Vec<Message> {
    let mut all = messages();
    for message in messages() {
        match message {
            Message::Append { epoch, .. } => all.extend([0, 500].map(|previous| append(epoch, previous))),
            Message::Reconcile { epoch, .. } => {
                all.push(Message::Reconcile { epoch, epochs: Vec::new(), start: 0 })
            }
            _ => {}
        }
    }
    all
}

/// A message that was altered in a few places, if it still is one.
fn altered(message: &Message, which: u8, damage: &[[u8; 4]]) -> Option<Envelope> {
    let partition = partition([1, 2, 7][usize::from(which % 3)]);
    let valid = to_bytes(&Envelope { partition, message: message.clone() });
    from_bytes(&damaged(&valid, damage)).ok()
}

#[test]
fn no_message_makes_a_server_panic() {
    limit::memory();
    let messages = AssertUnwindSafe(said());
    bolero::check!().for_each(|bytes: &[u8]| {
        let Some((role, bytes)) = bytes.split_first() else { return };
        let mut server = Server::new(*role);
        if role & 4 == 0 {
            // A backup that holds what its primary does.
            let joins = messages.iter().filter(|message| matches!(message, Message::Copy { .. }));
            joins.for_each(|message| server.hear(altered(message, 2, &[]).unwrap()));
        }
        for word in bytes.chunks(10).take(12) {
            let [which, place, damage @ ..] = word else { continue };
            let message = &messages[usize::from(*which) % messages.len()];
            if let Some(envelope) = altered(message, *place, damage.as_chunks().0) {
                server.hear(envelope);
            }
        }
    });
}

#[test]
fn no_two_messages_in_a_row_make_a_server_panic() {
    let messages = said();
    for role in 0..3 {
        for place in 0..3 {
            for first in &messages {
                for second in &messages {
                    let mut server = Server::new(role);
                    for message in [first, second, first] {
                        server.hear(altered(message, place, &[]).unwrap());
                    }
                }
            }
        }
    }
}

#[test]
fn no_command_or_snapshot_makes_the_cluster_manager_panic() {
    limit::memory();
    let (snapshot, commands) = (to_bytes(&cluster()), commands());
    bolero::check!().for_each(|bytes: &[u8]| {
        let (damage, bytes) = bytes.split_at(bytes.len().min(8));
        let Ok(mut cluster) = from_bytes::<Cluster>(&damaged(&snapshot, damage.as_chunks().0)) else {
            return;
        };
        for word in bytes.chunks(9).take(12) {
            let [which, damage @ ..] = word else { continue };
            let valid = to_bytes(&commands[usize::from(*which) % commands.len()]);
            if let Ok(command) = from_bytes::<Command>(&damaged(&valid, damage.as_chunks().0)) {
                // A refusal is as good as anything else.
                let _ = cluster.apply(command);
            }
        }
        cluster.changes_since(Position::default(), 1000);
        if let Ok(Some(plan)) = cluster.plan(ClassId(1), &[]) {
            let _ = cluster.apply(plan);
        }
    });
}
