//! Transforms: arithmetic on a number inside a blob, executed where the blob lives.
//!
//! Every replica must compute the same bits, so everything that hardware or compilers may vary is fixed here:
//! integers are little-endian and wrap; floats round to nearest, ties to even (IEEE 754); an arithmetic result that
//! is a NaN is the canonical quiet NaN; `min` and `max` order floats totally (IEEE 754 `totalOrder`:
//! -NaN < -inf < -0 < +0 < inf < NaN), so that they commute.

use alloc::format;

use crate::{Error, Result};

/// The type of the number that a transform works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum NumberType {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    U64 = 3,
    I8 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    F32 = 8,
    F64 = 9,
}

/// What a transform does with the old value and its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// old + operand.
    Add = 0,
    /// old * operand.
    Multiply = 1,
    /// The smaller of the two.
    Min = 2,
    /// The larger of the two.
    Max = 3,
    /// Bitwise and; integers only.
    And = 4,
    /// Bitwise or; integers only.
    Or = 5,
    /// Bitwise exclusive or; integers only.
    Xor = 6,
    /// The operand.
    Swap = 7,
    /// The operand if the old value's bits equal the expected value's, else the old value.
    CompareAndSwap = 8,
}

/// A number of one of the [`NumberType`]s.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operand {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
}

/// A transform of the number at one offset: `op(old, operand)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    op: Op,
    operand: Operand,
    expected: Option<Operand>,
}

impl NumberType {
    /// All types, in the order of their numbers.
    pub const ALL: [NumberType; 10] = [
        NumberType::U8,
        NumberType::U16,
        NumberType::U32,
        NumberType::U64,
        NumberType::I8,
        NumberType::I16,
        NumberType::I32,
        NumberType::I64,
        NumberType::F32,
        NumberType::F64,
    ];

    /// Bytes of a number of this type.
    pub fn size(self) -> usize {
        match self {
            NumberType::U8 | NumberType::I8 => 1,
            NumberType::U16 | NumberType::I16 => 2,
            NumberType::U32 | NumberType::I32 | NumberType::F32 => 4,
            NumberType::U64 | NumberType::I64 | NumberType::F64 => 8,
        }
    }

    /// `u8`, `i64`, `f64`, ...
    pub fn name(self) -> &'static str {
        match self {
            NumberType::U8 => "u8",
            NumberType::U16 => "u16",
            NumberType::U32 => "u32",
            NumberType::U64 => "u64",
            NumberType::I8 => "i8",
            NumberType::I16 => "i16",
            NumberType::I32 => "i32",
            NumberType::I64 => "i64",
            NumberType::F32 => "f32",
            NumberType::F64 => "f64",
        }
    }
}

macro_rules! for_each_type {
    ($macro:ident, $self:expr, $($argument:tt)*) => {
        match $self {
            Operand::U8(x) => $macro!(U8, x, $($argument)*),
            Operand::U16(x) => $macro!(U16, x, $($argument)*),
            Operand::U32(x) => $macro!(U32, x, $($argument)*),
            Operand::U64(x) => $macro!(U64, x, $($argument)*),
            Operand::I8(x) => $macro!(I8, x, $($argument)*),
            Operand::I16(x) => $macro!(I16, x, $($argument)*),
            Operand::I32(x) => $macro!(I32, x, $($argument)*),
            Operand::I64(x) => $macro!(I64, x, $($argument)*),
            Operand::F32(x) => $macro!(F32, x, $($argument)*),
            Operand::F64(x) => $macro!(F64, x, $($argument)*),
        }
    };
}

impl Operand {
    /// The type of this number.
    pub fn number_type(self) -> NumberType {
        macro_rules! number_type {
            ($variant:ident, $x:ident,) => {{
                let _ = $x;
                NumberType::$variant
            }};
        }
        for_each_type!(number_type, self,)
    }

    /// Decodes a little-endian number; `bytes` has exactly the size of the type.
    pub fn from_le_bytes(number_type: NumberType, bytes: &[u8]) -> Result<Self> {
        macro_rules! decode {
            ($variant:ident, $type:ty) => {
                <[u8; size_of::<$type>()]>::try_from(bytes)
                    .ok()
                    .map(|b| Operand::$variant(<$type>::from_le_bytes(b)))
            };
        }
        let number = match number_type {
            NumberType::U8 => decode!(U8, u8),
            NumberType::U16 => decode!(U16, u16),
            NumberType::U32 => decode!(U32, u32),
            NumberType::U64 => decode!(U64, u64),
            NumberType::I8 => decode!(I8, i8),
            NumberType::I16 => decode!(I16, i16),
            NumberType::I32 => decode!(I32, i32),
            NumberType::I64 => decode!(I64, i64),
            NumberType::F32 => decode!(F32, f32),
            NumberType::F64 => decode!(F64, f64),
        };
        number.ok_or_else(|| {
            Error::invalid(format!(
                "a {} has {} bytes, not {}",
                number_type.name(),
                number_type.size(),
                bytes.len()
            ))
        })
    }

    /// The little-endian bytes: the first [`NumberType::size`] of the array.
    pub fn to_le_bytes(self) -> [u8; 8] {
        macro_rules! encode {
            ($variant:ident, $x:ident,) => {{
                let mut bytes = [0; 8];
                let encoded = $x.to_le_bytes();
                bytes[..encoded.len()].copy_from_slice(&encoded);
                bytes
            }};
        }
        for_each_type!(encode, self,)
    }
}

