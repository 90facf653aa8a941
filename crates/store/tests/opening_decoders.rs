//! Whatever bytes a store's files hold, with checksums that match: it is opened or refused, read or not, but nothing panics, hangs, or
//! takes memory without bound.

mod kit;

use std::{panic::AssertUnwindSafe, sync::Arc};

use kit::{compare, packed::Packed, tight};
use tyr_env::BLOCK_SIZE;
use tyr_sim_env::{SimClock, SimDisk};
use tyr_store::{Create, Maintained, Store, Wait};
use tyr_types::Number;
use tyr_wire::{
    checksum::crc32c as checksum,
    frame::{FRAME_HEADER_SIZE, FrameHeader, records},
    table::{TableId, part},
    varint::write_varint,
};

/// The store that the damage is done to.
fn sound() -> Packed {
    Packed::parse(include_str!("fixtures/format-2.store"))
}

/// Does with the store what can be done with it.
fn use_store(disk: Arc<SimDisk>) {
    let Ok(store) = Store::open(disk.clone(), SimClock::new(), Create::Never, tight()) else { return };
    read_everything(&store);
    let _ = (0..50).try_for_each(|_| match store.maintain() {
        Ok(Maintained::Worked) => Ok(()),
        Ok(Maintained::Idle) | Err(_) => Err(()),
    });
    let _ = store.check();
    read_everything(&store);
    drop(store);
    let _ = Store::open(disk, SimClock::new(), Create::Never, tight()).map(|store| store.close());
}

fn read_everything(store: &Store) {
    for keyspace in store.keyspaces() {
        let found = store.scan(keyspace.id, b"", None, 50, Number::MAX).unwrap_or_default();
        let keys = found.into_iter().map(|(key, _)| key).chain(compare::probe_keys());
        for key in keys {
            for offset in [0, 65_000, 1 << 40, (1 << 63) - 100] {
                let mut buffer = [0; 1000];
                let _ = store.read(keyspace.id, &key, Number::MAX, offset, &mut buffer, Wait::Allowed);
            }
        }
    }
}

/// Replaces bytes: each three of `damage` are a position and the byte to put there.
fn spoil(bytes: &mut [u8], damage: &[u8]) {
    let size = bytes.len().max(1);
    for [high, low, byte] in damage.as_chunks().0.iter().take(3) {
        if let Some(target) = bytes.get_mut(usize::from(u16::from_be_bytes([*high, *low])) % size) {
            *target = *byte;
        }
    }
}

/// Puts in the place of a byte a number that is as large as so many bits can tell.
fn exaggerate(bytes: &mut Vec<u8>, from: usize, damage: &[u8]) {
    let [at, width @ 1..128, ..] = damage else { return };
    if bytes.len() > from {
        let mut number = Vec::new();
        write_varint(&mut number, u64::MAX >> (width % 64));
        let at = from + usize::from(*at) % (bytes.len() - from);
        bytes.splice(at..=at, number);
    }
}

/// The file of a manifest with this body, its length and checksum as they should be.
fn manifest_with(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("short").to_le_bytes();
    [b"TyrMnfst", &1u32.to_le_bytes()[..], &len, &checksum(body).to_le_bytes(), body].concat()
}

#[test]
fn a_store_with_any_manifest_is_opened_or_refused() {
    let sound = sound();
    let disk = AssertUnwindSafe(sound.disk());
    let manifest = &sound.files["manifest"];
    let len = u32::from_le_bytes(manifest[12..16].try_into().expect("four bytes")) as usize;
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut body = manifest[20..20 + len].to_vec();
        // The identity is known to no decoder.
        spoil(&mut body[16..], bytes);
        exaggerate(&mut body, 16, bytes.get(9..).unwrap_or_default());
        let disk = disk.snapshot();
        disk.write_file("manifest", &manifest_with(&body)).expect("plants");
        use_store(disk);
    });
}

#[test]
fn a_store_with_any_record_is_opened_or_refused() {
    let sound = sound();
    let disk = AssertUnwindSafe(sound.disk());
    let frames: Vec<(&String, usize)> = sound
        .files
        .iter()
        .flat_map(|(name, bytes)| {
            let starts = (BLOCK_SIZE..bytes.len()).step_by(BLOCK_SIZE);
            let is_frame = |start: &usize| {
                FrameHeader::peek(&bytes[*start..]).is_some_and(|header| header.verify(&bytes[*start..]))
            };
            starts.filter(is_frame).map(move |start| (name, start))
        })
        .collect();
    bolero::check!().for_each(|bytes: &[u8]| {
        let Some((which, damage)) = bytes.split_first_chunk() else { return };
        let (name, start) = frames[usize::from(u16::from_le_bytes(*which)) % frames.len()];
        let mut file = sound.files[name].clone();
        let frame = &mut file[start..];
        let mut header = FrameHeader::peek(frame).expect("is one");
        let old_end = header.records_end as usize;
        let mut area = Vec::new();
        for record in records(&header, frame) {
            let record = record.expect("is whole");
            let mut body = record.body.to_vec();
            spoil(&mut body, damage);
            exaggerate(&mut body, 0, damage.get(9..).unwrap_or_default());
            for part in [record.inline, &body] {
                area.extend_from_slice(&u32::try_from(part.len()).expect("short").to_le_bytes());
            }
            area.extend_from_slice(record.inline);
            area.extend_from_slice(&body);
        }
        let new_end = FRAME_HEADER_SIZE + area.len();
        if new_end.div_ceil(BLOCK_SIZE) != old_end.div_ceil(BLOCK_SIZE) {
            return;
        }
        frame[FRAME_HEADER_SIZE..new_end].copy_from_slice(&area);
        header.records_end = u32::try_from(new_end).expect("short");
        if let Some([which, width, ..]) = damage.get(11..) {
            let number = u64::MAX >> (width % 64);
            match which % 4 {
                0 => header.epoch = number,
                1 => header.settled = number,
                2 => header.last = Number::from_u64(number),
                _ => {}
            }
        }
        header.seal(frame);
        let disk = disk.snapshot();
        disk.write_file(name, &file).expect("plants");
        use_store(disk);
    });
}

#[test]
fn a_store_with_any_table_is_opened_or_refused() {
    let sound = sound();
    let disk = AssertUnwindSafe(sound.disk());
    let tables: Vec<(TableId, &Vec<u8>)> = sound
        .files
        .iter()
        .filter_map(|(name, bytes)| Some((TableId::from_file_name(name)?, bytes)))
        .collect();
    bolero::check!().for_each(|bytes: &[u8]| {
        let Some((which, damage)) = bytes.split_first_chunk() else { return };
        let [table, block] = *which;
        let (table, bytes) = tables[usize::from(table) % tables.len()];
        // The footer has no length and another checksum.
        let block = usize::from(block) % (bytes.len() / BLOCK_SIZE - 1);
        let mut bytes = bytes.clone();
        let place = part::Place { table, block: block as u64 };
        let Ok(content) = part::open(&bytes[block * BLOCK_SIZE..], place) else { return };
        let mut content = content.to_vec();
        spoil(&mut content, damage);
        let mut sealed = Vec::new();
        part::begin(&mut sealed);
        sealed.extend_from_slice(&content);
        part::seal(&mut sealed, place);
        bytes[block * BLOCK_SIZE..][..sealed.len()].copy_from_slice(&sealed);
        let disk = disk.snapshot();
        disk.write_file(&table.file_name(), &bytes).expect("plants");
        use_store(disk);
    });
}
