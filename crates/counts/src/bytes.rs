//! Frames with messages in them, and checksums.

use std::{hint::black_box, sync::Arc};

use tyr_proto::{
    BlobName, ClassId, HeadPlan, Operation, PartitionId, Payload, Plan, RingVersion, SessionId,
    TransactionId,
    encoding::{Decode, Encode, append_to, from_bytes},
    message::{Answer, Envelope, Looked, Message, RequestId},
};
use tyr_types::{Key, KeyspaceId, Number};
use tyr_wire::{
    checksum::crc32c,
    connection::{BODY_SIZE_MAX, Channel, Frame, Header},
};

use crate::collected::counted;

const TIMES: usize = 16;

/// Counts these paths.
pub fn count() {
    let (write, got) = (write(), got());
    counted("encode a write of 4 KiB", 0..TIMES, |_| framed(black_box(&write)));
    let frame = framed(&write);
    counted("decode a write of 4 KiB", 0..TIMES, |_| unframed::<Envelope>(black_box(&frame)));
    counted("encode a get's answer of 4 KiB", 0..TIMES, |_| framed(black_box(&got)));
    let frame = framed(&got);
    counted("decode a get's answer of 4 KiB", 0..TIMES, |_| unframed::<Answer>(black_box(&frame)));
    let bytes = vec![7; 64 << 10];
    counted("checksum of 64 KiB", 0..TIMES, |_| crc32c(black_box(&bytes)));
}

/// A value as it is sent.
pub fn framed(value: &impl Encode) -> Frame {
    let channel = Channel::new(1).expect("one of eight");
    Frame::message(channel, |out| append_to(out, value)).expect("is small")
}

/// A value as it comes.
pub fn unframed<T: Decode>(frame: &Frame) -> T {
    let bytes = frame.bytes();
    let (_, body) = Header::parse(&bytes, BODY_SIZE_MAX).expect("is undamaged").expect("is whole");
    from_bytes(body).expect("was encoded")
}

fn write() -> Envelope {
    let id = TransactionId { session: SessionId(12_345), sequence: 1_000, birth: RingVersion(77) };
    let partition = PartitionId { class: ClassId(0), index: 321 };
    let operation = Operation::Write { offset: 0, bytes: Payload::from(vec![7; 4096]) };
    let head = HeadPlan::blind(partition, name(), vec![operation]);
    let plan = Plan { id, answered: 1_000, reserve: None, heads: vec![head] };
    Envelope { partition, message: Message::Start(Arc::new(plan)) }
}

fn got() -> Answer {
    let blob = Looked {
        creation: Number::new(3, 1_000),
        size: 4096,
        attributes: [].into(),
        written: [(0, Number::new(3, 2_000))].into(),
    };
    Answer::Got {
        request: RequestId { session: SessionId(12_345), number: 1_000 },
        number: Number::new(3, 2_000),
        blob: Some(blob),
        bytes: Some(vec![7; 4096].into()),
    }
}

fn name() -> BlobName {
    BlobName { keyspace: KeyspaceId(1), key: Key::new("users/0000000042/profile").expect("a short key") }
}
