//! No bytes make the decoders of frames and segment headers panic; what they accept has no other encoding.

mod limit;

use tyr_types::{KeyspaceId, Number};
use tyr_wire::{
    extent::SegmentId,
    frame::{
        FORMAT_VERSION, FRAME_HEADER_SIZE, FrameHeader, RECORD_HEADER_SIZE, SEGMENT_HEADER_SIZE,
        SegmentHeader, SegmentKind, records,
    },
};

fn word(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    let rest = bytes.get(index * 8..).unwrap_or_default();
    let len = rest.len().min(8);
    word[..len].copy_from_slice(&rest[..len]);
    u64::from_le_bytes(word)
}

/// Cuts the frame into records, whatever it holds; they follow one another and fill it.
fn use_frame(header: &FrameHeader, frame: &[u8]) {
    let mut end = FRAME_HEADER_SIZE;
    let mut is_whole = true;
    for record in records(header, frame) {
        assert!(is_whole, "nothing follows a broken record");
        let Ok(record) = record else {
            is_whole = false;
            continue;
        };
        assert_eq!(record.inline_start, end + RECORD_HEADER_SIZE);
        end = record.inline_start + record.inline.len() + record.body.len();
        assert!(end <= frame.len());
    }
    if is_whole && frame.len() >= header.records_end as usize {
        assert_eq!(end, header.records_end as usize);
    }
}

#[test]
fn frames_survive_any_bytes() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = FrameHeader::peek(bytes);
        let magic = [b"TyrF", bytes].concat();
        if let Some(header) = FrameHeader::peek(&magic) {
            header.verify(&magic);
            use_frame(&header, &magic);
        }
    });
}

#[test]
fn sealed_frames_come_back_and_hold_any_bytes() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        let records_end = FRAME_HEADER_SIZE + bytes.len();
        let mut frame = [&[0; FRAME_HEADER_SIZE], bytes].concat();
        frame.resize(records_end.next_multiple_of(4096), 0);
        let header = FrameHeader {
            segment: SegmentId(word(bytes, 0)),
            sequence: word(bytes, 1),
            settled: word(bytes, 2),
            epoch: word(bytes, 3),
            last: Number::from_u64(word(bytes, 4)),
            records_end: u32::try_from(records_end).expect("short"),
            frame_end: u32::try_from(frame.len()).expect("short"),
            mark: word(bytes, 5),
        };
        header.seal(&mut frame);
        assert_eq!(FrameHeader::peek(&frame).as_ref(), Some(&header));
        assert!(header.verify(&frame));
        use_frame(&header, &frame);
        // A header that says more than there is.
        use_frame(&FrameHeader { records_end: u32::MAX, ..header.clone() }, &frame);
        assert!(!FrameHeader { records_end: u32::MAX, ..header }.verify(&frame));
    });
}

#[test]
fn segment_headers_survive_any_bytes() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = SegmentHeader::decode(bytes);
        let header = SegmentHeader {
            store: [bytes.first().copied().unwrap_or_default(); 16],
            segment: SegmentId(word(bytes, 0)),
            kind: match word(bytes, 1) % 2 {
                0 => SegmentKind::Log,
                _ => SegmentKind::Bulk(KeyspaceId(u32::from(bytes[0]))),
            },
            first_sequence: word(bytes, 2),
            mark: word(bytes, 3),
        };
        let mut block = header.encode();
        assert_eq!(SegmentHeader::decode(&block), Some(header.clone()));
        // With a checksum that matches, so that the fields themselves are looked at.
        for (target, byte) in block[12..68].iter_mut().zip(bytes) {
            *target ^= byte;
        }
        let checksum = tyr_wire::checksum::crc32c(&block[12..]);
        block[8..12].copy_from_slice(&checksum.to_le_bytes());
        if let Some(decoded) = SegmentHeader::decode(&block) {
            // An earlier version is read, too.
            block[12..16].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
            block[64..].fill(0);
            let again = decoded.encode();
            assert_eq!(again[12..], block[12..]);
        }
        block.truncate(SEGMENT_HEADER_SIZE - 1);
        assert_eq!(SegmentHeader::decode(&block), None);
    });
}
