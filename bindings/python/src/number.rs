//! Numbers inside of blobs: what transforms do to them; and conditions that a commit checks.

use pyo3::{exceptions::PyOverflowError, prelude::*, types::PyType};
use tyr_client::{Error, Number, NumberType, Op, Operand};

use crate::{
    arguments::{Given, Offset},
    errors::{invalid, raise},
};

/// Arithmetic on a number inside a blob, executed where the blob lives, so that it never conflicts.
///
/// The type is one of `u8`, `u16`, `u32`, `u64`, `i8`, `i16`, `i32`, `i64`, `f32`, `f64`. Integers wrap and are little-endian.
///
/// >>> import tyr
/// >>> counters.transform("visits", 0, tyr.Transform.add(5, "u64"))
/// 0
/// >>> counters.transform("visits", 0, tyr.Transform.compare_and_swap(5, 7, "u64"))
/// 5
/// >>> int.from_bytes(counters.read("visits"), "little")
/// 7
#[pyclass(frozen, module = "tyr")]
pub struct Transform(pub tyr_client::Transform);

fn number_type(py: Python<'_>, name: &str) -> PyResult<NumberType> {
    let found = NumberType::ALL.into_iter().find(|number_type| number_type.name() == name);
    found.ok_or_else(|| {
        invalid(
            py,
            format!(
                "'{}' is no type of numbers; use u8, u16, u32, u64, i8, i16, i32, i64, f32, or f64",
                name.escape_debug()
            ),
        )
    })
}

/// A number in half as many bytes, rounded. One that is finite does not become infinity.
fn single(number: f64) -> Option<f32> {
    #[allow(clippy::cast_possible_truncation, reason = "it is to be rounded")]
    let rounded = number as f32;
    (rounded.is_finite() || !number.is_finite()).then_some(rounded)
}

fn operand(value: &Bound<'_, PyAny>, number_type: NumberType) -> PyResult<Operand> {
    let operand = match number_type {
        NumberType::U8 => value.extract().map(Operand::U8),
        NumberType::U16 => value.extract().map(Operand::U16),
        NumberType::U32 => value.extract().map(Operand::U32),
        NumberType::U64 => value.extract().map(Operand::U64),
        NumberType::I8 => value.extract().map(Operand::I8),
        NumberType::I16 => value.extract().map(Operand::I16),
        NumberType::I32 => value.extract().map(Operand::I32),
        NumberType::I64 => value.extract().map(Operand::I64),
        NumberType::F32 => value.extract().and_then(|number: f64| match single(number) {
            Some(number) => Ok(Operand::F32(number)),
            None => Err(PyOverflowError::new_err(())),
        }),
        NumberType::F64 => value.extract().map(Operand::F64),
    };
    operand.map_err(|error| {
        let py = value.py();
        if error.is_instance_of::<PyOverflowError>(py) {
            return invalid(py, format!("{value} does not fit the type {}", number_type.name()));
        }
        error
    })
}

/// A number for Python.
pub fn into_python(py: Python<'_>, operand: Operand) -> PyResult<Py<PyAny>> {
    Ok(match operand {
        Operand::U8(x) => x.into_pyobject(py)?.into_any(),
        Operand::U16(x) => x.into_pyobject(py)?.into_any(),
        Operand::U32(x) => x.into_pyobject(py)?.into_any(),
        Operand::U64(x) => x.into_pyobject(py)?.into_any(),
        Operand::I8(x) => x.into_pyobject(py)?.into_any(),
        Operand::I16(x) => x.into_pyobject(py)?.into_any(),
        Operand::I32(x) => x.into_pyobject(py)?.into_any(),
        Operand::I64(x) => x.into_pyobject(py)?.into_any(),
        Operand::F32(x) => x.into_pyobject(py)?.into_any(),
        Operand::F64(x) => x.into_pyobject(py)?.into_any(),
    }
    .unbind())
}

