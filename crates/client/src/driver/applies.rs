//! Changes of one blob that are transactions of their own: sent again under another name after a refusal that says nothing of the blob,
//! and found out about if no answer comes in time.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use tyr_proto::{
    BlobName, BlobPlan, Client, Operation, OperationResult, Outcome, Refusal, ResultValue, Time,
    TransactionId,
};

use super::call::Reply;
use crate::words;

/// The changes that are under way.
#[derive(Debug, Default)]
pub struct Applies {
    sent: BTreeMap<TransactionId, Apply>,
    /// To be sent again at these times.
    paused: Vec<(Time, Apply)>,
}

/// A change.
#[derive(Debug)]
pub struct Apply {
    /// The blob.
    pub blob: BlobName,
    /// What is done to it.
    pub operations: Vec<Operation>,
    /// When the caller is told that it is not known.
    pub until: Instant,
    /// When that is for the client,
    pub gives_up_at: Time,
    /// and the caller, until it has been told something.
    pub reply: Option<Reply<BTreeMap<u16, ResultValue>>>,
}

/// A change is sent again after this many microseconds.
const PAUSE: u64 = 10_000;

impl Applies {
    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.paused.is_empty()
    }

    /// Whether some wait to be sent again.
    pub fn is_pausing(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Sends one.
    pub fn send(&mut self, client: &mut Client, now: Time, apply: Apply) {
        let plan = BlobPlan { blob: apply.blob.clone(), seen: None, operations: apply.operations.clone() };
        let id = client.commit(now, Vec::from([plan]), Some(apply.gives_up_at));
        self.sent.insert(id, apply);
    }

    /// One has ended. Whether it is one of these.
    pub fn end(
        &mut self,
        now: Time,
        id: TransactionId,
        outcome: Outcome,
        results: &[OperationResult],
        exists: impl Fn(&BlobName) -> bool,
    ) -> bool {
        let Some(mut apply) = self.sent.remove(&id) else { return false };
        let Some(reply) = apply.reply.take() else { return true };
        let answer = match outcome {
            Outcome::Committed => {
                Ok(results.iter().map(|result| (result.operation, result.value.clone())).collect())
            }
            Outcome::Refused(refusal) if is_passing(refusal, &apply, exists) && now < apply.gives_up_at => {
                apply.reply = Some(reply);
                self.paused.push((now.after(PAUSE), apply));
                return true;
            }
            Outcome::Refused(refusal) => Err(words::refused(refusal)),
        };
        // Who asked may be gone.
        let _ = reply.send(answer);
        true
    }

    /// It is not known in time how one ended, or will never be. Whether it is one of these.
    pub fn lose(
        &mut self,
        client: &mut Client,
        now: Time,
        id: TransactionId,
        error: tyr_types::Error,
        for_ever: bool,
    ) -> bool {
        let Some(apply) = self.sent.get_mut(&id) else { return false };
        if let Some(reply) = apply.reply.take() {
            let _ = reply.send(Err(error));
        }
        match for_ever {
            true => drop(self.sent.remove(&id)),
            false => client.resolve(now, id),
        }
        true
    }

    /// Sends again what is due.
    pub fn go_on(&mut self, client: &mut Client, now: Time) {
        for (_, apply) in self.paused.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            self.send(client, now, apply);
        }
    }

    /// Answers those who have waited too long for their turn.
    pub fn give_up(&mut self, at: Instant, patience: Duration, troubles: impl Fn() -> String) {
        for (_, mut apply) in self.paused.extract_if(.., |(_, apply)| apply.until <= at) {
            if let Some(reply) = apply.reply.take() {
                let _ = reply.send(Err(words::not_begun(patience, &troubles())));
            }
        }
    }
}

/// Whether a refusal says nothing of the blob, so that the same may be done a little later.
fn is_passing(refusal: Refusal, apply: &Apply, exists: impl Fn(&BlobName) -> bool) -> bool {
    match refusal {
        Refusal::Conflict | Refusal::Fenced | Refusal::Busy | Refusal::Unstaged | Refusal::TooFewReplicas => {
            true
        }
        Refusal::Exists | Refusal::Invalid | Refusal::Full => false,
        // A node that has not heard of a new keyspace yet says the same as one that has no such blob.
        Refusal::NotFound => {
            let needs =
                |operation: &Operation| matches!(operation, Operation::Delete | Operation::Truncate { .. });
            !apply.operations.first().is_some_and(needs) && exists(&apply.blob)
        }
    }
}
