//! Encrypted connections, and everything that keeps one from being made.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::Duration,
};

use kit::{CLIENT, DATA, Ears, NODE, dial_as, introduction, listen_with, local, message};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use tempfile::TempDir;
use tyr_net::{Address, Dialer, End, Listener, Settings, Tls, TlsFiles};
use tyr_wire::connection::{Channel, Frame};

/// An authority with a directory for what it has signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Files with a certificate for a name that ends in a year.
    fn files(&self, name: &str, last_year: i32) -> TlsFiles {
        self.files_for(name, last_year, &[])
    }

    /// The same for some purposes only, if any are said.
    fn files_for(&self, name: &str, last_year: i32, purposes: &[ExtendedKeyUsagePurpose]) -> TlsFiles {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(last_year, 1, 1);
        params.extended_key_usages = purposes.to_vec();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path("certificate.pem"), certificate.pem()).unwrap();
        fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
        fs::set_permissions(self.path("key.pem"), Permissions::from_mode(0o600)).unwrap();
        TlsFiles {
            authority: self.path("ca.pem"),
            certificate: Some(self.path("certificate.pem")),
            key: Some(self.path("key.pem")),
            anonymous_clients: false,
        }
    }

    fn tls(&self, name: &str, last_year: i32) -> Tls {
        Tls::load(&self.files(name, last_year)).unwrap()
    }

    fn anonymous(&self) -> Tls {
        let files = TlsFiles {
            authority: self.path("ca.pem"),
            certificate: None,
            key: None,
            anonymous_clients: false,
        };
        Tls::load(&files).unwrap()
    }
}

fn settings(tls: Option<Tls>) -> Settings {
    Settings { tls, handshake_timeout: Duration::from_secs(60), ..Settings::default() }
}

async fn pair(there: Option<Tls>, here: Option<Tls>) -> (Listener, Ears, Dialer, Ears) {
    let (listener, heard_there) = listen_with(&local(), settings(there)).await;
    let (dialer, heard_here) = dial_as(listener.address(), introduction(CLIENT), settings(here));
    (listener, heard_there, dialer, heard_here)
}

/// What both ends say of why there is no connection.
async fn refused(there: Option<Tls>, here: Option<Tls>) -> (String, String) {
    let (_listener, mut heard_there, _dialer, mut heard_here) = pair(there, here).await;
    let (peer_there, end_there) = heard_there.end().await;
    let (peer_here, end_here) = heard_here.end().await;
    assert_eq!((peer_there, peer_here), (None, None), "{end_there} {end_here}");
    (end_there.to_string(), end_here.to_string())
}

