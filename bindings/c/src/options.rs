//! Options, settings, numbers, transforms, and checks as C passes them.

use std::{
    ffi::{c_char, c_int},
    path::{Path, PathBuf},
    time::Duration,
};

use tyr_client::{
    Check, Create, Durability, IoMode, KeyspaceSettings, Number, Op, OpenOptions, Operand, Seek, Store, Tls,
    TlsFiles, Token, Transform,
};

use crate::{
    border,
    memory::{Out, borrowed, optional_text, text},
    status::Failure,
    types::*,
};

/// Options as C passes them, the defaults if there are none; and the deadline that is among them.
pub(crate) fn options(given: *const tyr_options) -> Result<(OpenOptions, Duration), Failure> {
    let options = Store::options();
    // SAFETY: the caller says that it is null or one.
    let Some(given) = (unsafe { given.as_ref() }) else { return Ok((options.deadline(DEADLINE), DEADLINE)) };
    let milliseconds = |number: u64| (number > 0).then(|| Duration::from_millis(number));
    let deadline = milliseconds(given.deadline_ms).unwrap_or(DEADLINE);
    let mut options = options.deadline(deadline);
    if let Some(timeout) = milliseconds(given.connect_timeout_ms) {
        options = options.connect_timeout(timeout);
    }
    options = options.create(match given.create {
        TYR_CREATE_IF_MISSING => Create::IfMissing,
        TYR_CREATE_NEVER => Create::Never,
        TYR_CREATE_NEW => Create::New,
        other => return Err(unknown("way to create a store", other)),
    });
    options = options.io(match given.io {
        TYR_IO_AUTO => IoMode::Auto,
        TYR_IO_DIRECT_RING => IoMode::DirectRing,
        TYR_IO_DIRECT => IoMode::Direct,
        TYR_IO_BUFFERED => IoMode::Buffered,
        other => return Err(unknown("way of I/O", other)),
    });
    if given.data_cache > 0 {
        options = options.data_cache(given.data_cache);
    }
    if given.index_cache > 0 {
        options = options.index_cache(given.index_cache);
    }
    if given.segment_size > 0 {
        options = options.segment_size(given.segment_size);
    }
    if let Some(zone) = optional_text(given.zone, "the zone")? {
        options = options.zone(&zone);
    }
    if let Some(authority) = optional_text(given.tls_authority, "the file of the authority")? {
        options = options.tls(tls(given, authority)?);
    }
    if let Some(token) = token(given)? {
        options = options.token(token);
    }
    if given.without_files != 0 {
        options = options.without_files();
    }
    if given.rebuild_index != 0 {
        options = options.rebuild_index();
    }
    Ok((options, deadline))
}

/// How long calls wait for a cluster if nobody says otherwise.
const DEADLINE: Duration = Duration::from_secs(30);

/// What is wrong with a token does not say what it is.
fn token(given: &tyr_options) -> Result<Option<Token>, Failure> {
    let file = optional_text(given.token_file, "the file of the token")?;
    let token = match (optional_text(given.token, "the token")?, file) {
        (None, None) => return Ok(None),
        (Some(text), None) => Token::parse(&text),
        (None, Some(file)) => Token::load(Path::new(&file)),
        (Some(_), Some(_)) => return Err(Failure::invalid("token and token_file are two tokens; name one")),
    };
    token.map(Some).map_err(|error| Failure::invalid(format!("the token: {error}")))
}

fn tls(given: &tyr_options, authority: String) -> Result<Tls, Failure> {
    let path = |pointer, what| Ok::<_, Failure>(optional_text(pointer, what)?.map(PathBuf::from));
    let files = TlsFiles {
        authority: PathBuf::from(authority),
        certificate: path(given.tls_certificate, "the file of the certificate")?,
        key: path(given.tls_key, "the file of the key")?,
        anonymous_clients: false,
    };
    Tls::load(&files).map_err(|error| Failure::invalid(format!("the certificates cannot be used: {error}")))
}

/// Settings as C passes them; the defaults if there are none.
pub(crate) fn settings(given: *const tyr_settings) -> Result<KeyspaceSettings, Failure> {
    // SAFETY: the caller says that it is null or one.
    let Some(given) = (unsafe { given.as_ref() }) else { return Ok(KeyspaceSettings::default()) };
    Ok(KeyspaceSettings {
        durability: match given.durability {
            TYR_MEMORY => Durability::Memory,
            TYR_DISK => Durability::Disk,
            other => return Err(unknown("durability", other)),
        },
        chunk_size: given.chunk_size,
        multi_version: given.multi_version != 0,
        quota: (given.quota != TYR_NO_QUOTA).then_some(given.quota),
    })
}

/// What is sought.
pub(crate) fn sought(given: c_int) -> Result<Seek, Failure> {
    match given {
        TYR_DATA => Ok(Seek::Data),
        TYR_HOLE => Ok(Seek::Hole),
        other => Err(unknown("thing to seek", other)),
    }
}

