//! Encryption: TLS 1.3 over TCP, with certificates of one authority on both sides.
//!
//! The state machine of rustls stands between the frames and the socket; nothing of it has a task or a buffer without a bound. A Unix socket
//! is not encrypted: whoever may open it is known to the system.

use std::{
    fmt,
    io::{self, BufRead, IoSlice, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, RootCertStore,
    ServerConfig, ServerConnection,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
    version::TLS13,
};
use tokio::{
    io::{AsyncWriteExt, Interest, Ready},
    net::TcpStream,
};

use crate::{Address, credential::check_closed, trust::Chain};

/// Where the certificates are, as files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority whose certificates are believed: one certificate or more.
    pub authority: PathBuf,
    /// The own certificate, with those between it and the authority's; none for a client that is to stay anonymous.
    pub certificate: Option<PathBuf>,
    /// The key of the own certificate.
    pub key: Option<PathBuf>,
    /// Whether a listener takes dialers without a certificate. They can be nothing but clients.
    pub anonymous_clients: bool,
}

/// Certificates and keys by which connections are encrypted, and both ends known. Cheap to clone; clones stay the same when the files are
/// read again.
#[derive(Clone)]
pub struct Tls(Arc<Kept>);

struct Kept {
    files: TlsFiles,
    current: RwLock<Current>,
}

/// What connections that are made from now on use.
#[derive(Clone)]
struct Current {
    dialing: Arc<ClientConfig>,
    /// Without a certificate nobody can listen.
    listening: Option<Arc<ServerConfig>>,
    /// For who comes by HTTP: of these no certificate is asked.
    browsed: Option<Arc<ServerConfig>>,
    /// What others are shown of it.
    chain: Option<Chain>,
}

impl Tls {
    /// Reads the files. Fails with what is wrong with which of them.
    pub fn load(files: &TlsFiles) -> io::Result<Self> {
        let current = RwLock::new(Current::load(files)?);
        Ok(Tls(Arc::new(Kept { files: files.clone(), current })))
    }

    /// Reads the files again, for connections that are made from now on. If anything is wrong with them, all stays as it was; so it does if the
    /// certificate is not valid now, or of no authority that is believed: nobody would believe it.
    pub fn reload(&self) -> io::Result<()> {
        self.renew(Current::check)
    }

    /// The same for a node that others reach at this address: all stays as it was, too, if [`Tls::check_node`] would fail.
    pub fn reload_node(&self, reached: &Address) -> io::Result<()> {
        self.renew(|current, files| current.check_node(files, reached))
    }

    fn renew(&self, check: impl FnOnce(&Current, &TlsFiles) -> io::Result<()>) -> io::Result<()> {
        let current = Current::load(&self.0.files)?;
        check(&current, &self.0.files)?;
        *self.0.current.write() = current;
        Ok(())
    }

    /// Fails if nobody would believe the certificate, as far as that can be told here: it is not of an authority that is believed, or not
    /// valid now, or not for who dials.
    pub fn check(&self) -> io::Result<()> {
        self.0.current.read().check(&self.0.files)
    }

    /// The same for a node that others reach at this address: it both dials and listens, and its certificate is for the host of the
    /// address, unless that is a Unix socket or every address of a machine. Fails, too, if every user of this machine may read its key.
    pub fn check_node(&self, reached: &Address) -> io::Result<()> {
        self.0.current.read().check_node(&self.0.files, reached)
    }

    /// Until when the certificate that is shown to others is valid, with those between it and the authority's, in seconds since 1970; none if
    /// there is none.
    pub fn valid_until(&self) -> Option<i64> {
        self.0.current.read().chain.as_ref()?.valid_until()
    }

    /// A dialer's end of a connection to a host. It is who it should be only if its certificate is for that name or number.
    pub(crate) fn dial(&self, tcp: TcpStream, host: &str) -> io::Result<Secured> {
        let name = ServerName::try_from(host.to_owned());
        let name =
            name.map_err(|_| invalid(format_args!("'{host}' is no name that a certificate can be for")))?;
        let config = self.0.current.read().dialing.clone();
        let session = ClientConnection::new(config, name).map_err(invalid)?;
        Ok(Secured::new(tcp, session.into()))
    }

    /// A listener's end.
    pub(crate) fn listen(&self, tcp: TcpStream) -> io::Result<Secured> {
        let config = self.0.current.read().listening.clone();
        let config = config.ok_or_else(|| invalid("who listens needs a certificate and its key"))?;
        Ok(Secured::new(tcp, ServerConnection::new(config).map_err(invalid)?.into()))
    }

