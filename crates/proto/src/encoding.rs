//! The bytes of everything that nodes and clients say to one another, and of what a node keeps: messages, answers, entries of logs,
//! states, and the cluster manager's commands and snapshots.
//!
//! A layout is a list of fields in the order in which they are written ([`layout!`](crate::layout)). Numbers are varints
//! ([`tyr_wire::varint`]), enums begin with a byte that says which variant follows, collections with their length; there are no field
//! names, and nothing is aligned. Layouts of types with private parts are declared beside these types, all others in the tables
//! below this module. `docs/wire-protocol.md` has the whole in prose.
//!
//! Invariants:
//!
//! - Decoding never panics, and never reserves more memory than a fixed multiple of the bytes that are left justifies. No type holds
//!   itself, so nesting is bounded by the types.
//! - What decodes keeps the invariants of its type, so that nothing that handles it has to check them again.
//! - What decodes encodes to the same bytes.
//! - Payload that several parts of a value share is written once ([`Encoder::payload`]), and copied once when it is read.
//!
//! What the bytes do not say: which type they are, and that they are undamaged. Frames and the journal say that.

mod cluster;
mod collections;
mod entry;
mod message;
mod names;
mod payload;
#[cfg(test)]
mod tests;
mod types;

use alloc::vec::Vec;

pub use tyr_wire::Malformed;

pub use payload::{Decoder, Encoder, Hold};

use tyr_wire::connection::Inset;

use crate::{Payload, payload::Lost};

/// What has bytes.
pub trait Encode {
    /// Appends them.
    fn encode(&self, out: &mut Encoder);

    /// Appends those of several in a row. Only bytes have a shorter way to do it.
    fn encode_all(values: &[Self], out: &mut Encoder)
    where
        Self: Sized,
    {
        values.iter().for_each(|value| value.encode(out));
    }
}

/// What can be read back from its bytes.
pub trait Decode: Sized {
    /// Reads one.
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed>;

    /// Reads several in a row. Only bytes have a shorter way to do it.
    fn decode_all(count: usize, input: &mut Decoder<'_>) -> Result<Vec<Self>, Malformed> {
        (0..count).map(|_| Self::decode(input)).collect()
    }
}

/// Most values without payload have no more bytes: these are written into memory that need not grow.
const SMALL_SIZE: usize = 128;

/// The bytes of a value. None if payload of it cannot be read, which no reader takes for a value.
pub fn to_bytes<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Encoder::new(Vec::with_capacity(SMALL_SIZE));
    value.encode(&mut out);
    out.finish()
}

/// The bytes of a value without its payload of a size and more, and that payload.
pub fn to_bytes_keeping<T: Encode + ?Sized>(value: &T, keep_min: usize) -> (Vec<u8>, Vec<Payload>) {
    let mut out = Encoder::keeping(Vec::with_capacity(SMALL_SIZE), keep_min);
    value.encode(&mut out);
    out.finish_keeping()
}

/// Appends the bytes of a value to others. None if payload of it cannot be read, which no reader takes for a value.
pub fn append_to<T: Encode + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    let mut out = Encoder::new(core::mem::take(bytes));
    value.encode(&mut out);
    *bytes = out.finish();
}

/// The same, but for payload that is large, and in memory: that is returned, to be put in between, and not copied.
pub fn append_with_insets<T: Encode + ?Sized>(bytes: &mut Vec<u8>, value: &T) -> Vec<Inset> {
    let mut out = Encoder::with_insets(core::mem::take(bytes));
    value.encode(&mut out);
    let insets;
    (*bytes, insets) = out.finish_with_insets();
    insets
}

/// The value that has exactly these bytes.
pub fn from_bytes<T: Decode>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut input = Decoder::new(bytes);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}

/// The same, with payload copied to where it is wanted.
pub fn from_bytes_holding<T: Decode>(bytes: &[u8], hold: Hold) -> Result<T, Malformed> {
    let mut input = Decoder::holding(bytes, hold);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}

/// The same of bytes of somebody who is not trusted: values that take much more memory than their bytes are refused.
pub fn from_bytes_of_stranger<T: Decode>(bytes: &[u8], hold: Hold) -> Result<T, Malformed> {
    let mut input = Decoder::of_stranger(bytes, hold);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}

/// The value that has exactly these bytes and this payload.
pub fn from_bytes_keeping<T: Decode>(bytes: &[u8], kept: Vec<Payload>) -> Result<T, Malformed> {
    let mut input = Decoder::keeping(bytes, kept);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}