macro_rules! transforms {
    ($($(#[$doc:meta])* $name:ident $python:literal => $op:ident;)*) => {
        #[pymethods]
        impl Transform {
            $(
                $(#[$doc])*
                #[classmethod]
                #[pyo3(name = $python)]
                fn $name(class: &Bound<'_, PyType>, value: &Bound<'_, PyAny>, r#type: &str) -> PyResult<Self> {
                    let py = class.py();
                    let operand = operand(value, number_type(py, r#type)?)?;
                    tyr_client::Transform::new(Op::$op, operand).map(Transform).map_err(|error| raise(py, &error))
                }
            )*

            /// Replaces the number if it is the expected one. That it did is seen by the old value.
            #[classmethod]
            fn compare_and_swap(
                class: &Bound<'_, PyType>,
                expected: &Bound<'_, PyAny>,
                value: &Bound<'_, PyAny>,
                r#type: &str,
            ) -> PyResult<Self> {
                let py = class.py();
                let number_type = number_type(py, r#type)?;
                let (expected, value) = (operand(expected, number_type)?, operand(value, number_type)?);
                let transform = tyr_client::Transform::compare_and_swap(expected, value);
                transform.map(Transform).map_err(|error| raise(py, &error))
            }

            fn __repr__(&self) -> String {
                format!("<tyr.Transform {:?} {:?}>", self.0.op(), self.0.operand())
            }
        }
    };
}

transforms! {
    /// Adds.
    add "add" => Add;
    /// Multiplies.
    multiply "multiply" => Multiply;
    /// The smaller one.
    min "min" => Min;
    /// The larger one.
    max "max" => Max;
    /// Bits that are set in both; integers only.
    and_ "and_" => And;
    /// Bits that are set in any; integers only.
    or_ "or_" => Or;
    /// Bits that are set in one; integers only.
    xor "xor" => Xor;
    /// Replaces the number.
    swap "swap" => Swap;
}

/// A condition on the committed state of a blob, which a commit checks: see `Transaction.check`.
///
/// >>> import tyr
/// >>> with store.transaction() as transaction:
/// ...     transaction.check(events, "lock", tyr.Check.missing())
/// ...     transaction.put(events, "lock", b"mine")
/// >>> events.read("lock")
/// b'mine'
#[pyclass(frozen, module = "tyr")]
pub struct Check(pub tyr_client::Check);

#[pymethods]
impl Check {
    /// The blob exists.
    #[classmethod]
    fn exists(_class: &Bound<'_, PyType>) -> Self {
        Check(tyr_client::Check::Exists)
    }

    /// The blob does not exist.
    #[classmethod]
    fn missing(_class: &Bound<'_, PyType>) -> Self {
        Check(tyr_client::Check::Missing)
    }

    /// The blob was changed last by the transaction with this number; see `Stat.version`.
    #[classmethod]
    fn version(_class: &Bound<'_, PyType>, version: Offset) -> Self {
        Check(tyr_client::Check::Version(Number::from_u64(version.0)))
    }

    /// The blob has this size.
    #[classmethod]
    fn size(_class: &Bound<'_, PyType>, size: Offset) -> Self {
        Check(tyr_client::Check::Size(size.0))
    }

    /// The blob has these bytes at the offset.
    #[classmethod]
    fn bytes(_class: &Bound<'_, PyType>, offset: Offset, data: Given) -> Self {
        Check(tyr_client::Check::Bytes { offset: offset.0, bytes: data.as_ref().to_vec() })
    }

    /// The attribute has this value; None if it is not to be set.
    #[classmethod]
    #[pyo3(signature = (name, value=None))]
    fn attribute(_class: &Bound<'_, PyType>, name: String, value: Option<Given>) -> Self {
        let value = value.map(|value| value.as_ref().to_vec());
        Check(tyr_client::Check::Attribute { name, value })
    }

    fn __repr__(&self) -> String {
        format!("<tyr.Check {:?}>", self.0)
    }
}

/// The error for a slot of another kind of operation.
pub fn wrong_slot(py: Python<'_>, what: &str) -> PyErr {
    raise(py, &Error::invalid(format!("the slot is not that of {what} of this transaction")))
}
