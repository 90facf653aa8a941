//! A history as outside checkers want it: a line of events, and processes that do one thing at a time.

use std::collections::BTreeMap;

use super::{ClientId, History, Operation, Outcome};

/// A beginning or an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) time: u64,
    pub(super) moment: Moment,
    pub(super) place: usize,
    /// A line of operations of one client that do not overlap. One of unknown outcome ends it.
    pub(super) process: u32,
}

/// Of two events at one time, beginnings come first: such operations are concurrent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moment {
    Begin,
    Answer,
}

/// The events of the operations that are `relevant`, in order. Who was never answered has only a beginning.
pub(super) fn events(history: &History, relevant: impl Fn(&Operation) -> bool) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for (place, operation) in history.operations().iter().enumerate().filter(|(_, of)| relevant(of)) {
        let event = |time, moment| Event { time, moment, place, process: 0 };
        events.push(event(operation.invoked, Moment::Begin));
        events.extend(operation.completed.map(|time| event(time, Moment::Answer)));
    }
    events.sort_by_key(|event| (event.time, event.moment, event.place));
    assign_processes(history, &mut events);
    events
}

fn assign_processes(history: &History, events: &mut [Event]) {
    let mut idle: BTreeMap<ClientId, Vec<u32>> = BTreeMap::new();
    let mut busy: BTreeMap<usize, u32> = BTreeMap::new();
    let mut count = 0;
    for event in events {
        let operation = &history.operations()[event.place];
        let idle = idle.entry(operation.client).or_default();
        match event.moment {
            Moment::Begin => {
                event.process = idle.pop().unwrap_or(count);
                count += u32::from(event.process == count);
                busy.insert(event.place, event.process);
            }
            Moment::Answer => {
                event.process = busy.remove(&event.place).expect("it began");
                if operation.outcome != Outcome::Unknown {
                    idle.push(event.process);
                }
            }
        }
    }
}