/// Settings as C sees them.
pub(crate) fn shown_settings(settings: &KeyspaceSettings) -> tyr_settings {
    tyr_settings {
        durability: match settings.durability {
            Durability::Memory => TYR_MEMORY,
            Durability::Disk => TYR_DISK,
        },
        multi_version: c_int::from(settings.multi_version),
        chunk_size: settings.chunk_size,
        quota: settings.quota.unwrap_or(TYR_NO_QUOTA),
    }
}

/// Puts the default settings there.
///
/// @param settings Where they go.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_settings_default(settings: *mut tyr_settings) -> c_int {
    border::call(|| {
        Out::required(settings)?.put(shown_settings(&KeyspaceSettings::default()));
        Ok(())
    })
}

fn operand(number: &tyr_number) -> Result<Operand, Failure> {
    let value = &number.value;
    // SAFETY: the caller has set the value that the type names; whatever its bits are, they are a number.
    Ok(unsafe {
        match number.r#type {
            TYR_U8 => Operand::U8(value.u8),
            TYR_U16 => Operand::U16(value.u16),
            TYR_U32 => Operand::U32(value.u32),
            TYR_U64 => Operand::U64(value.u64),
            TYR_I8 => Operand::I8(value.i8),
            TYR_I16 => Operand::I16(value.i16),
            TYR_I32 => Operand::I32(value.i32),
            TYR_I64 => Operand::I64(value.i64),
            TYR_F32 => Operand::F32(value.f32),
            TYR_F64 => Operand::F64(value.f64),
            other => return Err(unknown("type of a number", other)),
        }
    })
}

/// A number as C sees it. All bytes of the value are set.
pub(crate) fn shown_number(number: Operand) -> tyr_number {
    let mut value = tyr_value { u64: 0 };
    let number_type = match number {
        Operand::U8(number) => {
            value.u8 = number;
            TYR_U8
        }
        Operand::U16(number) => {
            value.u16 = number;
            TYR_U16
        }
        Operand::U32(number) => {
            value.u32 = number;
            TYR_U32
        }
        Operand::U64(number) => {
            value.u64 = number;
            TYR_U64
        }
        Operand::I8(number) => {
            value.i8 = number;
            TYR_I8
        }
        Operand::I16(number) => {
            value.i16 = number;
            TYR_I16
        }
        Operand::I32(number) => {
            value.i32 = number;
            TYR_I32
        }
        Operand::I64(number) => {
            value.i64 = number;
            TYR_I64
        }
        Operand::F32(number) => {
            value.f32 = number;
            TYR_F32
        }
        Operand::F64(number) => {
            value.f64 = number;
            TYR_F64
        }
    };
    tyr_number { r#type: number_type, value }
}

/// A transform as C passes it.
pub(crate) fn transform(given: *const tyr_transform) -> Result<Transform, Failure> {
    // SAFETY: the caller says that it is null or one.
    let given = unsafe { given.as_ref() }.ok_or_else(|| Failure::invalid("the transform is null"))?;
    let operand_given = operand(&given.operand)?;
    let op = match given.op {
        TYR_ADD => Op::Add,
        TYR_MULTIPLY => Op::Multiply,
        TYR_MIN => Op::Min,
        TYR_MAX => Op::Max,
        TYR_AND => Op::And,
        TYR_OR => Op::Or,
        TYR_XOR => Op::Xor,
        TYR_SWAP => Op::Swap,
        TYR_COMPARE_AND_SWAP => {
            return Ok(Transform::compare_and_swap(operand(&given.expected)?, operand_given)?);
        }
        other => return Err(unknown("op", other)),
    };
    Ok(Transform::new(op, operand_given)?)
}

/// A check as C passes it.
pub(crate) fn check(given: *const tyr_check) -> Result<Check, Failure> {
    // SAFETY: the caller says that it is null or one.
    let given = unsafe { given.as_ref() }.ok_or_else(|| Failure::invalid("the check is null"))?;
    let name = || text(given.name, "the name of the attribute");
    Ok(match given.what {
        TYR_CHECK_EXISTS => Check::Exists,
        TYR_CHECK_MISSING => Check::Missing,
        TYR_CHECK_VERSION => Check::Version(Number::from_u64(given.number)),
        TYR_CHECK_SIZE => Check::Size(given.number),
        TYR_CHECK_BYTES => Check::Bytes { offset: given.number, bytes: borrowed(given.bytes)?.to_vec() },
        TYR_CHECK_ATTRIBUTE => {
            Check::Attribute { name: name()?, value: Some(borrowed(given.bytes)?.to_vec()) }
        }
        TYR_CHECK_NO_ATTRIBUTE => Check::Attribute { name: name()?, value: None },
        other => return Err(unknown("check", other)),
    })
}

/// An attribute's name.
pub(crate) fn attribute(name: *const c_char) -> Result<String, Failure> {
    text(name, "the name of the attribute")
}

#[cold]
fn unknown(what: &str, number: c_int) -> Failure {
    Failure::invalid(format!("{number} is no {what}"))
}
