use super::*;

fn apply(op: Op, old: Operand, operand: Operand) -> Operand {
    Transform::new(op, operand).expect("valid").apply(old)
}

#[test]
fn integers_wrap() {
    assert_eq!(apply(Op::Add, Operand::U8(255), Operand::U8(2)), Operand::U8(1));
    assert_eq!(apply(Op::Multiply, Operand::I8(127), Operand::I8(2)), Operand::I8(-2));
    assert_eq!(apply(Op::Add, Operand::I64(i64::MAX), Operand::I64(1)), Operand::I64(i64::MIN));
}

#[test]
fn integer_ops_do_what_they_say() {
    let (old, operand) = (Operand::U16(0b1100), Operand::U16(0b1010));
    let results = [Op::Min, Op::Max, Op::And, Op::Or, Op::Xor, Op::Swap].map(|op| apply(op, old, operand));
    assert_eq!(results, [0b1010, 0b1100, 0b1000, 0b1110, 0b0110, 0b1010].map(Operand::U16));
}

#[test]
fn a_nan_result_is_canonical_whatever_its_cause() {
    let payload = f64::from_bits(0xfff8_0000_dead_beef);
    for (a, b) in [(payload, 1.0), (1.0, payload), (f64::INFINITY, f64::NEG_INFINITY)] {
        let Operand::F64(sum) = apply(Op::Add, Operand::F64(a), Operand::F64(b)) else { panic!("an f64") };
        assert_eq!(sum.to_bits(), 0x7ff8_0000_0000_0000);
    }
}

#[test]
fn float_min_and_max_commute_even_on_zeros_and_nans() {
    let values = [f32::NAN, -f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1.5];
    for a in values {
        for b in values {
            for op in [Op::Min, Op::Max] {
                let one = apply(op, Operand::F32(a), Operand::F32(b)).to_le_bytes();
                let two = apply(op, Operand::F32(b), Operand::F32(a)).to_le_bytes();
                assert_eq!(one, two, "{op:?} {a} {b}");
            }
        }
    }
}

#[test]
fn compare_and_swap_compares_bits() {
    let cas = Transform::compare_and_swap(Operand::F64(0.0), Operand::F64(7.0)).expect("valid");
    assert_eq!(cas.apply(Operand::F64(0.0)), Operand::F64(7.0));
    assert_eq!(cas.apply(Operand::F64(-0.0)).to_le_bytes(), Operand::F64(-0.0).to_le_bytes());
    let nan = Transform::compare_and_swap(Operand::F64(f64::NAN), Operand::F64(1.0)).expect("valid");
    assert_eq!(nan.apply(Operand::F64(f64::NAN)), Operand::F64(1.0));
    let int = Transform::compare_and_swap(Operand::I32(-1), Operand::I32(5)).expect("valid");
    assert_eq!([int.apply(Operand::I32(-1)), int.apply(Operand::I32(2))], [Operand::I32(5), Operand::I32(2)]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert!(Transform::new(Op::Xor, Operand::F32(1.0)).is_err());
    assert!(Transform::new(Op::CompareAndSwap, Operand::U8(1)).is_err());
    assert!(Transform::compare_and_swap(Operand::U8(1), Operand::U16(1)).is_err());
    assert!(Operand::from_le_bytes(NumberType::U32, &[1, 2, 3]).is_err());
}

#[test]
fn bytes_round_trip() {
    for number_type in NumberType::ALL {
        let bytes = [0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0x18];
        let number = Operand::from_le_bytes(number_type, &bytes[..number_type.size()]).expect("right size");
        assert_eq!(number.number_type(), number_type);
        assert_eq!(number.to_le_bytes()[..number_type.size()], bytes[..number_type.size()]);
    }
}
