//! Fair shares: how many replicas each member should hold, in proportion to weights as far as the zone rule allows.

use alloc::{vec, vec::Vec};

/// How many partitions one member should hold, as an exact fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    slots: u128,
    of: u128,
}

impl Share {
    pub(super) fn new(slots: u64, of: u64) -> Self {
        Share { slots: slots.into(), of: of.into() }
    }

    /// The share of some of the things, if there are `all` of them.
    pub(super) fn part(self, some: u32, all: u32) -> Self {
        Share { slots: self.slots * u128::from(some), of: self.of * u128::from(all) }
    }

    /// The whole number below or at the share.
    pub(super) fn floor(self) -> u32 {
        u32::try_from(self.slots / self.of).expect("no share is above the number of partitions")
    }

    /// Whether the share is not a whole number.
    pub(super) fn has_fraction(self) -> bool {
        !self.slots.is_multiple_of(self.of)
    }
}

/// What the shares are divided among, and within which bounds.
pub(super) struct Demand<'a> {
    /// The weight of each member; not zero.
    pub(super) weights: &'a [u64],
    /// The zone of each member, below `zones`.
    pub(super) zone_of: &'a [usize],
    pub(super) zones: usize,
    /// No member holds more than this: each partition once.
    pub(super) partitions: u32,
    pub(super) replicas: u32,
    /// The most replicas of one partition in one zone; enough for all of them to be placed.
    pub(super) zone_max: u32,
}

impl Demand<'_> {
    /// The share of each member. Every share is the same multiple of the weight, except that a member has at most all
    /// partitions, and the members of a zone that would get more than it may hold divide what it may hold.
    ///
    /// Bounding a member or a zone leaves more for the others and so raises the multiple; who is above a bound at one multiple
    /// is above it at every later one. So bounds are applied as they are met.
    pub(super) fn fair_shares(&self) -> Vec<Share> {
        let mut shares = vec![Share::new(0, 1); self.weights.len()];
        let mut open: Vec<usize> = (0..self.weights.len()).collect();
        let mut slots = u64::from(self.partitions) * u64::from(self.replicas);
        let zone_slots = u64::from(self.partitions) * u64::from(self.zone_max);
        loop {
            self.divide(slots, &open, &mut shares);
            let full = self.zones_above(zone_slots, &open, &shares);
            if !full.contains(&true) {
                return shares;
            }
            for zone in (0..self.zones).filter(|&zone| full[zone]) {
                let inside = open.extract_if(.., |member| self.zone_of[*member] == zone).collect::<Vec<_>>();
                self.divide(zone_slots, &inside, &mut shares);
                slots -= zone_slots;
            }
        }
    }

    /// Divides slots by weight among some members, none of which gets more than all partitions.
    fn divide(&self, slots: u64, among: &[usize], shares: &mut [Share]) {
        let all = u128::from(self.partitions);
        let mut slots = u128::from(slots);
        let mut sharing = among.to_vec();
        loop {
            let of = sharing.iter().map(|&member| u128::from(self.weights[member])).sum::<u128>().max(1);
            let above = |member: &mut usize| slots * u128::from(self.weights[*member]) > all * of;
            let bounded: Vec<usize> = sharing.extract_if(.., above).collect();
            if bounded.is_empty() {
                for &member in among {
                    shares[member] = Share { slots: all * of, of };
                }
                for &member in &sharing {
                    shares[member] = Share { slots: slots * u128::from(self.weights[member]), of };
                }
                return;
            }
            slots -= all * bounded.len() as u128;
        }
    }

    /// Which zones get more than they may hold. The shares of the open members have one denominator.
    fn zones_above(&self, zone_slots: u64, open: &[usize], shares: &[Share]) -> Vec<bool> {
        let mut held = vec![0; self.zones];
        for &member in open {
            held[self.zone_of[member]] += shares[member].slots;
        }
        let of = open.first().map_or(1, |&member| shares[member].of);
        held.into_iter().map(|slots| slots > u128::from(zone_slots) * of).collect()
    }
}
