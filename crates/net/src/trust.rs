//! Whether others will believe a certificate: what they would find wrong with it is found before they do, and said with what to do.

use std::sync::Arc;

use rustls::{
    CertificateError, Error, RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{ParsedCertificate, WebPkiClientVerifier},
};

use crate::validity::validity;

/// A certificate, with those between it and the authority's, and the authorities that are believed.
#[derive(Clone)]
pub(crate) struct Chain {
    pub authorities: Arc<RootCertStore>,
    pub certificates: Vec<CertificateDer<'static>>,
}

impl Chain {
    /// Until when all of these certificates are valid, in seconds since 1970, as far as they say so in a way that is understood.
    pub(crate) fn valid_until(&self) -> Option<i64> {
        self.certificates.iter().filter_map(|one| Some(validity(one)?.until)).min()
    }

    /// Fails unless listeners believe it: it is of one of the authorities, valid now, and may be shown by who dials.
    pub(crate) fn check_dialing(&self) -> Result<(), String> {
        let Some((own, between)) = self.certificates.split_first() else { return Ok(()) };
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.authorities.clone(), provider).build();
        let verifier = verifier.map_err(|error| error.to_string())?;
        verifier.verify_client_cert(own, between, UnixTime::now()).map(drop).map_err(|error| explain(&error))
    }

    /// Fails unless dialers believe it: it is of one of the authorities, valid now, may be shown by who listens, and is for the host that they
    /// dial, if that is said.
    pub(crate) fn check_listening(&self, host: Option<&str>) -> Result<(), String> {
        let Some((own, between)) = self.certificates.split_first() else { return Ok(()) };
        let own = ParsedCertificate::try_from(own).map_err(|error| explain(&error))?;
        let algorithms = ring::default_provider().signature_verification_algorithms.all;
        let now = UnixTime::now();
        verify_server_cert_signed_by_trust_anchor(&own, &self.authorities, between, now, algorithms)
            .map_err(|error| explain(&error))?;
        let Some(host) = host else { return Ok(()) };
        let name = ServerName::try_from(host);
        let name = name.map_err(|_| format!("'{host}' is no name that a certificate can be for"))?;
        verify_server_name(&own, &name).map_err(|error| other_name(&error, host))
    }
}

/// What is wrong, and what to do.
fn explain(error: &Error) -> String {
    let Error::InvalidCertificate(wrong) = error else { return error.to_string() };
    match wrong {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it is of another authority; have one made by the authority of the cluster, or name the right authority".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired; have a new one made, or check this machine's clock".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; check this machine's clock, or wait".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => format!(
            "it is not for what it is used for ({wrong}); a node both listens and dials, so have one made with both extended key usages, \
             serverAuth and clientAuth"
        ),
        other => format!("it is not valid: {other}; have another one made"),
    }
}

fn other_name(error: &Error, host: &str) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) => format!(
            "it is not for '{host}', where others reach this node, but for {}; have one made for '{host}', or advertise an address that it \
             is for",
            if presented.is_empty() { "no name at all".to_owned() } else { plain(presented) },
        ),
        other => {
            format!("it is not for '{host}', where others reach this node ({other}); have one made for that")
        }
    }
}

/// Names as people write them, of the form that the library gives them: `DnsName("node1.example")`.
fn plain(names: &[String]) -> String {
    let plain = |name: &String| {
        let inside = name.split_once('(').map_or(name.as_str(), |(_, inside)| inside);
        format!("'{}'", inside.trim_end_matches(')').trim_matches('"'))
    };
    names.iter().map(plain).collect::<Vec<_>>().join(", ")
}
