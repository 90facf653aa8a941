//! Pending changes against the simplest model: the bytes themselves.

use std::convert::Infallible;

use proptest::prelude::*;
use tyr_store::Existence;
use tyr_types::{Attributes, NumberType, Operand};

use super::draft::{Base, Draft, Halt, Origin, Outcome};
use super::layer::index;
use super::overlay::{Presence, Swapped};
use super::*;

/// What is done to the bytes of a blob that may not exist.
#[derive(Clone, Debug)]
enum Edit {
    Create,
    Delete,
    Write(u64, Vec<u8>),
    Put(Vec<u8>),
    Append(Vec<u8>),
    Truncate(u64),
    Punch(u64, u64),
    Add(u64, u32),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let bytes = || prop::collection::vec(1u8.., 0..12);
    let edit = prop_oneof![
        1 => Just(Edit::Create),
        1 => Just(Edit::Delete),
        5 => (0u64..40, bytes()).prop_map(|(at, bytes)| Edit::Write(at, bytes)),
        1 => bytes().prop_map(Edit::Put),
        4 => bytes().prop_map(Edit::Append),
        2 => (0u64..50).prop_map(Edit::Truncate),
        3 => (0u64..40, 0u64..20).prop_map(|(at, len)| Edit::Punch(at, len)),
        4 => (0u64..44, any::<u32>()).prop_map(|(at, n)| Edit::Add(at, n)),
    ];
    prop::collection::vec(edit, 0..16)
}

/// Does the edits that are possible, to the bytes and to the pending changes alike; returns the results by slot.
fn edit_both(blob: &mut Option<Vec<u8>>, overlay: &mut Overlay, edits: &[Edit]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let slot = |outcomes: &Vec<_>| Slot(u32::try_from(outcomes.len()).unwrap());
    let loose = |bytes: &[u8]| Layer::of(0, Bytes::Loose(bytes.into()));
    for edit in edits {
        match edit {
            Edit::Create if blob.is_none() => {
                *blob = Some(Vec::new());
                overlay.create();
            }
            Edit::Delete if blob.is_some() => {
                *blob = None;
                overlay.delete();
            }
            Edit::Truncate(size) if blob.is_some() => {
                blob.get_or_insert_default().resize(index(*size), 0);
                overlay.truncate(*size);
            }
            Edit::Punch(at, len) if blob.is_some() => {
                let content = blob.get_or_insert_default();
                let end = index(at + len).min(content.len());
                content[index(*at).min(end)..end].fill(0);
                overlay.punch(*at..at + len);
            }
            Edit::Create | Edit::Delete | Edit::Truncate(_) | Edit::Punch(..) => {}
            Edit::Write(at, bytes) => {
                write(blob, index(*at), bytes);
                overlay.write_all(*at, loose(bytes));
            }
            Edit::Put(bytes) => {
                *blob = Some(bytes.clone());
                overlay.put(loose(bytes));
            }
            Edit::Append(bytes) => {
                let at = blob.as_ref().map_or(0, Vec::len);
                write(blob, at, bytes);
                overlay.append(slot(&outcomes), loose(bytes));
                outcomes.push(Outcome::Offset(at as u64));
            }
            Edit::Add(at, n) => {
                let transform = Transform::add(Operand::U32(*n));
                let old = number(blob.as_deref().unwrap_or_default(), *at);
                write(blob, index(*at), &transform.apply(old).to_le_bytes()[..4]);
                overlay.transform(slot(&outcomes), *at, transform);
                outcomes.push(Outcome::Old(old));
            }
        }
    }
    outcomes
}

