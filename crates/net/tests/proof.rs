//! Proofs of who dials: that they hold where they were made, and nowhere else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
};

use kit::{CLIENT, DATA, Ears, NODE, dial_as, introduction, listen_with, local, message};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tyr_net::{
    Address, Admission, Claim, Credential, End, Handler, Holder, Porter, Secret, Settings, Tls, TlsFiles,
    Token,
};
use tyr_wire::connection::{Error, Party, Refusal};

/// Lets in who knows the secret, and whose token is under the seal.
struct Judge {
    secret: Secret,
    seal: [u8; 32],
    handler: Arc<dyn Handler>,
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Judge")
    }
}

impl Porter for Judge {
    fn judge(&self, claim: &Claim<'_>) -> Result<Admission, Refusal> {
        let admit = |proof| Ok(Admission { handler: self.handler.clone(), proof });
        if let Some(proof) = claim.proof.by_secret(&self.secret) {
            return admit(proof);
        }
        let shown = claim.proof.shown().filter(|_| matches!(claim.party, Party::Client { .. }));
        let shown = shown.ok_or(Refusal::Denied)?;
        // The claims are the public half of the holder's keys, and nothing else.
        let holder = shown.claims().and_then(|claims| claims.try_into().ok()).ok_or(Refusal::Denied)?;
        match shown.is_held_by(&holder) && shown.is_sealed_by(&self.seal) {
            true => admit(Vec::new()),
            false => Err(Refusal::Denied),
        }
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

const SECRET: &str = "a secret of the cluster";

/// Settings of a listener that demands proofs, its seal, and what is heard by who was let in.
fn guarded(tls: Option<Tls>) -> (Settings, Holder, Ears) {
    let seal = Holder::generate().unwrap();
    let (handler, ears) = Ears::new();
    let judge = Judge { secret: secret(SECRET), seal: seal.public(), handler };
    let credential = Credential::Secret(secret(SECRET));
    (Settings { tls, credential, porter: Some(Arc::new(judge)), ..Settings::default() }, seal, ears)
}

fn token(seal: &Holder) -> Token {
    let holder = Holder::generate().unwrap();
    Token::new(&seal.seal(&holder.public()), holder)
}

fn with(credential: Credential, tls: Option<Tls>) -> Settings {
    Settings { credential, tls, ..Settings::default() }
}

/// Why a dialer is not let in.
async fn refusal(address: &Address, party: Party, settings: Settings) -> Refusal {
    let (_dialer, mut here) = dial_as(address, introduction(party), settings);
    let (None, End::Failed(Error::Refused(refusal))) = here.end().await else { panic!("it is let in") };
    refusal
}

#[tokio::test]
async fn who_proves_who_he_is_is_let_in_and_heard_by_who_was_chosen() {
    let (settings, seal, mut inside) = guarded(None);
    let (listener, _outside) = listen_with(&local(), settings).await;
    for (party, credential) in [
        (CLIENT, Credential::Token(token(&seal))),
        (CLIENT, Credential::Secret(secret(SECRET))),
        (NODE, Credential::Secret(secret(SECRET))),
    ] {
        let (dialer, mut here) = dial_as(listener.address(), introduction(party), with(credential, None));
        assert_eq!(here.open().await, NODE);
        assert_eq!(inside.open().await, party);
        dialer.link().send(message(DATA, b"I am inside")).unwrap();
        assert_eq!(inside.body().await, b"I am inside");
        dialer.close().await;
        assert!(matches!(inside.end().await, (Some(_), End::Closed)));
    }
}

#[tokio::test]
async fn who_proves_nothing_is_not_let_in() {
    let (settings, seal, _inside) = guarded(None);
    let (listener, _outside) = listen_with(&local(), settings).await;
    let address = listener.address();
    let refused = async |party, credential| refusal(address, party, with(credential, None)).await;
    assert_eq!(refused(CLIENT, Credential::None).await, Refusal::ProofMissing);
    assert_eq!(refused(CLIENT, Credential::Secret(secret("another secret of it"))).await, Refusal::Denied);
    assert_eq!(refused(NODE, Credential::Token(token(&seal))).await, Refusal::Denied);
    let forged = token(&Holder::generate().unwrap());
    assert_eq!(refused(CLIENT, Credential::Token(forged)).await, Refusal::Denied);
    // Somebody else's claims under the right seal, without the other half of his keys.
    let stolen = token(&seal).to_text();
    let holder = Holder::generate().unwrap();
    let seed: String = holder.seed().iter().map(|byte| format!("{byte:02x}")).collect();
    let stolen = Token::parse(&format!("tyr1-{seed}{}", &stolen[69..])).unwrap();
    assert_eq!(refused(CLIENT, Credential::Token(stolen)).await, Refusal::Denied);
}

#[tokio::test]
async fn who_shares_a_secret_talks_to_nobody_who_does_not_prove_to_know_it() {
    let (listener, _there) = listen_with(&local(), Settings::default()).await;
    let credential = Credential::Secret(secret(SECRET));
    assert_eq!(refusal(listener.address(), NODE, with(credential, None)).await, Refusal::Unproved);
}

/// Certificates of one authority: of a node, and of a node that was taken over.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        fs::write(directory.path().join("node.pem"), certificate.pem()).unwrap();
        fs::write(directory.path().join("node.key"), key.serialize_pem()).unwrap();
        Authority(directory)
    }

