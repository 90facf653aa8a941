use proptest::{collection::vec, prelude::*};
use tyr_wire::extent::{Checksums, Place};

use super::*;

const SPAN: u32 = 65_536;

fn extent(range: Range<u32>, number: u64) -> Extent {
    Extent {
        start: range.start,
        len: range.end - range.start,
        number: Number::from_u64(number),
        place: Place::default(),
        skip: 0,
        stored: range.end - range.start,
        checksums: Checksums::One(0),
    }
}

/// Each byte's writer at a number, 0 for none: what `visible` must agree with.
fn model(history: &[(Range<u32>, bool)], at: u64) -> Vec<u64> {
    let mut bytes = vec![0; SPAN as usize];
    for (number, (range, is_cut)) in (1..).zip(history).take_while(|(number, _)| *number <= at) {
        if *is_cut {
            bytes[range.start as usize..].fill(0);
        } else {
            bytes[range.start as usize..range.end as usize].fill(number);
        }
    }
    bytes
}

fn shown(extents: &[Extent], cuts: &[Cut], at: u64) -> Vec<u64> {
    let mut bytes = vec![0; SPAN as usize];
    for piece in visible(extents, cuts, 3, 0..SPAN, Number::from_u64(at)) {
        let number = extents[piece.extent].number.to_u64();
        for byte in &mut bytes[piece.range.start as usize..piece.range.end as usize] {
            assert_eq!(std::mem::replace(byte, number), 0, "pieces do not overlap");
        }
    }
    bytes
}

fn ranges() -> impl Strategy<Value = (Range<u32>, bool)> {
    // Coarse positions make covering and touching ranges common.
    (0..16u32, 1..16u32, prop::bool::weighted(0.2))
        .prop_map(|(start, len, is_cut)| (start * 4096..((start + len) * 4096).min(SPAN), is_cut))
}

proptest! {
    #[test]
    fn every_number_shows_what_was_written_until_then(history in vec(ranges(), 0..12), pins in vec(0..12u64, 0..3)) {
        let mut pins: Vec<Number> = pins.into_iter().map(Number::from_u64).collect();
        pins.sort_unstable();
        let (mut extents, mut cuts) = (Vec::new(), Vec::new());
        for (number, (range, is_cut)) in (1..).zip(&history) {
            if *is_cut {
                let from = 3 * LEAF_SPAN + u64::from(range.start);
                cuts.push(Cut { number: Number::from_u64(number), from });
            } else {
                extents.push(extent(range.clone(), number));
            }
            let reached: Vec<Number> = pins.iter().copied().filter(|pin| pin.to_u64() <= number).collect();
            prune(&mut extents, &cuts, 3, &reached);
            prop_assert_eq!(shown(&extents, &cuts, u64::MAX), model(&history, number));
        }
        for pin in pins {
            // A pin is taken when its number is the newest; all our pins existed from that moment on.
            if pin.to_u64() <= history.len() as u64 {
                prop_assert_eq!(shown(&extents, &cuts, pin.to_u64()), model(&history, pin.to_u64()));
            }
        }
    }

    #[test]
    fn the_newest_number_of_a_range_survives_pruning(history in vec(ranges(), 1..12), probe in ranges()) {
        let extents: Vec<Extent> =
            (1..).zip(&history).map(|(number, (range, _))| extent(range.clone(), number)).collect();
        let mut pruned = extents.clone();
        prune(&mut pruned, &[], 0, &[]);
        prop_assert_eq!(newest(&pruned, &[], 0, &probe.0), newest(&extents, &[], 0, &probe.0));
    }
}

#[test]
fn without_pins_a_covered_extent_goes_and_a_half_covered_one_stays() {
    let mut extents = vec![extent(0..100, 1), extent(100..200, 2)];
    let dropped = overwrite(&mut extents, extent(50..200, 3));
    assert_eq!(dropped, [extent(100..200, 2)]);
    assert_eq!(extents, [extent(0..100, 1), extent(50..200, 3)]);
}

#[test]
fn ranges_are_cut_at_leaf_boundaries() {
    let parts: Vec<_> = split(LEAF_SPAN - 10..2 * LEAF_SPAN + 5).collect();
    assert_eq!(parts, [(0, SPAN - 10..SPAN), (1, 0..SPAN), (2, 0..5)]);
    assert_eq!(split(7..7).count(), 0);
}
