//! The layouts of the nouns that the embedded store has, too.

use alloc::string::String;

use tyr_types::{
    Durability, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Number, NumberType, Op, Operand, Seek,
    Transform,
};

use super::{Decode, Decoder, Encode, Encoder, Malformed, ensure};
use crate::layout;

layout!(struct KeyspaceId(number));

layout!(enum Durability { 0 => Memory, 1 => Disk });

layout!(enum Seek { 0 => Data, 1 => Hole });

layout!(struct KeyspaceSettings { durability, chunk_size, multi_version, quota } check |settings: &KeyspaceSettings| {
    settings.check().map_err(|_| Malformed("a keyspace's settings are out of bounds"))
});

layout!(enum Op {
    0 => Add, 1 => Multiply, 2 => Min, 3 => Max, 4 => And, 5 => Or, 6 => Xor, 7 => Swap, 8 => CompareAndSwap,
});

layout!(enum NumberType {
    0 => U8, 1 => U16, 2 => U32, 3 => U64, 4 => I8, 5 => I16, 6 => I32, 7 => I64, 8 => F32, 9 => F64,
});

/// The length, then the bytes.
impl Encode for Key {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.as_bytes().len() as u64);
        out.bytes(self.as_bytes());
    }
}

impl Decode for Key {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let count = input.count()?;
        Key::new(input.bytes(count)?).map_err(|_| Malformed("a key's length is out of bounds"))
    }
}

impl Encode for KeyspaceName {
    fn encode(&self, out: &mut Encoder) {
        self.as_str().encode(out);
    }
}

impl Decode for KeyspaceName {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        KeyspaceName::new(&String::decode(input)?).map_err(|_| Malformed("a keyspace's name is not allowed"))
    }
}

/// The epoch, then the index: both are small.
impl Encode for Number {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.epoch());
        out.varint(self.index());
    }
}

impl Decode for Number {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (epoch, index) = (u32::decode(input)?, input.varint()?);
        let number = Number::new(epoch.min(Number::EPOCH_MAX), index);
        let is_same = number.epoch() == u64::from(epoch) && number.index() == index;
        ensure(is_same, "a number's epoch or index is out of bounds")?;
        Ok(number)
    }
}

/// The op, the type, the operand in as many little-endian bytes as the type has, and so what a compare-and-swap expects.
impl Encode for Transform {
    fn encode(&self, out: &mut Encoder) {
        self.op().encode(out);
        self.number_type().encode(out);
        for operand in [Some(self.operand()), self.expected()].into_iter().flatten() {
            out.bytes(&operand.to_le_bytes()[..self.number_type().size()]);
        }
    }
}

impl Decode for Transform {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (op, number_type) = (Op::decode(input)?, NumberType::decode(input)?);
        let mut operand = || {
            let bytes = input.bytes(number_type.size())?;
            Operand::from_le_bytes(number_type, bytes).map_err(|_| Malformed("an operand has a wrong size"))
        };
        let transform = match (op, operand()?) {
            (Op::CompareAndSwap, new) => Transform::compare_and_swap(operand()?, new),
            (op, operand) => Transform::new(op, operand),
        };
        transform.map_err(|_| Malformed("a transform is not possible on its type"))
    }
}