fn write(blob: &mut Option<Vec<u8>>, at: usize, bytes: &[u8]) {
    let content = blob.get_or_insert_default();
    if !bytes.is_empty() {
        content.resize(content.len().max(at + bytes.len()), 0);
        content[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

fn number(bytes: &[u8], at: u64) -> Operand {
    let found: Vec<u8> = bytes.iter().copied().skip(index(at)).chain([0; 4]).take(4).collect();
    Operand::from_le_bytes(NumberType::U32, &found).unwrap()
}

/// The draft of the steps on these committed bytes.
fn draft<'a>(
    base: Option<&'a [u8]>,
    attributes: &'a Attributes,
    steps: &'a [Step],
    window: Range<u64>,
) -> Draft<'a> {
    let head = base.map(|bytes| Base { size: bytes.len() as u64, attributes });
    let mut draft = Draft::new(head, window);
    let read = |at: u64, buffer: &mut [u8]| {
        let found = base.unwrap_or_default().iter().copied().skip(index(at));
        buffer.iter_mut().zip(found.chain(std::iter::repeat(0))).for_each(|(to, byte)| *to = byte);
        Ok::<(), Infallible>(())
    };
    draft.take(steps, read).unwrap();
    draft
}

/// The bytes that a draft shows in a range, from the base, its own pieces, and zeros.
fn show(draft: &Draft<'_>, base: Option<&[u8]>, range: Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; index(range.end - range.start)];
    for gap in draft.gaps(range.clone()) {
        for at in gap {
            bytes[index(at - range.start)] = base.and_then(|base| base.get(index(at)).copied()).unwrap_or(0);
        }
    }
    for (start, piece) in draft.shown(range.clone()) {
        let from: &[u8] = match &piece.origin {
            Origin::Hole => &[0; 64],
            Origin::Number(number) => number,
            Origin::Bytes(_, bytes) => bytes.in_memory().unwrap(),
        };
        bytes[index(start - range.start)..][..index(piece.len)]
            .copy_from_slice(&from[index(piece.skip)..][..index(piece.len)]);
    }
    bytes
}

/// Works out the transforms that decide the range, as a read does.
fn resolve(overlay: &mut Overlay, base: Option<&[u8]>, range: Range<u64>) {
    let attributes = Attributes::default();
    let head = base.map(|bytes| Base { size: bytes.len() as u64, attributes: &attributes });
    for step in overlay.unresolved(range) {
        let Step::Transform { offset, transform, .. } = &overlay.steps()[step] else { unreachable!() };
        let (offset, transform) = (*offset, *transform);
        let mut before = Draft::new(head, offset..offset + 4);
        // No other than those named before may be needed.
        let taken: Result<_, Halt<()>> = before.take(&overlay.steps()[..step], |_, _| Err(()));
        assert_eq!(taken, Ok(()));
        let old = Operand::from_le_bytes(NumberType::U32, &show(&before, base, offset..offset + 4)).unwrap();
        overlay.resolve(step, Swapped { old, new: transform.apply(old) });
    }
}

proptest! {
    #[test]
    fn what_pending_changes_hold_is_counted_once(edits in edits()) {
        let (mut blob, mut overlay) = (None, Overlay::default());
        edit_both(&mut blob, &mut overlay, &edits);
        let layers = overlay.steps().iter().filter_map(|step| match step {
            Step::Write(layer) | Step::Append { bytes: layer, .. } => Some(layer.held()),
            _ => None,
        });
        prop_assert_eq!(overlay.held(), layers.sum::<usize>() + overlay.steps().len() * overlay::STEP_COST);
    }

    #[test]
    fn a_draft_is_what_the_edits_make_of_the_base(
        base in prop::option::of(prop::collection::vec(1u8.., 0..60)),
        edits in edits(),
        start in 0u64..60,
        len in 0u64..30,
    ) {
        let (mut blob, mut overlay) = (base.clone(), Overlay::default());
        let outcomes = edit_both(&mut blob, &mut overlay, &edits);
        let attributes = Attributes::default();
        let whole = draft(base.as_deref(), &attributes, overlay.steps(), 0..u64::MAX);
        prop_assert_eq!((whole.exists, whole.size), (blob.is_some(), blob.as_ref().map_or(0, |b| b.len() as u64)));
        let mut slots = whole.outcomes().to_vec();
        slots.sort_by_key(|(slot, _)| *slot);
        prop_assert_eq!(slots.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), outcomes);
        let content = blob.clone().unwrap_or_default();
        prop_assert_eq!(&show(&whole, base.as_deref(), 0..whole.size), &content);
        match overlay.presence() {
            Presence::AsBefore => prop_assert_eq!(base.is_some(), blob.is_some()),
            Presence::Present => prop_assert!(blob.is_some()),
            Presence::Absent => prop_assert!(blob.is_none()),
        }

        let size = whole.size;

        // A window shows the same as the whole, as soon as the transforms in it are worked out.
        let range = start..start + len;
        resolve(&mut overlay, base.as_deref(), range.clone());
        let part = draft(base.as_deref(), &attributes, overlay.steps(), range.clone());
        let mut expected: Vec<u8> = content.iter().copied().skip(index(start)).take(index(len)).collect();
        expected.resize(index(len), 0);
        prop_assert_eq!(&show(&part, base.as_deref(), range.clone()), &expected);
        if overlay.covers(range.clone()) {
            prop_assert!(part.gaps(range).is_empty() && start + len <= size);
        }

        // The one change does the same.
        let whole = draft(base.as_deref(), &attributes, overlay.steps(), 0..u64::MAX);
        let change = whole.change::<Infallible>().unwrap();
        let mut done = base.clone();
        if let Some(change) = change {
            match change.existence {
                Existence::Create => prop_assert!(done.is_none()),
                _ => prop_assert!(done.is_some()),
            }
            if change.existence != Existence::Keep {
                done = None;
            }
            if change.existence != Existence::Delete {
                let kept = done.get_or_insert_default();
                if let Some(cut) = change.cut {
                    kept.truncate(index(cut));
                }
                for hole in &change.holes {
                    prop_assert!(hole.start < hole.end && hole.end <= change.size);
                    kept[index(hole.start)..index(hole.end)].fill(0);
                }
                kept.resize(index(change.size), 0);
                let mut end = 0;
                for (at, payload) in &change.writes {
                    prop_assert!(*at >= end && !payload.is_empty());
                    end = at + payload.len() as u64;
                    prop_assert!(end <= change.size);
                    prop_assert!(change.holes.iter().all(|hole| hole.end <= *at || end <= hole.start));
                    kept[index(*at)..index(end)].copy_from_slice(&content[index(*at)..index(end)]);
                }
            }
        }
        prop_assert_eq!(done, blob);
    }

    #[test]
    fn transforms_worked_out_early_come_to_the_same(
        base in prop::option::of(prop::collection::vec(1u8.., 0..60)),
        edits in edits(),
        start in 0u64..60,
        len in 1u64..30,
    ) {
        let (mut blob, mut overlay) = (base.clone(), Overlay::default());
        let outcomes = edit_both(&mut blob, &mut overlay, &edits);
        let attributes = Attributes::default();
        resolve(&mut overlay, base.as_deref(), start..start + len);
        prop_assert!(overlay.unresolved(start..start + len).is_empty());
        let whole = draft(base.as_deref(), &attributes, overlay.steps(), 0..u64::MAX);
        prop_assert_eq!(show(&whole, base.as_deref(), 0..whole.size), blob.unwrap_or_default());
        let mut slots = whole.outcomes().to_vec();
        slots.sort_by_key(|(slot, _)| *slot);
        prop_assert_eq!(slots.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), outcomes);
    }
}