#[tokio::test]
async fn frames_go_both_ways_encrypted() {
    let authority = Authority::new();
    let tls = authority.tls("127.0.0.1", 2500);
    let (listener, mut there, dialer, mut here) = pair(Some(tls.clone()), Some(tls)).await;
    assert_eq!((there.open().await, here.open().await), (CLIENT, NODE));
    for number in 0..200u32 {
        let size = usize::try_from(number * number * 2).unwrap();
        let body = vec![u8::try_from(number % 251).unwrap(); size];
        dialer
            .link()
            .send(Frame::request(DATA, number.into(), |out| out.extend_from_slice(&body)).unwrap())
            .unwrap();
    }
    for number in 0..200u32 {
        let size = usize::try_from(number * number * 2).unwrap();
        assert_eq!(there.body().await.len(), size);
        let (header, body, _) = here.frame().await;
        assert_eq!((header.request, body.len()), (number.into(), size));
    }
    dialer.link().send(message(Channel::ALL[1], b"farewell")).unwrap();
    dialer.close().await;
    assert_eq!(there.body().await, b"farewell");
    assert!(matches!(there.end().await, (Some(CLIENT), End::Closed)));
    assert!(matches!(here.end().await, (Some(NODE), End::Closed)));
    listener.close().await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused_and_both_ends_say_so() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (there, here) = refused(Some(theirs.tls("127.0.0.1", 2500)), Some(ours.tls("127.0.0.1", 2500))).await;
    assert!(here.contains("another authority"), "{here}");
    assert!(there.contains("another authority"), "{there}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new();
    let good = authority.tls("127.0.0.1", 2500);
    let old = authority.tls("127.0.0.1", 2002);
    let (there, here) = refused(Some(old.clone()), Some(good.clone())).await;
    assert!(here.contains("expired") && there.contains("expired"), "{here}; {there}");
    let (_listener, mut there, _dialer, _here) = pair(Some(good), Some(old)).await;
    let (_, end) = there.end().await;
    assert!(end.to_string().contains("expired"), "{end}");
}

#[tokio::test]
async fn a_renewed_certificate_is_used_once_it_is_read_and_a_broken_one_never() {
    let authority = Authority::new();
    let good = authority.tls("127.0.0.1", 2500);
    let renewed = authority.tls("127.0.0.1", 2002);
    let (listener, mut there, dialer, _here) = pair(Some(renewed.clone()), Some(good.clone())).await;
    assert!(there.end().await.1.to_string().contains("expired"));
    drop((listener, dialer));
    authority.files("127.0.0.1", 2500);
    renewed.reload().unwrap();
    fs::write(authority.path("certificate.pem"), "nothing").unwrap();
    renewed.reload().unwrap_err();
    // What nobody would believe is not used either: what has expired, and what is of another authority.
    authority.files("127.0.0.1", 2002);
    assert!(renewed.reload().unwrap_err().to_string().contains("believed by nobody"));
    let other = Authority::new();
    other.files("127.0.0.1", 2500);
    for name in ["certificate.pem", "key.pem"] {
        fs::copy(other.path(name), authority.path(name)).unwrap();
    }
    assert!(renewed.reload().unwrap_err().to_string().contains("believed by nobody"));
    let (_listener, mut there, _dialer, mut here) = pair(Some(renewed), Some(good)).await;
    assert_eq!((there.open().await, here.open().await), (CLIENT, NODE));
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    let tls = authority.tls("elsewhere.example", 2500);
    let (_, here) = refused(Some(tls.clone()), Some(tls)).await;
    assert!(here.contains("another name"), "{here}");
}

#[test]
fn a_node_is_told_why_nobody_would_believe_its_certificate() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let authority = Authority::new();
    let at = |text: &str| text.parse::<Address>().unwrap();
    let said = |files: &TlsFiles, reached: &str| Tls::load(files).unwrap().check_node(&at(reached));
    let refused = |files: &TlsFiles, reached: &str, part: &str| {
        let error = said(files, reached).unwrap_err().to_string();
        assert!(error.contains("certificate.pem' would be believed by nobody: "), "{error}");
        assert!(error.contains(part), "{part} is not in {error}");
    };
    let good = authority.files_for("node1.example", 2500, &[ServerAuth, ClientAuth]);
    said(&good, "node1.example:7700").unwrap();
    assert_eq!(Tls::load(&good).unwrap().valid_until(), Some(date_time_ymd(2500, 1, 1).unix_timestamp()));
    // Nobody dials by such a name.
    for nameless in ["unix:/socket", "0.0.0.0:7700", "[::]:7700", ":7700"] {
        said(&good, nameless).unwrap();
    }
    refused(&good, "10.0.0.7:7700", "it is not for '10.0.0.7'");
    refused(&good, "node2.example:7700", "but for 'node1.example'");
    let other = Authority::new();
    refused(&TlsFiles { authority: other.path("ca.pem"), ..good }, "unix:/socket", "another authority");
    let renewed = Tls::load(&authority.files("node1.example", 2500)).unwrap();
    for (purpose, lacks) in [(ServerAuth, "client"), (ClientAuth, "server")] {
        let files = authority.files_for("node1.example", 2500, std::slice::from_ref(&purpose));
        refused(&files, "node1.example:7700", "serverAuth and clientAuth");
        refused(&files, "unix:/socket", &format!("extended key usage for {lacks}"));
        renewed.reload_node(&at("node1.example:7700")).unwrap_err();
    }
    refused(&authority.files("node1.example", 2002), "node1.example:7700", "it has expired");
    refused(&authority.files("::1", 2500), "[::2]:7700", "it is not for '::2'");
    said(&authority.files("::1", 2500), "[::1]:7700").unwrap();
    renewed.reload_node(&at("[::2]:7700")).unwrap_err();
    renewed.reload_node(&at("[::1]:7700")).unwrap();
}

