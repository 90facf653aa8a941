//! Transforms as people write them: `add u64 0 5`, `compare-and-swap i32 8 -1 7`.

use std::str::FromStr;

use serde_json::{Number, Value};
use tyr_types::{NumberType, Op, Operand, Transform};

const OPS: [(&str, Op); 11] = [
    ("add", Op::Add),
    ("multiply", Op::Multiply),
    ("min", Op::Min),
    ("max", Op::Max),
    ("and", Op::And),
    ("or", Op::Or),
    ("xor", Op::Xor),
    ("swap", Op::Swap),
    ("compare-and-swap", Op::CompareAndSwap),
    ("mul", Op::Multiply),
    ("cas", Op::CompareAndSwap),
];

/// Parses the name of an op.
pub fn parse_op(text: &str) -> Result<Op, String> {
    let found = OPS.iter().find(|(name, _)| *name == text).map(|(_, op)| *op);
    found.ok_or_else(|| {
        format!("'{}' is no transform; use one of {}", text.escape_debug(), op_names().join(", "))
    })
}

/// The names of all ops, without their short forms.
pub fn op_names() -> Vec<&'static str> {
    OPS[..9].iter().map(|(name, _)| *name).collect()
}

/// The full name of the op.
pub fn op_name(op: Op) -> &'static str {
    OPS.iter().find(|(_, other)| *other == op).map_or("", |(name, _)| name)
}

/// Parses the name of a number type.
pub fn parse_number_type(text: &str) -> Result<NumberType, String> {
    let found = NumberType::ALL.into_iter().find(|number_type| number_type.name() == text);
    found.ok_or_else(|| {
        let names = NumberType::ALL.map(NumberType::name).join(", ");
        format!("'{}' is no number type; use one of {names}", text.escape_debug())
    })
}

/// Parses a number of the type: decimal, or hexadecimal with `0x` for integers.
pub fn parse_operand(number_type: NumberType, text: &str) -> Result<Operand, String> {
    macro_rules! integer {
        ($variant:ident, $type:ty) => {
            match text.strip_prefix("0x") {
                Some(digits) => <$type>::from_str_radix(digits, 16).map(Operand::$variant).ok(),
                None => <$type>::from_str(text).map(Operand::$variant).ok(),
            }
        };
    }
    // What is too large for its type is read as infinity, too, which nobody has written.
    let is_meant = |is_infinite: bool| !is_infinite || !text.contains(|c: char| c.is_ascii_digit());
    let operand = match number_type {
        NumberType::U8 => integer!(U8, u8),
        NumberType::U16 => integer!(U16, u16),
        NumberType::U32 => integer!(U32, u32),
        NumberType::U64 => integer!(U64, u64),
        NumberType::I8 => integer!(I8, i8),
        NumberType::I16 => integer!(I16, i16),
        NumberType::I32 => integer!(I32, i32),
        NumberType::I64 => integer!(I64, i64),
        NumberType::F32 => text.parse().ok().filter(|x: &f32| is_meant(x.is_infinite())).map(Operand::F32),
        NumberType::F64 => text.parse().ok().filter(|x: &f64| is_meant(x.is_infinite())).map(Operand::F64),
    };
    operand.ok_or_else(|| format!("'{}' is no {}", text.escape_debug(), number_type.name()))
}

/// Makes the transform of an op and its operands: two for compare-and-swap (expected, new), else one.
pub fn transform(op: Op, operands: &[Operand]) -> Result<Transform, String> {
    let made = match (op, operands) {
        (Op::CompareAndSwap, [expected, new]) => Transform::compare_and_swap(*expected, *new),
        (Op::CompareAndSwap, _) => {
            return Err("compare-and-swap takes the expected and the new value".to_owned());
        }
        (_, [operand]) => Transform::new(op, *operand),
        _ => return Err(format!("{} takes one operand", op_name(op))),
    };
    made.map_err(|error| error.to_string())
}

/// The number in decimal.
pub fn show_operand(operand: Operand) -> String {
    match operand {
        Operand::U8(x) => x.to_string(),
        Operand::U16(x) => x.to_string(),
        Operand::U32(x) => x.to_string(),
        Operand::U64(x) => x.to_string(),
        Operand::I8(x) => x.to_string(),
        Operand::I16(x) => x.to_string(),
        Operand::I32(x) => x.to_string(),
        Operand::I64(x) => x.to_string(),
        Operand::F32(x) => x.to_string(),
        Operand::F64(x) => x.to_string(),
    }
}

/// The number as JSON: a number with all its digits, or text (`"NaN"`, `"inf"`) where JSON has none.
pub fn operand_json(operand: Operand) -> Value {
    let text = show_operand(operand);
    let number = match operand {
        // By way of its text, an f32 has as few digits as it needs.
        Operand::F32(_) | Operand::F64(_) => text.parse().ok().and_then(Number::from_f64),
        _ => Number::from_str(&text).ok(),
    };
    number.map_or(Value::String(text), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_their_type() {
        let parse = |number_type, text: &str| parse_operand(number_type, text);
        assert_eq!(parse(NumberType::I8, "-128"), Ok(Operand::I8(-128)));
        assert_eq!(parse(NumberType::U64, "0xff"), Ok(Operand::U64(255)));
        assert_eq!(parse(NumberType::F64, "-1.5e3"), Ok(Operand::F64(-1500.0)));
        assert!(parse(NumberType::U8, "256").is_err() && parse(NumberType::U8, "-1").is_err());
        assert!(parse(NumberType::I32, "1.5").is_err());
        assert!(parse(NumberType::F32, "1e39").is_err() && parse(NumberType::F64, "-1e309").is_err());
        assert_eq!(parse(NumberType::F32, "-Infinity"), Ok(Operand::F32(f32::NEG_INFINITY)));
        assert_eq!(parse(NumberType::F64, "inf"), Ok(Operand::F64(f64::INFINITY)));
    }

    #[test]
    fn only_compare_and_swap_takes_two_operands() {
        let one = Operand::U8(1);
        assert!(transform(Op::Add, &[one]).is_ok() && transform(Op::CompareAndSwap, &[one, one]).is_ok());
        assert!(transform(Op::Add, &[one, one]).is_err() && transform(Op::CompareAndSwap, &[one]).is_err());
        assert!(transform(Op::And, &[Operand::F32(1.0)]).is_err());
    }

    #[test]
    fn every_op_has_a_full_name_and_is_found_by_it() {
        for name in op_names() {
            assert_eq!(parse_op(name).map(op_name), Ok(name));
        }
    }

    #[test]
    fn json_keeps_every_digit_of_an_integer() {
        assert_eq!(operand_json(Operand::U64(u64::MAX)).to_string(), "18446744073709551615");
        assert_eq!(operand_json(Operand::F64(f64::NAN)).to_string(), "\"NaN\"");
        assert_eq!(operand_json(Operand::F32(0.1)).to_string(), "0.1");
        assert_eq!(operand_json(Operand::F64(-3.0)).to_string(), "-3.0");
    }
}