    /// The end of who is asked by HTTP. Who asks shows no certificate: browsers and probes have none.
    pub(crate) fn browsed(&self, tcp: TcpStream) -> io::Result<Secured> {
        let config = self.0.current.read().browsed.clone();
        let config =
            config.ok_or_else(|| invalid("who is asked by HTTPS needs a certificate and its key"))?;
        Ok(Secured::new(tcp, ServerConnection::new(config).map_err(invalid)?.into()))
    }

    /// Whether one can listen with it.
    pub fn can_listen(&self) -> bool {
        self.0.current.read().listening.is_some()
    }
}

impl Current {
    fn load(files: &TlsFiles) -> io::Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let authorities = Arc::new(authorities(&files.authority)?);
        let own = own(files)?;
        let wrong = |error: rustls::Error| match &files.certificate {
            Some(path) => invalid(format_args!("the certificate '{}': {error}", path.display())),
            None => invalid(error),
        };
        let dialing = ClientConfig::builder_with_provider(provider.clone());
        let dialing = dialing.with_protocol_versions(&[&TLS13]).map_err(invalid)?;
        let dialing = dialing.with_root_certificates(authorities.clone());
        let dialing = match &own {
            Some((chain, key)) => {
                dialing.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(wrong)?
            }
            None => dialing.with_no_client_auth(),
        };
        let browsed = match &own {
            Some((chain, key)) => {
                let config = ServerConfig::builder_with_provider(provider.clone());
                let config = config.with_protocol_versions(&[&TLS13]).map_err(invalid)?.with_no_client_auth();
                let mut config = config.with_single_cert(chain.clone(), key.clone_key()).map_err(wrong)?;
                config.alpn_protocols = vec![HTTP.to_vec()];
                config.send_tls13_tickets = 0;
                Some(Arc::new(config))
            }
            None => None,
        };
        let chain = own
            .as_ref()
            .map(|(chain, _)| Chain { authorities: authorities.clone(), certificates: chain.clone() });
        let listening =
            own.map(|(chain, key)| listening(provider, authorities, files, chain, key)).transpose()?;
        Ok(Current { dialing: Arc::new(dialing), listening: listening.map(Arc::new), browsed, chain })
    }

    fn check(&self, files: &TlsFiles) -> io::Result<()> {
        self.believed(files, Chain::check_dialing)
    }

    fn check_node(&self, files: &TlsFiles, reached: &Address) -> io::Result<()> {
        files.key.as_deref().map_or(Ok(()), check_closed)?;
        let host = reached.host().filter(|_| !reached.is_everywhere());
        self.believed(files, |chain| chain.check_listening(host).and_then(|()| chain.check_dialing()))
    }

    fn believed(&self, files: &TlsFiles, check: impl FnOnce(&Chain) -> Result<(), String>) -> io::Result<()> {
        let (Some(chain), Some(path)) = (&self.chain, &files.certificate) else { return Ok(()) };
        check(chain).map_err(|reason| {
            invalid(format_args!(
                "the certificate '{}' would be believed by nobody: {reason}",
                path.display()
            ))
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("can_listen", &self.can_listen()).finish_non_exhaustive()
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tls {}

/// A certificate with those between it and the authority's, and its key.
type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn authorities(path: &Path) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        let refused = |error| invalid(format_args!("the authority '{}': {error}", path.display()));
        store.add(certificate).map_err(refused)?;
    }
    Ok(store)
}

fn own(files: &TlsFiles) -> io::Result<Option<Own>> {
    match (&files.certificate, &files.key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let read = PrivateKeyDer::from_pem_file(key);
            let read = read.map_err(|error| {
                invalid(format_args!("cannot read a key in '{}': {error}", key.display()))
            })?;
            Ok(Some((certificates(certificate)?, read)))
        }
        _ => Err(invalid("a certificate and its key go together; one of them is not named")),
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let unread = |error| invalid(format_args!("cannot read a certificate in '{}': {error}", path.display()));
    let found = CertificateDer::pem_file_iter(path).map_err(unread)?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(unread)?;
    if found.is_empty() {
        return Err(invalid(format_args!("there is no certificate in '{}'", path.display())));
    }
    Ok(found)
}

fn listening(
    provider: Arc<CryptoProvider>,
    authorities: Arc<RootCertStore>,
    files: &TlsFiles,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> io::Result<ServerConfig> {
    let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider.clone());
    let verifier = if files.anonymous_clients { verifier.allow_unauthenticated() } else { verifier };
    let verifier = verifier.build().map_err(invalid)?;
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_protocol_versions(&[&TLS13]).map_err(invalid)?;
    let mut config =
        config.with_client_cert_verifier(verifier).with_single_cert(chain, key).map_err(invalid)?;
    // Connections last; what would let one be resumed is sent for nothing.
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn invalid(reason: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

/// An encrypted connection.
pub(crate) struct Secured {
    tcp: TcpStream,
    session: Box<Connection>,
}

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

impl Secured {
    fn new(tcp: TcpStream, mut session: Connection) -> Self {
        session.set_buffer_limit(Some(UNSENT_MAX));
        Secured { tcp, session: Box::new(session) }
    }

    /// Whether the other end has shown a certificate of the authority.
    pub(crate) fn is_known(&self) -> bool {
        self.session.peer_certificates().is_some_and(|chain| !chain.is_empty())
    }

    pub(crate) fn peer_address(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }

    /// Bytes that only the two ends of this very session know.
    pub(crate) fn bound(&self) -> io::Result<[u8; 32]> {
        self.session.export_keying_material([0; 32], EXPORTED, None).map_err(invalid)
    }

    /// As for a socket without encryption. What the session itself has to say is sent on the way.
    pub(crate) async fn ready(&mut self, interest: Interest) -> io::Result<Ready> {
        loop {
            let is_blocked = !self.send()?;
            if self.has_plain() {
                return Ok(Ready::READABLE | Ready::WRITABLE);
            }
            // Until both have agreed, nothing of the program's can be sent, however writable the socket is.
            let wants_write = interest.is_writable() && !self.session.is_handshaking();
            let wanted = if is_blocked || wants_write {
                Interest::READABLE | Interest::WRITABLE
            } else {
                Interest::READABLE
            };
            let ready = self.tcp.ready(wanted).await?;
            if ready.is_readable() || (wants_write && ready.is_writable()) {
                return Ok(ready);
            }
        }
    }

    fn has_plain(&mut self) -> bool {
        self.session.reader().fill_buf().is_ok_and(|bytes| !bytes.is_empty())
    }

    /// Sends what was encrypted; false if some of it must wait.
    fn send(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Socket(&self.tcp)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// As for a socket without encryption.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        loop {
            match self.session.reader().fill_buf() {
                Ok(bytes) => {
                    let count = bytes.len();
                    buffer.extend_from_slice(bytes);
                    self.session.reader().consume(count);
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match self.session.read_tls(&mut Socket(&self.tcp)) {
                Ok(0) if self.session.is_handshaking() => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the other end hung up before TLS was agreed on; it may not speak TLS",
                    ));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            if let Err(error) = self.session.process_new_packets() {
                // The other end is told why, if there is room for that.
                let _untold = self.send();
                return Err(io::Error::new(kind_of(&error), explain(&error)));
            }
        }
    }

    /// As for a socket without encryption. What is taken is bounded.
    pub(crate) fn write(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if !self.send()? {
            return Ok(None);
        }
        let count = self.session.writer().write_vectored(bytes)?;
        self.send()?;
        Ok((count > 0).then_some(count))
    }

    /// Says that nothing more is written.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.session.send_close_notify();
        while !self.send()? {
            self.tcp.writable().await?;
        }
        self.tcp.shutdown().await
    }
}

/// A socket that does not wait.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Of what kind it is: one of the two ends does not believe the other, or they do not understand one another.
fn kind_of(error: &rustls::Error) -> io::ErrorKind {
    use rustls::Error;
    match error {
        Error::NoCertificatesPresented | Error::InvalidCertificate(_) | Error::AlertReceived(_) => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::InvalidData,
    }
}

/// What went wrong, for whoever runs the program.
fn explain(error: &rustls::Error) -> String {
    use rustls::Error;
    match error {
        Error::InvalidMessage(_) => "the other end does not speak TLS; is it set up there, too?".to_owned(),
        Error::NoCertificatesPresented => "the other end has shown no certificate".to_owned(),
        Error::InvalidCertificate(wrong) => match wrong {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the certificate of the other end is of another authority".to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the certificate of the other end has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the certificate of the other end is not valid yet; check the clocks".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("the certificate of the other end is for another name: {wrong}")
            }
            other => format!("the certificate of the other end is not valid: {other}"),
        },
        Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "the other end refuses the certificate of this one: it is of another authority".to_owned()
            }
            AlertDescription::CertificateExpired => {
                "the other end refuses the certificate of this one: it has expired".to_owned()
            }
            AlertDescription::CertificateRequired => {
                "the other end asks for a certificate, and this one has shown none".to_owned()
            }
            other => format!("the other end refuses TLS: {other:?}"),
        },
        other => format!("TLS: {other}"),
    }
}

/// What keys are exported for (RFC 5705).
const EXPORTED: &[u8] = b"EXPORTER-Tyr-proof";
/// What is spoken with browsers (RFC 7301).
const HTTP: &[u8] = b"http/1.1";
/// As many bytes wait encrypted for the socket, about.
const UNSENT_MAX: usize = 256 << 10;