    fn tls(&self) -> Tls {
        let path = |name: &str| self.0.path().join(name);
        let files = TlsFiles {
            authority: path("ca.pem"),
            certificate: Some(path("node.pem")),
            key: Some(path("node.key")),
            anonymous_clients: true,
        };
        Tls::load(&files).unwrap()
    }

    /// The same certificate in the hands of somebody between two ends, who passes on what both say.
    fn between(&self, node: &Address) -> Address {
        let path = |name: &str| self.0.path().join(name);
        let chain: Vec<_> =
            CertificateDer::pem_file_iter(path("node.pem")).unwrap().collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(path("node.key")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(path("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(default_provider());
        let listening = ServerConfig::builder_with_provider(provider.clone());
        let listening = listening.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let listening = Arc::new(listening.with_single_cert(chain, key).unwrap());
        let dialing = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let dialing = Arc::new(dialing.unwrap().with_root_certificates(roots).with_no_client_auth());
        let Address::Tcp(node) = node.clone() else { panic!("it is a TCP address") };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap().to_string());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(listening.clone()).unwrap();
                let mut dialer = StreamOwned::new(session, stream.unwrap());
                let name = ServerName::try_from("127.0.0.1").unwrap();
                let session = ClientConnection::new(dialing.clone(), name).unwrap();
                let mut node = StreamOwned::new(session, TcpStream::connect(&node).unwrap());
                // In the handshake one speaks after the other.
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = dialer.read(&mut bytes)
                    && node.write_all(&bytes[..count]).is_ok()
                    && let Ok(count @ 1..) = node.read(&mut bytes)
                    && dialer.write_all(&bytes[..count]).is_ok()
                {}
            }
        });
        address
    }
}

#[tokio::test]
async fn nobody_between_two_ends_can_pass_a_proof_on() {
    let authority = Authority::new();
    let (settings, seal, mut inside) = guarded(Some(authority.tls()));
    let (listener, _outside) = listen_with(&local(), settings).await;
    let honest = with(Credential::Token(token(&seal)), Some(authority.tls()));
    let (_dialer, mut here) = dial_as(listener.address(), introduction(CLIENT), honest);
    assert_eq!((here.open().await, inside.open().await), (NODE, CLIENT));

    let between = authority.between(listener.address());
    for credential in [Credential::Token(token(&seal)), Credential::Secret(secret(SECRET))] {
        let settings = with(credential, Some(authority.tls()));
        assert_eq!(refusal(&between, CLIENT, settings).await, Refusal::Denied);
    }
}

#[tokio::test]
async fn who_is_to_encrypt_never_goes_on_without() {
    let authority = Authority::new();
    // A listener that encrypts hears nobody who does not, whatever he could prove.
    let (settings, seal, _inside) = guarded(Some(authority.tls()));
    let (listener, _outside) = listen_with(&local(), settings).await;
    let plain = with(Credential::Token(token(&seal)), None);
    let (_dialer, mut here) = dial_as(listener.address(), introduction(CLIENT), plain);
    assert!(matches!(here.end().await, (None, End::Lost(_))));
    // A dialer that encrypts says nothing to a listener that does not.
    let (settings, seal, _inside) = guarded(None);
    let (listener, mut outside) = listen_with(&local(), settings).await;
    let encrypted = with(Credential::Token(token(&seal)), Some(authority.tls()));
    let (_dialer, mut here) = dial_as(listener.address(), introduction(CLIENT), encrypted);
    assert!(matches!(here.end().await, (None, End::Lost(_))));
    assert!(matches!(outside.end().await, (None, _)));
    // And a certificate of another authority convinces nobody, with the right token or without.
    let foreign = with(Credential::Token(token(&seal)), Some(Authority::new().tls()));
    let (settings, _, _inside) = guarded(Some(authority.tls()));
    let (listener, _outside) = listen_with(&local(), settings).await;
    let (_dialer, mut here) = dial_as(listener.address(), introduction(CLIENT), foreign);
    assert!(matches!(here.end().await, (None, End::Lost(_))));
}