/// A value as it would come over a network, with payload of its own in the same memory; none if payload cannot be read.
pub fn detached<T: Encode + Decode>(value: &T) -> Option<T> {
    let (bytes, kept) = to_bytes_keeping(value, 1);
    let kept = kept.iter().map(Payload::copy).collect::<Result<_, Lost>>();
    from_bytes_keeping(&bytes, kept.ok()?).ok()
}

/// Fails with what is wrong unless the condition holds.
pub fn ensure(condition: bool, wrong: &'static str) -> Result<(), Malformed> {
    if condition { Ok(()) } else { Err(Malformed(wrong)) }
}

/// Declares the bytes of a type: the fields in their order, and for each variant of an enum the byte that it begins with.
///
/// ```
/// # use tyr_proto::{encoding::{ensure, from_bytes, to_bytes}, layout};
/// # use tyr_wire::Malformed;
/// #[derive(Debug, PartialEq)]
/// struct Span { start: u64, end: u64 }
/// layout!(struct Span { start, end } check |span: &Span| ensure(span.start <= span.end, "a span ends before it starts"));
///
/// #[derive(Debug, PartialEq)]
/// enum Shape { Nothing, One(Span), Two { left: Span, right: Span } }
/// layout!(enum Shape { 0 => Nothing, 1 => One(span), 2 => Two { left, right } });
///
/// let shape = Shape::One(Span { start: 3, end: 300 });
/// assert_eq!(to_bytes(&shape), [1, 3, 0xac, 0x02]);
/// assert_eq!(from_bytes(&[1, 3, 0xac, 0x02]), Ok(shape));
/// assert_eq!(from_bytes::<Shape>(&[1, 3, 2]), Err(Malformed("a span ends before it starts")));
/// ```
///
/// A field `name as codec` is written by `codec::encode(&name, out)` and read by `codec::decode(input)` instead of the traits. A tag,
/// once given out, never means anything else; fields are added at the end, and every change of a layout raises the version of the protocol.
#[macro_export]
macro_rules! layout {
    (struct $type:ident $(($($item:ident),+))? $({ $($field:ident $(as $codec:ident)?),+ $(,)? })? $(check $check:expr)?) => {
        impl $crate::encoding::Encode for $type {
            fn encode(&self, out: &mut $crate::encoding::Encoder) {
                let $type $(($($item),+))? $({ $($field),+ })? = self;
                $($( $crate::layout!(@encode $item out); )+)?
                $($( $crate::layout!(@encode $field out $($codec)?); )+)?
            }
        }

        impl $crate::encoding::Decode for $type {
            fn decode(
                input: &mut $crate::encoding::Decoder<'_>,
            ) -> ::core::result::Result<Self, $crate::encoding::Malformed> {
                $($( let $item = $crate::layout!(@decode input); )+)?
                $($( let $field = $crate::layout!(@decode input $($codec)?); )+)?
                let value = $type $(($($item),+))? $({ $($field),+ })?;
                $( ($check)(&value)?; )?
                Ok(value)
            }
        }
    };

    (
        enum $type:ident {
            $($tag:literal => $variant:ident $(($($item:ident),+))? $({ $($field:ident),+ $(,)? })?),+ $(,)?
        } $(check $check:expr)?
    ) => {
        impl $crate::encoding::Encode for $type {
            fn encode(&self, out: &mut $crate::encoding::Encoder) {
                match self {
                    $($type::$variant $(($($item),+))? $({ $($field),+ })? => {
                        out.byte($tag);
                        $($( $crate::layout!(@encode $item out); )+)?
                        $($( $crate::layout!(@encode $field out); )+)?
                    })+
                }
            }
        }

        impl $crate::encoding::Decode for $type {
            fn decode(
                input: &mut $crate::encoding::Decoder<'_>,
            ) -> ::core::result::Result<Self, $crate::encoding::Malformed> {
                let value = match input.byte()? {
                    $($tag => {
                        $($( let $item = $crate::layout!(@decode input); )+)?
                        $($( let $field = $crate::layout!(@decode input); )+)?
                        $type::$variant $(($($item),+))? $({ $($field),+ })?
                    })+
                    _ => {
                        let wrong = concat!("there is no such kind of ", stringify!($type));
                        return Err($crate::encoding::Malformed(wrong));
                    }
                };
                $( ($check)(&value)?; )?
                Ok(value)
            }
        }
    };

    (@encode $value:ident $out:ident) => { $crate::encoding::Encode::encode($value, $out) };
    (@encode $value:ident $out:ident $codec:ident) => { $codec::encode($value, $out) };
    (@decode $input:ident) => { $crate::encoding::Decode::decode($input)? };
    (@decode $input:ident $codec:ident) => { $codec::decode($input)? };
}
