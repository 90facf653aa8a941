//! Changes of one blob that are transactions of their own: sent again under another name after a refusal that says nothing of the blob,
//! and found out about if no answer comes in time.
//!
//! Invariant: those that were sent and have not ended have [`Room`], whether anybody waits for them or not; others wait for it.

use std::collections::BTreeMap;

use tokio::time::Instant;
use tyr_proto::{
    BlobName, BlobPlan, Client, Operation, OperationResult, Outcome, PartitionId, Pauses, Refusal,
    ResultValue, Time, TransactionId,
};

use super::{
    call::Reply,
    room::{Room, SIZE_MAX},
};
use crate::words;

/// The changes that are under way.
#[derive(Debug, Default)]
pub struct Applies {
    /// Has those that were not sent yet.
    room: Room,
    sent: BTreeMap<TransactionId, Apply>,
    /// To be sent again at these times.
    paused: Vec<(Time, Apply)>,
}

/// A change.
#[derive(Debug)]
pub struct Apply {
    /// The blob.
    pub blob: BlobName,
    /// The partition of its head.
    pub partition: PartitionId,
    /// What is done to it.
    pub operations: Vec<Operation>,
    /// When the caller is told that it is not known.
    pub until: Instant,
    /// When that is for the client,
    pub gives_up_at: Time,
    /// and the caller, until it has been told something.
    pub reply: Option<Reply<BTreeMap<u16, ResultValue>>>,
    /// KiB of the room that it takes from its first sending until it ends or its outcome is unknown,
    pub size: u32,
    /// and whether that is so.
    pub is_lost: bool,
    /// When it is sent again after a refusal.
    pub pauses: Pauses,
}

impl Apply {
    /// One that was not sent yet.
    pub fn new(
        (blob, partition): (BlobName, PartitionId),
        operations: Vec<Operation>,
        (until, gives_up_at): (Instant, Time),
        reply: Reply<BTreeMap<u16, ResultValue>>,
    ) -> Self {
        Apply {
            blob,
            partition,
            size: size_of(&operations),
            operations,
            until,
            gives_up_at,
            reply: Some(reply),
            is_lost: false,
            pauses: Pauses::default(),
        }
    }

    /// Whether nobody waits for it any more.
    pub fn is_deserted(&self) -> bool {
        self.reply.as_ref().is_none_or(Reply::is_closed)
    }
}

