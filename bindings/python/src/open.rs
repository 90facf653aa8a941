//! How a store is opened.

use std::{path::PathBuf, sync::Arc};

use pyo3::{prelude::*, types::PyDict};
use tyr_client::{Error, IoMode, OpenOptions, Tls, TlsFiles, Token};

use crate::{
    arguments::Offset,
    errors::{invalid, raise},
    face::{Asyncio, Blocking, Face},
    store::{AioStore, Opened, Store, seconds},
    value::{Value, create},
};

/// Takes options apart. What is not known is refused.
fn options(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<OpenOptions> {
    let mut options = tyr_client::Store::options();
    let (mut token, mut token_file) = (None, None);
    let mut tls =
        TlsFiles { authority: PathBuf::new(), certificate: None, key: None, anonymous_clients: false };
    for (name, value) in given.into_iter().flat_map(|given| given.iter()) {
        if value.is_none() {
            continue;
        }
        options = match name.extract::<&str>()? {
            "create" => options.create(create(py, value.extract()?)?),
            "deadline" => options.deadline(seconds(py, value.extract()?)?),
            "connect_timeout" => options.connect_timeout(seconds(py, value.extract()?)?),
            "zone" => options.zone(value.extract()?),
            "data_cache" => options.data_cache(value.extract::<Offset>()?.0),
            "index_cache" => options.index_cache(value.extract::<Offset>()?.0),
            "segment_size" => options.segment_size(value.extract::<Offset>()?.0),
            "io" => options.io(io_mode(py, value.extract()?)?),
            "reads_files" if value.is_truthy()? => options,
            "reads_files" => options.without_files(),
            "rebuild_index" if value.is_truthy()? => options.rebuild_index(),
            "rebuild_index" => options,
            "authority" => {
                tls.authority = value.extract()?;
                options
            }
            "certificate" => {
                tls.certificate = Some(value.extract()?);
                options
            }
            "key" => {
                tls.key = Some(value.extract()?);
                options
            }
            "token" => {
                token = Some(value.extract::<String>()?);
                options
            }
            "token_file" => {
                token_file = Some(value.extract::<PathBuf>()?);
                options
            }
            other => return Err(invalid(py, format!("there is no option '{}'", other.escape_debug()))),
        };
    }
    let token = match (token, token_file) {
        (None, None) => None,
        (Some(text), None) => Some(Token::parse(&text)),
        (None, Some(path)) => Some(Token::load(&path)),
        (Some(_), Some(_)) => return Err(invalid(py, "token and token_file are two tokens; name one")),
    };
    // What is wrong with a token does not say what it is.
    if let Some(token) = token.transpose().map_err(|error| invalid(py, format!("the token: {error}")))? {
        options = options.token(token);
    }
    if tls.authority.as_os_str().is_empty() {
        return Ok(options);
    }
    let loaded = Tls::load(&tls);
    let loaded = loaded.map_err(|error| raise(py, &Error::invalid(format!("certificates: {error}"))))?;
    Ok(options.tls(loaded))
}

fn io_mode(py: Python<'_>, name: &str) -> PyResult<IoMode> {
    match name {
        "auto" => Ok(IoMode::Auto),
        "direct-ring" => Ok(IoMode::DirectRing),
        "direct" => Ok(IoMode::Direct),
        "buffered" => Ok(IoMode::Buffered),
        _ => Err(invalid(py, "io is 'auto', 'direct-ring', 'direct', or 'buffered'")),
    }
}

/// Opens the store in a directory, or connects to the cluster, that is named.
#[pyfunction]
#[pyo3(name = "_open", signature = (place, **given))]
pub fn open(py: Python<'_>, place: PathBuf, given: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
    let options = options(py, given)?;
    Blocking::drive(py, async move {
        let store = options.open(&place).await?;
        Ok(Value::made(Store::new(Opened::new(store, Some(place)))))
    })
}

/// As open, to be awaited.
#[pyfunction]
#[pyo3(name = "_open_aio", signature = (place, **given))]
pub fn open_aio(py: Python<'_>, place: PathBuf, given: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
    let options = options(py, given)?;
    Asyncio::drive(py, async move {
        let store = options.open(&place).await?;
        let opened: Arc<Opened> = Opened::new(store, Some(place));
        Ok(Value::made(AioStore::new(opened)))
    })
}