impl Transform {
    /// A transform of every op but compare-and-swap. Fails with [`crate::ErrorKind::Invalid`] for a bitwise op on
    /// a float, and for compare-and-swap.
    pub fn new(op: Op, operand: Operand) -> Result<Self> {
        let float = matches!(operand, Operand::F32(_) | Operand::F64(_));
        match op {
            Op::CompareAndSwap => Err(Error::invalid(
                "compare-and-swap needs an expected value; use Transform::compare_and_swap",
            )),
            Op::And | Op::Or | Op::Xor if float => {
                Err(Error::invalid("and, or, and xor work on integers; use an integer type"))
            }
            _ => Ok(Transform { op, operand, expected: None }),
        }
    }

    /// old + operand.
    pub fn add(operand: Operand) -> Self {
        Transform { op: Op::Add, operand, expected: None }
    }

    /// The smaller of old and operand.
    pub fn min(operand: Operand) -> Self {
        Transform { op: Op::Min, operand, expected: None }
    }

    /// The larger of old and operand.
    pub fn max(operand: Operand) -> Self {
        Transform { op: Op::Max, operand, expected: None }
    }

    /// `new` if the old bits equal those of `expected`. Fails with [`crate::ErrorKind::Invalid`] if the types differ.
    /// A failed comparison is reported by the old value; it does not refuse the transaction.
    pub fn compare_and_swap(expected: Operand, new: Operand) -> Result<Self> {
        if expected.number_type() != new.number_type() {
            return Err(Error::invalid(format!(
                "compare-and-swap expects a {} but writes a {}; use one type",
                expected.number_type().name(),
                new.number_type().name()
            )));
        }
        Ok(Transform { op: Op::CompareAndSwap, operand: new, expected: Some(expected) })
    }

    /// The op.
    pub fn op(&self) -> Op {
        self.op
    }

    /// The operand.
    pub fn operand(&self) -> Operand {
        self.operand
    }

    /// What a compare-and-swap expects; nothing for any other op.
    pub fn expected(&self) -> Option<Operand> {
        self.expected
    }

    /// The type of the number that it works on.
    pub fn number_type(&self) -> NumberType {
        self.operand.number_type()
    }

    /// The new value for an old one, which must be of the transform's type.
    pub fn apply(&self, old: Operand) -> Operand {
        macro_rules! integer {
            ($variant:ident, $a:ident, $b:ident) => {
                Operand::$variant(match self.op {
                    Op::Add => $a.wrapping_add($b),
                    Op::Multiply => $a.wrapping_mul($b),
                    Op::Min => $a.min($b),
                    Op::Max => $a.max($b),
                    Op::And => $a & $b,
                    Op::Or => $a | $b,
                    Op::Xor => $a ^ $b,
                    Op::Swap => $b,
                    Op::CompareAndSwap => {
                        if self.expected == Some(Operand::$variant($a)) {
                            $b
                        } else {
                            $a
                        }
                    }
                })
            };
        }
        macro_rules! float {
            ($variant:ident, $a:ident, $b:ident) => {
                Operand::$variant(match self.op {
                    Op::Add => canonical!($a + $b),
                    Op::Multiply => canonical!($a * $b),
                    Op::Min => {
                        if $b.total_cmp(&$a).is_lt() {
                            $b
                        } else {
                            $a
                        }
                    }
                    Op::Max => {
                        if $b.total_cmp(&$a).is_gt() {
                            $b
                        } else {
                            $a
                        }
                    }
                    Op::And | Op::Or | Op::Xor => $a,
                    Op::Swap => $b,
                    Op::CompareAndSwap => match self.expected {
                        Some(Operand::$variant(expected)) if expected.to_bits() == $a.to_bits() => $b,
                        _ => $a,
                    },
                })
            };
        }
        macro_rules! canonical {
            ($value:expr) => {{
                let value = $value;
                if value.is_nan() { CANONICAL_NAN.into() } else { value }
            }};
        }
        match (old, self.operand) {
            (Operand::U8(a), Operand::U8(b)) => integer!(U8, a, b),
            (Operand::U16(a), Operand::U16(b)) => integer!(U16, a, b),
            (Operand::U32(a), Operand::U32(b)) => integer!(U32, a, b),
            (Operand::U64(a), Operand::U64(b)) => integer!(U64, a, b),
            (Operand::I8(a), Operand::I8(b)) => integer!(I8, a, b),
            (Operand::I16(a), Operand::I16(b)) => integer!(I16, a, b),
            (Operand::I32(a), Operand::I32(b)) => integer!(I32, a, b),
            (Operand::I64(a), Operand::I64(b)) => integer!(I64, a, b),
            (Operand::F32(a), Operand::F32(b)) => float!(F32, a, b),
            (Operand::F64(a), Operand::F64(b)) => float!(F64, a, b),
            (old, _) => {
                debug_assert!(false, "the old value is of the transform's type");
                old
            }
        }
    }
}

/// Widens exactly to the canonical `f64` NaN.
const CANONICAL_NAN: f32 = f32::from_bits(0x7fc0_0000);

#[cfg(test)]
mod tests;