/// KiB of the payload of a change; no more than there can be room for.
fn size_of(operations: &[Operation]) -> u32 {
    let bytes = operations.iter().map(|operation| match operation {
        Operation::Write { bytes, .. } | Operation::Append { bytes } => bytes.len(),
        _ => 0,
    });
    u32::try_from(bytes.sum::<usize>() >> 10).unwrap_or(SIZE_MAX).clamp(1, SIZE_MAX)
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
        if let Some(apply) = self.room.enter(now, apply) {
            self.send(client, now, apply);
        }
    }

    /// Sends those for which there is room. One whose time is over is not sent, but [told so](Applies::give_up).
    pub fn admit(&mut self, client: &mut Client, now: Time) {
        while let Some(apply) = self.room.admit(now) {
            self.send(client, now, apply);
        }
    }

    /// Sends none of those that wait for room.
    pub fn turn_away(&mut self) {
        self.room.extract(|_| true);
    }

    fn send(&mut self, client: &mut Client, now: Time, apply: Apply) {
        let plan = BlobPlan::blind(apply.blob.clone(), apply.operations.clone());
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
        let answer = match outcome {
            Outcome::Committed => {
                Ok(results.iter().map(|result| (result.operation, result.value.clone())).collect())
            }
            Outcome::Refused(refusal)
                if apply.reply.is_some()
                    && is_passing(refusal, &apply, exists)
                    && now < apply.gives_up_at =>
            {
                self.paused.push((now.after(apply.pauses.next(id, refusal)), apply));
                return true;
            }
            Outcome::Refused(refusal) => Err(words::refused(refusal)),
        };
        self.room.leave(&apply);
        if let Some(reply) = apply.reply.take() {
            // Who asked may be gone.
            let _ = reply.send(answer);
        }
        true
    }

    /// It is not known in time how one ended, or will never be or need not: it has not begun. Whether it is one of these.
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
        self.room.lose(apply);
        if !for_ever {
            client.resolve(now, id);
        } else if let Some(apply) = self.sent.remove(&id) {
            self.room.leave(&apply);
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
        let mut ended = self.room.extract(|_| true);
        for (_, apply) in self.paused.drain(..) {
            self.room.leave(&apply);
            ended.push(apply);
        }
        for apply in ended.iter_mut().chain(self.sent.values_mut()) {
            if let Some(reply) = apply.reply.take() {
                let _ = reply.send(Err(unknown()));
            }
        }
    }

    /// Answers those who have waited too long for their turn.
    pub fn give_up(&mut self, at: Instant, troubles: impl Fn() -> String) {
        let mut late = self.room.extract(|apply| apply.until <= at || apply.is_deserted());
        for (_, apply) in self.paused.extract_if(.., |(_, apply)| apply.until <= at) {
            self.room.leave(&apply);
            late.push(apply);
        }
        for mut apply in late {
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

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::driver::{
        fixture::{Answer, apply, partition, unheard},
        room::{LOST_OF_PARTITION, ROOM, SHARE},
    };

    const PATIENCE: Duration = Duration::from_secs(1);
    const LATE: Time = Time(1_000_000);
    /// KiB of which there is no room for two.
    const LARGE: u32 = ROOM / 2 + 4;

    struct Bench {
        client: Client,
        blob: BlobName,
        applies: Applies,
        until: Instant,
    }

    impl Bench {
        fn new() -> Self {
            let (client, blob) = unheard();
            Bench { client, blob, applies: Applies::default(), until: Instant::now() + PATIENCE }
        }

        /// A change of a blob of a partition.
        fn take(&mut self, of: u32, size: u32) -> Answer {
            let (apply, answer) = apply(&self.blob, partition(of), size, self.until, LATE);
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

        fn lose(&mut self, id: TransactionId, for_ever: bool) {
            assert!(self.applies.lose(&mut self.client, Time(0), id, words::closed(), for_ever));
            self.applies.admit(&mut self.client, Time(0));
        }

        fn give_up(&mut self) {
            self.applies.give_up(self.until, String::new);
        }
    }

    fn was_not_begun(answer: &mut Answer) -> bool {
        answer.try_recv().unwrap().unwrap_err().message().contains("nothing of it happened")
    }

    #[test]
    fn a_change_waits_for_room_until_another_has_ended() {
        let mut bench = Bench::new();
        let (mut first, mut second) = (bench.take(0, LARGE), bench.take(1, LARGE));
        let sent = bench.sent();
        assert_eq!(sent.len(), 1, "there is no room for both");
        bench.end(sent[0]);
        assert!(first.try_recv().unwrap().is_err());
        assert_eq!(second.try_recv().unwrap_err(), TryRecvError::Empty);
        assert!(bench.sent().len() == 1 && bench.sent() != sent);
    }

    #[test]
    fn a_change_whose_outcome_is_unknown_gives_back_its_room_and_is_found_out_about() {
        let mut bench = Bench::new();
        let (mut first, mut second) = (bench.take(0, LARGE), bench.take(1, LARGE));
        let id = bench.sent()[0];
        bench.lose(id, false);
        assert!(first.try_recv().unwrap().is_err());
        assert_eq!(second.try_recv().unwrap_err(), TryRecvError::Empty);
        let sent = bench.sent();
        assert!(sent.len() == 2 && sent[0] == id, "{sent:?}");
        bench.end(id);
        assert_eq!(bench.sent(), sent[1..]);
    }

    #[test]
    fn a_partition_that_nobody_serves_does_not_keep_changes_of_others_from_being_sent() {
        let mut bench = Bench::new();
        let first: Vec<Answer> = (0..=LOST_OF_PARTITION).map(|_| bench.take(0, 1)).collect();
        for id in bench.sent() {
            bench.lose(id, false);
        }
        assert!(first.into_iter().all(|mut answer| answer.try_recv().unwrap().is_err()));
        let lost = bench.sent();
        let mut waiting = bench.take(0, 1);
        assert_eq!(bench.sent(), lost);
        let mut others: Vec<Answer> = (1..9).map(|of| bench.take(of, SHARE)).collect();
        let sent = bench.sent()[lost.len()..].to_vec();
        assert_eq!(sent.len(), others.len(), "all of the room is theirs");
        bench.end(sent[0]);
        assert!(others[0].try_recv().unwrap().is_err());
        bench.give_up();
        assert!(was_not_begun(&mut waiting));
        let _next = bench.take(0, 1);
        bench.end(lost[0]);
        assert_eq!(bench.sent().len(), lost.len() - 1 + sent.len() - 1, "it is at its bound still");
        bench.end(lost[1]);
        assert_eq!(bench.sent().len(), lost.len() - 2 + sent.len(), "it goes on");
    }

    #[test]
    fn a_change_that_is_paused_keeps_its_room_until_it_is_given_up() {
        let mut bench = Bench::new();
        let (mut first, _second) = (bench.take(0, LARGE), bench.take(1, LARGE));
        let id = bench.sent()[0];
        assert!(bench.applies.end(Time(0), id, Outcome::Refused(Refusal::Busy), &[], |_| true));
        bench.applies.admit(&mut bench.client, Time(0));
        assert!(bench.sent().is_empty() && bench.applies.is_pausing());
        bench.give_up();
        assert!(was_not_begun(&mut first));
        let _third = bench.take(2, LARGE);
        assert_eq!(bench.sent().len(), 1);
    }

    #[test]
    fn a_change_that_nobody_waits_for_is_not_sent_when_there_is_room() {
        let mut bench = Bench::new();
        let _first = bench.take(0, LARGE);
        drop(bench.take(0, LARGE));
        let mut third = bench.take(0, LARGE);
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
        let (_first, mut second) = (bench.take(0, LARGE), bench.take(1, LARGE));
        let id = bench.sent()[0];
        assert!(bench.applies.lose(&mut bench.client, LATE, id, words::forgotten(), true));
        bench.applies.admit(&mut bench.client, LATE);
        assert!(bench.sent().is_empty());
        bench.give_up();
        assert!(was_not_begun(&mut second));
    }

    #[test]
    fn the_room_of_all_that_has_ended_is_free_again() {
        let mut bench = Bench::new();
        let mut answers: Vec<Answer> = (0..4).map(|of| bench.take(of, SHARE)).collect();
        let sent = bench.sent();
        bench.lose(sent[0], true);
        bench.lose(sent[1], false);
        bench.lose(sent[1], true);
        assert!(bench.applies.end(Time(0), sent[2], Outcome::Refused(Refusal::Busy), &[], |_| true));
        bench.applies.deny(words::closed);
        assert!(answers.iter_mut().all(|answer| answer.try_recv().unwrap().is_err()));
        bench.end(sent[3]);
        assert!(bench.applies.is_empty() && bench.applies.room.is_free(), "{:?}", bench.applies.room);
    }
}
