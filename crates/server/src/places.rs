//! Where a node is to be reached: taken before it serves anybody there.

use std::io;

use tyr_net::Place;
use tyr_types::{Error, Result};

use crate::{Settings, http};

/// The addresses of a node, which are nobody else's from now on.
pub(crate) struct Places {
    /// Where it listens.
    pub listen: Place,
    /// Where it serves HTTP, if it does.
    pub http: Option<http::Place>,
}

impl Places {
    /// Takes both, or none.
    pub async fn take(settings: &Settings) -> Result<Self> {
        let listen = Place::take(&settings.listen, settings.tls.as_ref()).await;
        let listen = listen.map_err(|error| cannot_listen(settings, &error))?;
        let http = match &settings.http {
            Some(address) => Some(http::Place::take(address).await?),
            None => None,
        };
        Ok(Places { listen, http })
    }
}

/// What whoever started the node is told.
pub(crate) fn cannot_listen(settings: &Settings, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot listen at {}: {error}", settings.listen))
}