#[test]
fn repeated_puts_and_deletes_do_not_pile_up() {
    let mut overlay = Overlay::default();
    for n in 0..100 {
        overlay.put(Layer::of(0, Bytes::Loose(vec![n; 1000])));
        if n % 3 == 0 {
            overlay.delete();
        }
    }
    assert!(overlay.steps().len() < 10, "{} steps", overlay.steps().len());
    assert!(overlay.held() < 10_000, "{} bytes", overlay.held());
    for n in 0..100 {
        overlay.put(Layer::of(0, Bytes::Loose(vec![n; 1000])));
        overlay.write_all(500, Layer::of(0, Bytes::Loose(vec![n; 1000])));
    }
    assert!(overlay.held() < 10_000, "{} bytes", overlay.held());
}

#[test]
fn appends_in_a_row_are_one_step_with_a_slot_each() {
    let mut overlay = Overlay::default();
    for n in 0..3 {
        overlay.append(Slot(n), Layer::of(0, Bytes::Loose(vec![1; 10])));
    }
    assert_eq!(overlay.steps().len(), 1);
    let attributes = Attributes::default();
    let draft = draft(Some(&[0; 5]), &attributes, overlay.steps(), 0..u64::MAX);
    let offsets = [5, 15, 25].map(Outcome::Offset);
    assert_eq!(draft.outcomes().iter().map(|(_, outcome)| *outcome).collect::<Vec<_>>(), offsets);
}
