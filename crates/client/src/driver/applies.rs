//! Changes of one blob that are transactions of their own: sent again under another name after a refusal that says nothing of the blob,
//! and found out about if no answer comes in time.
//!
//! Invariant: the payload of those that were sent and have not ended, whether anybody waits for them or not, is at most [`ROOM`]; others
//! wait for their turn.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tyr_proto::{
    BlobName, BlobPlan, Client, Operation, OperationResult, Outcome, Refusal, ResultValue, Time,
    TransactionId,
};

use super::call::Reply;
use crate::words;

/// The changes that are under way.
#[derive(Debug)]
pub struct Applies {
    /// KiB of payload that are free.
    room: Arc<Semaphore>,
    /// Those that were not sent yet, the next one first.
    waiting: VecDeque<Apply>,
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
    /// What it takes of the room, from its first sending to its end.
    pub room: Option<OwnedSemaphorePermit>,
}

/// A change is sent again after this many microseconds.
const PAUSE: u64 = 10_000;
/// KiB of payload that are under way at once.
const ROOM: u32 = 64 << 10;

impl Apply {
    /// KiB of its payload; no more than there can be room for.
    fn size(&self) -> u32 {
        let bytes = self.operations.iter().map(|operation| match operation {
            Operation::Write { bytes, .. } | Operation::Append { bytes } => bytes.len(),
            _ => 0,
        });
        u32::try_from(bytes.sum::<usize>() >> 10).unwrap_or(ROOM).clamp(1, ROOM)
    }

    /// Whether nobody waits for it any more.
    fn is_deserted(&self) -> bool {
        self.reply.as_ref().is_none_or(Reply::is_closed)
    }
}

impl Default for Applies {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(ROOM as usize));
        Applies { room, waiting: VecDeque::new(), sent: BTreeMap::new(), paused: Vec::new() }
    }
}

