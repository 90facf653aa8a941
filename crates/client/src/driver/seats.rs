//! A transaction that is under way, and who waits for what of it.

use std::collections::BTreeMap;

use tokio::time::Instant;
use tyr_proto::{BlobName, Client, End, ReadAnswer, ReadId, Refusal, Time, Told, Transaction};
use tyr_types::{Error, Result};

use super::{
    asked::Asked,
    call::{Ended, Found, Reply},
};
use crate::words;

/// A transaction and who waits for what of it.
#[derive(Debug)]
pub struct Seat {
    /// The transaction.
    pub transaction: Transaction,
    reads: BTreeMap<ReadId, Waiting>,
    commit: Option<Commit>,
    /// How it ended, if somebody wants that kept.
    ended: Option<Result<Ended>>,
    /// How many may still ask for that.
    keepers: usize,
    /// Those who wait for that.
    awaiting: Vec<Asked<Ended>>,
}

#[derive(Debug)]
struct Commit {
    until: Instant,
    /// None once it was told that it is not known in time.
    reply: Option<Reply<Ended>>,
}

/// Who waits for a read.
#[derive(Debug)]
struct Waiting {
    until: Instant,
    wants: Wants,
}

/// What is waited for.
#[derive(Debug)]
pub enum Wants {
    /// Bytes.
    Bytes(Reply<Option<Vec<u8>>>),
    /// The blob.
    Blob(BlobName, Reply<Option<Found>>),
}

impl Seat {
    /// Nobody waits for anything yet.
    pub fn new(transaction: Transaction) -> Self {
        Seat {
            transaction,
            reads: BTreeMap::new(),
            commit: None,
            ended: None,
            keepers: 0,
            awaiting: Vec::new(),
        }
    }

    /// Somebody waits for a read.
    pub fn wait(&mut self, id: ReadId, until: Instant, wants: Wants) {
        self.reads.insert(id, Waiting { until, wants });
    }

    /// A read that was dropped before it was answered leaves the transaction as it was.
    pub fn forget_deserted(&mut self, client: &mut Client, now: Time) {
        for (id, _) in self.reads.extract_if(.., |_, waiting| waiting.wants.is_deserted()) {
            self.transaction.forget(client, now, id);
        }
    }

    /// Somebody waits for its end, which has been asked for.
    pub fn wait_for_end(&mut self, until: Instant, reply: Reply<Ended>) {
        self.commit = Some(Commit { until, reply: Some(reply) });
    }

    /// Whether its end has been asked for and has not come.
    pub fn is_ending(&self) -> bool {
        self.commit.is_some() && self.ended.is_none()
    }

    /// Somebody may ask how it ended.
    pub fn keep(&mut self) {
        self.keepers += 1;
    }

    /// One of those asks no more.
    pub fn drop_keeper(&mut self) {
        self.keepers = self.keepers.saturating_sub(1);
    }

    /// Whether nothing of it is needed any more.
    pub fn is_over(&self) -> bool {
        self.ended.is_some() && self.keepers == 0
    }

    /// Somebody wants to know how it ended.
    pub fn await_end(&mut self, asked: Asked<Ended>) {
        match &self.ended {
            Some(ended) => asked.answer(ended.clone()),
            None if self.commit.is_none() => asked.answer(Err(words::not_committed())),
            None => self.awaiting.push(asked),
        }
    }

    /// Passes on what the transaction is told.
    pub fn settle(&mut self, client: &mut Client, now: Time, troubles: impl Fn() -> String) {
        while let Some(told) = self.transaction.poll_told() {
            match told {
                Told::Read(id, answer) => self.answer(id, answer),
                Told::Ended(End::Committed(values)) => self.end(Ok(Ended::Committed(values))),
                Told::Ended(End::Refused(refusal)) => self.end(self.refused(refusal, Instant::now())),
                Told::Ended(End::Late) => self.end(Err(words::not_begun(&troubles()))),
                Told::Ended(End::Forgotten(_)) => self.end(Err(words::forgotten())),
                Told::Ended(End::Unknown(id)) => {
                    if let Some(reply) = self.commit.as_mut().and_then(|commit| commit.reply.take()) {
                        // Who asked may be gone, here and everywhere below.
                        drop(reply.send(Err(words::unknown(&troubles()))));
                    }
                    // Nobody can say anything of a session's later transactions as long as this one is open.
                    client.resolve(now, id);
                }
            }
        }
    }