#[test]
fn a_key_that_everybody_may_read_is_refused_for_a_node_and_left_to_clients() {
    let authority = Authority::new();
    let files = authority.files("127.0.0.1", 2500);
    let reached = "127.0.0.1:7700".parse().unwrap();
    for (mode, is_closed) in [(0o600, true), (0o640, true), (0o644, false), (0o604, false)] {
        fs::set_permissions(authority.path("key.pem"), Permissions::from_mode(mode)).unwrap();
        let tls = Tls::load(&files).unwrap();
        tls.check().unwrap();
        tls.reload().unwrap();
        for checked in [tls.check_node(&reached), tls.reload_node(&reached)] {
            let said = checked.map_err(|error| error.to_string());
            assert_eq!(said.is_ok(), is_closed, "{mode:o}: {said:?}");
            assert!(said.is_ok() || said.unwrap_err().contains("key.pem' is open to every user"));
        }
    }
}

#[tokio::test]
async fn one_end_alone_cannot_encrypt() {
    let authority = Authority::new();
    let tls = authority.tls("127.0.0.1", 2500);
    let (there, here) = refused(Some(tls.clone()), None).await;
    assert!(there.contains("does not speak TLS"), "{there}");
    assert!(here.contains("wants TLS"), "{here}");
    let (_, here) = refused(None, Some(tls)).await;
    assert!(here.contains("TLS"), "{here}");
}

#[tokio::test]
async fn who_has_no_certificate_is_a_client_or_nobody() {
    let authority = Authority::new();
    let strict = authority.files("127.0.0.1", 2500);
    let lenient = TlsFiles { anonymous_clients: true, ..strict.clone() };
    let (strict, lenient) = (Tls::load(&strict).unwrap(), Tls::load(&lenient).unwrap());
    let (_listener, mut there, _dialer, _here) = pair(Some(strict), Some(authority.anonymous())).await;
    let (_, end) = there.end().await;
    assert!(end.to_string().contains("no certificate"), "{end}");

    let (listener, mut there, _dialer, mut here) =
        pair(Some(lenient.clone()), Some(authority.anonymous())).await;
    assert_eq!((there.open().await, here.open().await), (CLIENT, NODE));
    let settings = settings(Some(authority.anonymous()));
    let (_dialer, _here) = dial_as(listener.address(), introduction(NODE), settings);
    let (peer, end) = there.end().await;
    assert_eq!(peer, None);
    assert!(end.to_string().contains("denied"), "{end}");
}

#[tokio::test]
async fn who_listens_needs_a_certificate() {
    let tls = Some(Authority::new().anonymous());
    let (handler, _ears) = Ears::new();
    let bound = Listener::bind(&local(), introduction(NODE), handler, settings(tls)).await;
    assert!(bound.unwrap_err().to_string().contains("certificate"));
}

#[test]
fn what_is_wrong_with_the_files_is_said() {
    let authority = Authority::new();
    let files = authority.files("127.0.0.1", 2500);
    let said = |files: TlsFiles| Tls::load(&files).unwrap_err().to_string();
    let alone = said(TlsFiles { key: None, ..files.clone() });
    assert!(alone.contains("go together"), "{alone}");
    let missing = said(TlsFiles { authority: authority.path("nowhere.pem"), ..files.clone() });
    assert!(missing.contains("nowhere.pem"), "{missing}");
    let swapped = said(TlsFiles { authority: authority.path("key.pem"), ..files.clone() });
    assert!(swapped.contains("no certificate in"), "{swapped}");
    let other = Authority::new();
    other.files("127.0.0.1", 2500);
    let foreign = said(TlsFiles { key: Some(other.path("key.pem")), ..files });
    assert!(foreign.contains("certificate.pem"), "{foreign}");
}