impl Applies {
    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.paused.is_empty()
    }

    /// Whether some wait to be sent again.
    pub fn is_pausing(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Sends one, even if nobody waits for it any more; or as soon as there is room for it, if its time is not over then.
    pub fn take(&mut self, client: &mut Client, now: Time, apply: Apply) {
        match self.room.clone().try_acquire_many_owned(apply.size()) {
            Ok(room) if self.waiting.is_empty() => {
                self.send(client, now, Apply { room: Some(room), ..apply });
            }
            _ => self.waiting.push_back(apply),
        }
    }

    /// Sends those for which there is room. One whose time is over is not sent, but [told so](Applies::give_up).
    pub fn admit(&mut self, client: &mut Client, now: Time) {
        let has_time = |apply: &&Apply| now < apply.gives_up_at;
        while let Some(size) = self.waiting.front().filter(has_time).map(Apply::size)
            && let Ok(room) = self.room.clone().try_acquire_many_owned(size)
            && let Some(mut apply) = self.waiting.pop_front()
        {
            // One that nobody waits for is as if it had not been asked for.
            if !apply.is_deserted() {
                apply.room = Some(room);
                self.send(client, now, apply);
            }
        }
    }

    /// Sends none of those that wait for room.
    pub fn turn_away(&mut self) {
        self.waiting.clear();
    }

    fn send(&mut self, client: &mut Client, now: Time, apply: Apply) {
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
        // It is not sent under another name any more; what its plan holds goes with that.
        apply.operations.clear();
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

    /// Nobody takes any more: whoever waits is told so. What was sent is still found out about if that changes.
    pub fn deny(&mut self, unknown: impl Fn() -> tyr_types::Error) {
        let paused = self.paused.iter_mut().map(|(_, apply)| apply);
        for apply in self.waiting.iter_mut().chain(self.sent.values_mut()).chain(paused) {
            if let Some(reply) = apply.reply.take() {
                let _ = reply.send(Err(unknown()));
            }
        }
        self.paused.clear();
        self.waiting.clear();
    }

    /// Answers those who have waited too long for their turn.
    pub fn give_up(&mut self, at: Instant, troubles: impl Fn() -> String) {
        let is_over = |apply: &Apply| apply.until <= at || apply.is_deserted();
        let (late, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition::<VecDeque<_>, _>(is_over);
        self.waiting = waiting;
        let paused = self.paused.extract_if(.., |(_, apply)| apply.until <= at).map(|(_, apply)| apply);
        for mut apply in late.into_iter().chain(paused) {
            if let Some(reply) = apply.reply.take() {
                let _ = reply.send(Err(words::not_begun(&troubles())));
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
        Refusal::Exists
        | Refusal::Invalid
        | Refusal::Full
        | Refusal::Quota
        | Refusal::Denied
        | Refusal::TooLarge
        | Refusal::TooManyAttributes => false,
        // It needs no blob: the keyspace was dropped, of which the client will hear.
        Refusal::NotFound => {
            !apply.operations.first().is_some_and(Operation::needs_blob) && exists(&apply.blob)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::time::Duration;

    use tokio::sync::oneshot::{self, Receiver, error::TryRecvError};

    use super::*;
    use crate::driver::fixture::unheard;

    const PATIENCE: Duration = Duration::from_secs(1);
    const LATE: Time = Time(1_000_000);

    /// Changes of half the room and a little more.
    struct Bench {
        client: Client,
        blob: BlobName,
        applies: Applies,
        until: Instant,
    }

    type Answer = Receiver<tyr_types::Result<BTreeMap<u16, ResultValue>>>;

    impl Bench {
        fn new() -> Self {
            let (client, blob) = unheard();
            Bench { client, blob, applies: Applies::default(), until: Instant::now() + PATIENCE }
        }

        fn take(&mut self) -> Answer {
            let (reply, answer) = oneshot::channel();
            let operations = vec![Operation::Append { bytes: vec![0; (ROOM as usize) << 9 | 4096].into() }];
            let (blob, until) = (self.blob.clone(), self.until);
            let apply = Apply { blob, operations, until, gives_up_at: LATE, reply: Some(reply), room: None };
            self.applies.take(&mut self.client, Time(0), apply);
            answer
        }

        fn sent(&self) -> Vec<TransactionId> {
            self.applies.sent.keys().copied().collect()
        }

        fn end(&mut self, id: TransactionId) {
            let outcome = Outcome::Refused(Refusal::Full);
            assert!(self.applies.end(Time(0), id, outcome, &[], |_| true));
            self.applies.admit(&mut self.client, Time(0));
        }

        fn give_up(&mut self) {
            self.applies.give_up(self.until, String::new);
        }
    }

    #[test]
    fn a_change_waits_for_room_until_another_has_ended() {
        let mut bench = Bench::new();
        let (mut first, mut second) = (bench.take(), bench.take());
        let sent = bench.sent();
        assert_eq!(sent.len(), 1, "there is no room for both");
        bench.end(sent[0]);
        assert!(first.try_recv().unwrap().is_err());
        assert_eq!(second.try_recv().unwrap_err(), TryRecvError::Empty);
        assert!(bench.sent().len() == 1 && bench.sent() != sent);
    }

    #[test]
    fn a_change_whose_outcome_is_unknown_keeps_its_room_until_that_is_found_out() {
        let mut bench = Bench::new();
        let (mut first, mut second) = (bench.take(), bench.take());
        let id = bench.sent()[0];
        assert!(bench.applies.lose(&mut bench.client, LATE, id, words::closed(), false));
        assert!(first.try_recv().unwrap().is_err());
        bench.applies.admit(&mut bench.client, Time(0));
        assert_eq!(bench.sent(), [id]);
        bench.give_up();
        let error = second.try_recv().unwrap().unwrap_err();
        assert!(error.message().contains("nothing of it happened"), "{error}");
        bench.end(id);
        drop(bench.take());
        assert_eq!(bench.sent().len(), 1, "its room is free again");
    }

    #[test]
    fn a_change_that_nobody_waits_for_is_not_sent_when_there_is_room() {
        let mut bench = Bench::new();
        let _first = bench.take();
        drop(bench.take());
        let mut third = bench.take();
        let id = bench.sent()[0];
        bench.end(id);
        let next = bench.sent()[0];
        bench.end(next);
        assert!(third.try_recv().unwrap().is_err(), "it was the next one");
        assert!(bench.applies.is_empty());
    }

    #[test]
    fn a_change_whose_time_is_over_is_not_sent_when_there_is_room() {
        let mut bench = Bench::new();
        let (_first, mut second) = (bench.take(), bench.take());
        let id = bench.sent()[0];
        assert!(bench.applies.lose(&mut bench.client, LATE, id, words::forgotten(), true));
        bench.applies.admit(&mut bench.client, LATE);
        assert!(bench.sent().is_empty());
        bench.give_up();
        assert!(second.try_recv().unwrap().unwrap_err().message().contains("nothing of it happened"));
    }
}
