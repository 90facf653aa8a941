//! The layouts of numbers, text, and collections.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::ops::Range;

use tyr_wire::shared::SharedBytes;

use super::{Decode, Decoder, Encode, Encoder, Malformed, ensure};
use crate::Payload;

macro_rules! varints {
    ($($type:ident)+) => { $(
        impl Encode for $type {
            fn encode(&self, out: &mut Encoder) {
                out.varint(u64::try_from(*self).expect("no number here has more than 64 bits"));
            }
        }

        impl Decode for $type {
            fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
                let wrong = concat!("a number does not fit a ", stringify!($type));
                $type::try_from(input.varint()?).map_err(|_| Malformed(wrong))
            }
        }
    )+ };
}

varints!(u16 u32 u64 usize);

impl Encode for u8 {
    fn encode(&self, out: &mut Encoder) {
        out.byte(*self);
    }

    fn encode_all(values: &[Self], out: &mut Encoder) {
        out.bytes(values);
    }
}

impl Decode for u8 {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        input.byte()
    }

    fn decode_all(count: usize, input: &mut Decoder<'_>) -> Result<Vec<Self>, Malformed> {
        Ok(input.bytes(count)?.to_vec())
    }
}

/// As a vector of them.
impl Encode for SharedBytes {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.len() as u64);
        out.shared_bytes(self, 0..self.len());
    }
}

impl Decode for SharedBytes {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Vec::<u8>::decode(input).map(SharedBytes::from)
    }
}

/// Sixteen bytes, the lowest first: these numbers are drawn at random.
impl Encode for u128 {
    fn encode(&self, out: &mut Encoder) {
        out.bytes(&self.to_le_bytes());
    }
}

impl Decode for u128 {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        input.array().map(u128::from_le_bytes)
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Encoder) {
        out.byte(u8::from(*self));
    }
}

impl Decode for bool {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a yes or no is neither")),
        }
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, out: &mut Encoder) {
        out.bytes(self);
    }
}

impl<const N: usize> Decode for [u8; N] {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        input.array()
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Encoder) {
        out.byte(u8::from(self.is_some()));
        self.iter().for_each(|value| value.encode(out));
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if bool::decode(input)? { T::decode(input).map(Some) } else { Ok(None) }
    }
}

impl<T: Encode, E: Encode> Encode for Result<T, E> {
    fn encode(&self, out: &mut Encoder) {
        out.byte(u8::from(self.is_err()));
        match self {
            Ok(value) => value.encode(out),
            Err(error) => error.encode(out),
        }
    }
}

impl<T: Decode, E: Decode> Decode for Result<T, E> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if bool::decode(input)? { E::decode(input).map(Err) } else { T::decode(input).map(Ok) }
    }
}

impl<T: Encode> Encode for Arc<T> {
    fn encode(&self, out: &mut Encoder) {
        T::encode(self, out);
    }
}

impl<T: Decode> Decode for Arc<T> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        T::decode(input).map(Arc::new)
    }
}

impl Encode for Payload {
    fn encode(&self, out: &mut Encoder) {
        out.payload(self);
    }
}

impl Decode for Payload {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        input.payload()
    }
}

/// Bytes that a value may hold in several places, like payload.
impl Encode for Arc<[u8]> {
    fn encode(&self, out: &mut Encoder) {
        out.shared(self);
    }
}

impl Decode for Arc<[u8]> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        input.shared()
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.len() as u64);
        out.bytes(self.as_bytes());
    }
}

impl Encode for String {
    fn encode(&self, out: &mut Encoder) {
        self.as_str().encode(out);
    }
}

impl Decode for String {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let count = input.count()?;
        let text = core::str::from_utf8(input.bytes(count)?);
        text.map(String::from).map_err(|_| Malformed("a text is not UTF-8"))
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.len() as u64);
        T::encode_all(self, out);
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let count = input.count()?;
        input.take_room::<T>(count)?;
        T::decode_all(count, input)
    }
}

impl<T: Encode> Encode for VecDeque<T> {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.len() as u64);
        self.iter().for_each(|value| value.encode(out));
    }
}

impl<T: Decode> Decode for VecDeque<T> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Vec::decode(input).map(VecDeque::from)
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.len() as u64);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }
}

/// In the order of the keys, each once.
impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut map = BTreeMap::new();
        let count = input.count()?;
        input.take_room::<(K, V)>(count)?;
        for _ in 0..count {
            let key = K::decode(input)?;
            ensure(map.last_key_value().is_none_or(|(last, _)| *last < key), NOT_IN_ORDER)?;
            map.insert(key, V::decode(input)?);
        }
        Ok(map)
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.len() as u64);
        self.iter().for_each(|value| value.encode(out));
    }
}

/// In order, each once.
impl<T: Decode + Ord> Decode for BTreeSet<T> {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut set = BTreeSet::new();
        let count = input.count()?;
        input.take_room::<T>(count)?;
        for _ in 0..count {
            let value = T::decode(input)?;
            ensure(set.last().is_none_or(|last| *last < value), NOT_IN_ORDER)?;
            set.insert(value);
        }
        Ok(set)
    }
}

const NOT_IN_ORDER: &str = "elements are not in order";

macro_rules! ranges {
    ($($type:ident)+) => { $(
        /// The start and the length, so that none ends before it starts.
        impl Encode for Range<$type> {
            fn encode(&self, out: &mut Encoder) {
                self.start.encode(out);
                self.end.saturating_sub(self.start).encode(out);
            }
        }

        impl Decode for Range<$type> {
            fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
                let (start, length) = ($type::decode(input)?, $type::decode(input)?);
                let end = start.checked_add(length).ok_or(Malformed("a range has no end"))?;
                Ok(start..end)
            }
        }
    )+ };
}

ranges!(u64 usize);

macro_rules! tuples {
    ($(($($name:ident)+))+) => { $(
        impl<$($name: Encode),+> Encode for ($($name),+) {
            fn encode(&self, out: &mut Encoder) {
                #[expect(non_snake_case, reason = "a tuple's parts are called as their types")]
                let ($($name),+) = self;
                $($name.encode(out);)+
            }
        }

        impl<$($name: Decode),+> Decode for ($($name),+) {
            fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Ok(($($name::decode(input)?),+))
            }
        }
    )+ };
}

tuples!((A B)(A B C));