    /// A refusal, but if somebody waits who has no time left for another try, and nothing that was read is to blame, it is no reason for one.
    fn refused(&self, refusal: Refusal, at: Instant) -> Result<Ended> {
        let is_late = |commit: &Commit| commit.reply.is_some() && commit.until <= at;
        match refusal {
            Refusal::Busy | Refusal::Fenced | Refusal::Unstaged
                if self.commit.as_ref().is_some_and(is_late) =>
            {
                Err(words::refused(refusal))
            }
            refusal => Ok(Ended::Refused(refusal)),
        }
    }

    fn end(&mut self, ended: Result<Ended>) {
        if let Some(reply) = self.commit.as_mut().and_then(|commit| commit.reply.take()) {
            drop(reply.send(ended.clone()));
        }
        for asked in self.awaiting.drain(..) {
            asked.answer(ended.clone());
        }
        self.reads.clear();
        self.ended = Some(ended);
    }

    fn answer(&mut self, id: ReadId, answer: ReadAnswer) {
        let Some(Waiting { wants, .. }) = self.reads.remove(&id) else { return };
        match (wants, answer) {
            (Wants::Bytes(reply), ReadAnswer::Bytes(bytes)) => drop(reply.send(Ok(bytes))),
            (Wants::Blob(blob, reply), ReadAnswer::Stat(looked)) => {
                let number = self.transaction.number(&blob).unwrap_or_default();
                drop(reply.send(Ok(looked.map(|looked| Found { number, looked }))));
            }
            (wants, ReadAnswer::Denied) => wants.fail(words::denied()),
            (wants, ReadAnswer::BytesLost) => wants.fail(words::bytes_lost()),
            (wants, _) => wants.fail(lost()),
        }
    }

    /// Nobody answers any more: whoever waits is told so. How a commit ended is still found out if that changes.
    pub fn deny(&mut self, denied: impl Fn() -> Error, unknown: impl Fn() -> Error) {
        std::mem::take(&mut self.reads).into_values().for_each(|waiting| waiting.wants.fail(denied()));
        for asked in self.awaiting.drain(..) {
            asked.answer(Err(unknown()));
        }
        if let Some(reply) = self.commit.as_mut().and_then(|commit| commit.reply.take()) {
            drop(reply.send(Err(unknown())));
        }
    }

    /// Answers those who have waited too long: at a time, which the protocol's client, who has been told of it, knows as `now`. A
    /// commit that was not sent by then is not sent at all; whether one was, the transaction knows alone.
    pub fn give_up(&mut self, client: &mut Client, now: Time, at: Instant, troubles: impl Fn() -> String) {
        let late: Vec<_> = self.reads.extract_if(.., |_, waiting| waiting.until <= at).collect();
        // One that is to commit and whose time is over is not sent, though nothing that it reads holds it up any more.
        self.transaction.handle_tick(client, now);
        for (id, waiting) in late {
            self.transaction.forget(client, now, id);
            waiting.wants.fail(words::no_answer(&troubles()));
        }
        for asked in self.awaiting.extract_if(.., |asked| asked.is_late(at)) {
            asked.answer(Err(words::unknown(&troubles())));
        }
        self.settle(client, now, &troubles);
        if let Some(commit) = self.commit.as_mut().filter(|commit| commit.until <= at)
            && let Some(reply) = commit.reply.take()
        {
            drop(reply.send(Err(words::unknown(&troubles()))));
        }
    }
}

impl Wants {
    /// Whether nobody waits for it any more.
    fn is_deserted(&self) -> bool {
        match self {
            Wants::Bytes(reply) => reply.is_closed(),
            Wants::Blob(_, reply) => reply.is_closed(),
        }
    }

    /// Somebody does not get what was waited for.
    pub fn fail(self, error: Error) {
        match self {
            Wants::Bytes(reply) => drop(reply.send(Err(error))),
            Wants::Blob(_, reply) => drop(reply.send(Err(error))),
        }
    }
}

