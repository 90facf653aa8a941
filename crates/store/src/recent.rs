//! Payload that was just written, in memory as it was handed over: read again soon more often than not, and kept without a copy.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use tyr_wire::extent::Place;

use crate::payload::Payload;

/// The payloads written last, up to a budget, by place; the oldest goes first.
pub struct Recent {
    state: Mutex<State>,
    budget: usize,
}

#[derive(Default)]
struct State {
    payloads: BTreeMap<Place, Payload>,
    queue: VecDeque<Place>,
    bytes: usize,
}

impl Recent {
    /// An empty one for about `budget` bytes.
    pub fn new(budget: u64) -> Self {
        Recent { state: Mutex::default(), budget: usize::try_from(budget).unwrap_or(usize::MAX) }
    }

    /// Keeps a payload for a while.
    pub fn insert(&self, place: Place, payload: &Payload) {
        if payload.bytes().is_none() || payload.len() > self.budget / 2 {
            return;
        }
        let mut dropped = Vec::new();
        let mut state = self.state.lock();
        state.bytes += payload.len();
        state.payloads.insert(place, payload.clone());
        state.queue.push_back(place);
        while state.bytes > self.budget
            && let Some(oldest) = state.queue.pop_front()
        {
            if let Some(payload) = state.payloads.remove(&oldest) {
                state.bytes -= payload.len();
                dropped.push(payload);
            }
        }
        // Memory is given back without the lock.
        drop(state);
    }

    /// Copies the bytes at `place` if a payload has them all.
    pub fn copy(&self, place: Place, buffer: &mut [u8]) -> bool {
        let state = self.state.lock();
        let Some((start, payload)) = state.payloads.range(..=place).next_back() else { return false };
        if start.segment != place.segment {
            return false;
        }
        let from = (place.position - start.position) as usize;
        let bytes = payload.bytes().and_then(|bytes| bytes.get(from..from + buffer.len()));
        bytes.iter().for_each(|bytes| buffer.copy_from_slice(bytes));
        bytes.is_some()
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use tyr_wire::extent::SegmentId;

    use super::*;

    fn at(position: u32) -> Place {
        Place { segment: SegmentId(1), position }
    }

    #[test]
    fn the_last_payloads_are_found_by_any_part_and_the_first_are_gone() {
        let recent = Recent::new(20_000);
        for index in 0..10u8 {
            recent.insert(at(u32::from(index) * 8192), &Payload::new(&[index; 5000]));
        }
        let mut buffer = [0; 100];
        assert!(recent.copy(at(9 * 8192 + 4900), &mut buffer));
        assert_eq!(buffer, [9; 100]);
        assert!(!recent.copy(at(9 * 8192 + 4901), &mut buffer), "ends within");
        assert!(!recent.copy(at(0), &mut buffer), "was dropped");
        assert!(!recent.copy(Place { segment: SegmentId(2), position: 9 * 8192 }, &mut buffer));
        assert!(recent.bytes() <= 20_000);
    }
}