/// What a transaction had read is gone.
fn lost() -> Error {
    Error::conflict(
        "a version that was read is not kept any more, after a failure or a long pause; run it again",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::time::Duration;

    use tokio::sync::oneshot;
    use tyr_proto::Operation;

    use super::*;
    use crate::driver::fixture::unheard;

    const PATIENCE: Duration = Duration::from_millis(1);

    /// What a commit is told whose time is over at 1000 microseconds, when somebody looks at 1001.
    fn told_late(reads: bool) -> (Seat, Error) {
        let (mut client, blob) = unheard();
        let mut seat = Seat::new(Transaction::begin(0));
        if reads {
            seat.transaction.stat(&mut client, Time(0), &blob);
        }
        seat.transaction.change(&blob, Operation::Create);
        let (reply, mut answer) = oneshot::channel();
        let until = Instant::now() + PATIENCE;
        seat.wait_for_end(until, reply);
        seat.transaction.commit(&mut client, Time(0), Some(Time(1000)));
        seat.settle(&mut client, Time(0), String::new);
        let late = until + Duration::from_micros(1);
        seat.give_up(&mut client, Time(1001), late, String::new);
        (seat, answer.try_recv().unwrap().unwrap_err())
    }

    #[test]
    fn of_a_commit_that_was_sent_nobody_says_that_it_never_happens() {
        let (seat, error) = told_late(false);
        assert!(error.message().contains("not known whether this happened"), "{error}");
        assert!(!seat.is_over(), "it goes on");
    }

    #[test]
    fn a_commit_that_ends_in_time_is_no_conflict_whoever_notices_it_first() {
        let (mut client, blob) = unheard();
        let mut seat = Seat::new(Transaction::begin(0));
        seat.transaction.stat(&mut client, Time(0), &blob);
        let (reply, mut answer) = oneshot::channel();
        seat.wait_for_end(Instant::now() + PATIENCE, reply);
        seat.transaction.commit(&mut client, Time(0), Some(Time(1000)));
        seat.transaction.handle_tick(&mut client, Time(1000));
        seat.settle(&mut client, Time(1000), String::new);
        let error = answer.try_recv().unwrap().unwrap_err();
        assert!(error.message().contains("nothing of it happened"), "{error}");
    }

    #[test]
    fn a_refusal_that_nobody_is_to_blame_for_is_a_conflict_only_as_long_as_there_is_time() {
        let (reply, _answer) = oneshot::channel();
        let mut seat = Seat::new(Transaction::begin(0));
        let until = Instant::now() + PATIENCE;
        seat.wait_for_end(until, reply);
        let is_conflict = |seat: &Seat, refusal, at| seat.refused(refusal, at).is_ok();
        let soon = until - Duration::from_micros(1);
        assert!(is_conflict(&seat, Refusal::Busy, soon) && is_conflict(&seat, Refusal::Conflict, until));
        for refusal in [Refusal::Busy, Refusal::Fenced, Refusal::Unstaged] {
            let error = seat.refused(refusal, until).unwrap_err();
            assert!(error.message().contains("nothing of it happened"), "{error}");
        }
        seat.deny(words::closed, words::closed);
        assert!(
            is_conflict(&seat, Refusal::Fenced, until),
            "who asks later wants to know whether it happened"
        );
    }

    #[test]
    fn a_read_that_nobody_waits_for_holds_up_no_commit() {
        let (mut client, blob) = unheard();
        let other = BlobName { key: tyr_types::Key::new("b").unwrap(), ..blob.clone() };
        let is_sent = |seat: &Seat| seat.transaction.id().is_some();
        // Dropped, and not answered in time.
        for is_dropped in [true, false] {
            let mut seat = Seat::new(Transaction::begin(0));
            let (reply, waits) = oneshot::channel();
            let id = seat.transaction.read(&mut client, Time(0), &blob, 0..10);
            let until = Instant::now() + PATIENCE;
            seat.wait(id, until, Wants::Bytes(reply));
            if is_dropped {
                drop(waits);
            } else {
                seat.give_up(&mut client, Time(1000), until, String::new);
            }
            seat.transaction.change(&other, Operation::Create);
            seat.forget_deserted(&mut client, Time(1000));
            seat.transaction.commit(&mut client, Time(1000), None);
            assert!(is_sent(&seat), "dropped: {is_dropped}");
            assert_eq!(seat.transaction.touched().collect::<Vec<_>>(), [&other]);
        }
    }

    #[test]
    fn a_commit_that_waits_for_what_it_reads_ends_in_time() {
        let (seat, error) = told_late(true);
        assert!(error.message().contains("nothing of it happened"), "{error}");
        assert!(seat.is_over());
    }
}
