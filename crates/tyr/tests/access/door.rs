//! Those who try to get in by the console's door.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{ServerName, pem::PemObject},
};
use tyr_net::Holder;
use tyr_proto::{access::Rights, encoding::to_bytes};
use tyr_server::{MetricsFor, Scope, Tls, TlsFiles, Token, read_claims};

use crate::kit::{Cluster, logged};

/// A question of a page or a program, with a token or without.
fn get(path: &str, token: Option<&str>) -> String {
    let bearer = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    format!("GET {path} HTTP/1.1\r\nHost: node\r\n{bearer}\r\n")
}

fn act(token: Option<&str>, headers: &[&str], body: &str) -> String {
    let bearer = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!(
        "POST /console/v1/act HTTP/1.1\r\nHost: node\r\n{bearer}{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const JSON: &str = "Content-Type: application/json";
const DRAIN: &str = r#"{"act":"drain","node":1}"#;
const SEES: &str = "/console/v1/cluster";

/// The status of an answer.
fn status(answer: &str) -> u32 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_console_shows_nothing_to_who_has_no_good_token() {
    let cluster = Cluster::start();
    let token = cluster.user("ada", &[("events", Rights::READ)]);
    for path in [SEES, "/console/v1/node"] {
        let answer = cluster.says(&get(path, None));
        assert!(status(&answer) == 401 && answer.contains("WWW-Authenticate: Bearer"), "{answer}");
        assert!(!answer.contains("events") && !answer.contains("hidden"), "{answer}");
    }
    for open in ["/console", "/console/script.js", "/live", "/ready", "/health/cluster", "/metrics"] {
        assert_eq!(status(&cluster.says(&get(open, None))), 200, "{open}");
    }
    let good = token.to_text();
    assert_eq!(status(&cluster.says(&get(SEES, Some(&good)))), 200);

    // Each digit in turn is another one.
    for place in (5..good.len()).step_by(good.len() / 24) {
        let digit = if good.as_bytes()[place] == b'0' { "1" } else { "0" };
        let mut altered = good.clone();
        altered.replace_range(place..=place, digit);
        assert_eq!(status(&cluster.says(&get(SEES, Some(&altered)))), 401, "digit {place}");
    }
    for none in ["", "tyr1-", "x", &good[5..], &good[..good.len() - 2]] {
        assert_eq!(status(&cluster.says(&get(SEES, Some(none)))), 401, "{none}");
    }
    let mut claims = read_claims(&token).unwrap();
    let (forger, holder) = (Holder::generate().unwrap(), Holder::generate().unwrap());
    (claims.holder, claims.expires) = (holder.public(), claims.expires + (1 << 30));
    let forged = Token::new(&forger.seal(&to_bytes(&claims)), holder);
    assert_eq!(status(&cluster.says(&get(SEES, Some(&forged.to_text())))), 401);
    let foreign = Cluster::start().user("ada", &[("events", Rights::READ)]);
    assert_eq!(status(&cluster.says(&get(SEES, Some(&foreign.to_text())))), 401);
    let secret = std::str::from_utf8(crate::SECRET).unwrap();
    assert_eq!(status(&cluster.says(&get(SEES, Some(secret)))), 401, "the secret is none");

    let brief = cluster.token("ada", 1, Vec::new()).to_text();
    let ended = std::iter::repeat_with(|| cluster.says(&get(SEES, Some(&brief))))
        .find(|answer| status(answer) != 200);
    assert!(ended.unwrap().contains("has expired"));
    cluster.revoke_tokens("ada");
    let ended =
        std::iter::repeat_with(|| cluster.says(&get(SEES, Some(&good)))).find(|answer| status(answer) != 200);
    assert!(ended.unwrap().contains("was revoked"));
    assert!(!logged().contains(&good[5..69]), "no secret half is in the log");
}

#[test]
fn the_console_shows_what_rights_cover() {
    let cluster = Cluster::start();
    let token = cluster.user("ada", &[("events", Rights::READ)]).to_text();
    let all = cluster.user_of_cluster("root").to_text();
    let seen = |token: &str| {
        let answer = cluster.says(&get(SEES, Some(token)));
        let view: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        let names =
            view["keyspaces"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), view["viewer"].clone(), answer)
    };
    let (names, viewer, answer) = seen(&token);
    assert_eq!(names, ["events"]);
    assert_eq!(viewer, serde_json::json!({ "user": "ada", "administers": false }));
    assert!(!answer.contains("hidden-"), "{answer}");
    let (names, viewer, _) = seen(&all);
    assert_eq!(names, ["events", "secrets"]);
    assert_eq!(viewer, serde_json::json!({ "user": "root", "administers": true }));
    let limited =
        cluster.token("root", 3600, vec![(Scope::Keyspace(cluster.keyspace("secrets")), Rights::READ)]);
    let (names, viewer, _) = seen(&limited.to_text());
    assert_eq!((names, &viewer["administers"]), (vec!["secrets".to_owned()], &false.into()));
}

#[test]
fn only_an_administrator_on_the_consoles_own_page_has_anything_done() {
    let cluster = Cluster::start();
    let user = cluster.user("ada", &[("events", Rights::ALL)]).to_text();
    let root = cluster.user_of_cluster("root").to_text();
    let told =
        |token: Option<&str>, headers: &[&str], body: &str| status(&cluster.says(&act(token, headers, body)));
    assert_eq!(told(None, &[JSON], DRAIN), 401);
    assert_eq!(told(Some("tyr1-00"), &[JSON], DRAIN), 401);
    assert_eq!(told(Some(&user), &[JSON], DRAIN), 403);
    for foreign in [
        &["Content-Type: text/plain"][..],
        &["Content-Type: application/x-www-form-urlencoded"],
        &[JSON, "Origin: https://evil.example"],
        &[JSON, "Origin: null"],
        &[JSON, "Sec-Fetch-Site: cross-site"],
    ] {
        assert_eq!(told(Some(&root), foreign, DRAIN), 403, "{foreign:?}");
    }
    for wrong in ["", "{}", r#"{"act":"remove","node":1}"#] {
        assert_eq!(told(Some(&root), &[JSON], wrong), 400, "{wrong}");
    }
    let preflight = cluster.says("OPTIONS /console/v1/act HTTP/1.1\r\nOrigin: https://evil.example\r\n\r\n");
    assert!(status(&preflight) == 405 && !preflight.contains("Access-Control"), "{preflight}");
    assert_eq!(told(Some(&root), &[JSON], r#"{"act":"drain","node":9}"#), 409, "there is none");
    let own = [JSON, "Origin: http://node", "Sec-Fetch-Site: same-origin"];
    assert_eq!(told(Some(&root), &own, r#"{"act":"restore","node":1}"#), 200);

    // What was done, refused, and denied is written down with who it was.
    let audited = cluster.audited(|text| text.contains("\"restore\""));
    let lines = |who: &str, action: &str, result: &str| {
        let has =
            |line: &&str| [who, action, result].iter().all(|part| line.contains(&format!("\"{part}\"")));
        audited.lines().filter(has).count()
    };
    assert_eq!(lines("user ada", "drain", "denied"), 1, "{audited}");
    assert_eq!(lines("user root", "drain", "refused"), 1, "{audited}");
    assert_eq!(lines("user root", "restore", "done"), 1, "{audited}");
}

#[test]
fn metrics_are_for_who_has_a_token_where_that_is_asked_for() {
    let cluster = Cluster::start_as(|settings, _| settings.metrics = MetricsFor::WhoHasAToken);
    let token = cluster.user("prometheus", &[]).to_text();
    let answer = cluster.says(&get("/metrics", None));
    assert!(status(&answer) == 401 && !answer.contains("tyr_"), "{answer}");
    assert_eq!(status(&cluster.says(&get("/metrics", Some("tyr1-00")))), 401);
    assert!(cluster.says(&get("/metrics", Some(&token))).contains("tyr_build_info"));
    assert_eq!(status(&cluster.says(&get("/live", None))), 200);
}

/// A certificate for this machine, and its authority.
fn certify(settings: &mut tyr_server::Settings, directory: &Path) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    drop(key);
    let (pem, key) = (directory.join("node.pem"), directory.join("node.key"));
    fs::write(&pem, certificate.cert.pem()).unwrap();
    fs::write(&key, certificate.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let files =
        TlsFiles { authority: pem.clone(), certificate: Some(pem), key: Some(key), anonymous_clients: false };
    settings.tls = Some(Tls::load(&files).unwrap());
}

/// What the node says over TLS.
fn says_secretly(cluster: &Cluster, address: &str, request: &str) -> String {
    let mut roots = RootCertStore::empty();
    let pem = cluster.directory().join("node.pem");
    roots.add(rustls::pki_types::CertificateDer::from_pem_file(pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = rustls::StreamOwned::new(session, TcpStream::connect(address).unwrap());
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// An address of this machine at which others reach it, if it has one.
fn outer_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent by that.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[test]
fn a_token_is_taken_over_tls_or_on_the_nodes_own_machine_only() {
    for is_secured in [true, false] {
        let cluster = Cluster::start_as(|settings, directory| {
            settings.http = Some("0.0.0.0:0".into());
            if is_secured {
                certify(settings, directory);
            }
        });
        let token = cluster.user("ada", &[("events", Rights::READ)]).to_text();
        let bound = cluster.server.http_address().unwrap().to_owned();
        let port = bound.rsplit_once(':').unwrap().1;
        let says = |request: &str, ip: &str| {
            let mut stream = TcpStream::connect(format!("{ip}:{port}")).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(status(&says(&get(SEES, Some(&token)), "127.0.0.1")), 200);
        let expires = says(&get("/metrics", None), "127.0.0.1")
            .contains("\ntyr_certificate_expiry_timestamp_seconds 67090118400\n");
        assert_eq!(expires, is_secured, "at the beginning of the year 4096");
        if is_secured {
            let answer = says_secretly(&cluster, &format!("127.0.0.1:{port}"), &get(SEES, Some(&token)));
            assert!(status(&answer) == 200 && answer.contains("\"events\""), "{answer}");
            let answer = says_secretly(&cluster, &format!("127.0.0.1:{port}"), &get(SEES, None));
            assert_eq!(status(&answer), 401);
            let answer = says_secretly(&cluster, &format!("127.0.0.1:{port}"), &get("/live", None));
            assert_eq!(status(&answer), 200);
        }
        // A machine without a network has no other address.
        let Some(ip) = outer_address() else { continue };
        for request in [
            get(SEES, Some(&token)),
            get(SEES, None),
            get("/console", None),
            act(Some(&token), &[JSON], DRAIN),
        ] {
            let answer = says(&request, &ip.to_string());
            let is_redirected = is_secured && request.starts_with("GET");
            assert_eq!(status(&answer), if is_redirected { 307 } else { 403 }, "{answer}");
            assert_eq!(answer.contains("Location: https://node/console"), is_redirected, "{answer}");
            assert!(!answer.contains("events"), "{answer}");
        }
        assert_eq!(status(&says(&get("/ready", None), &ip.to_string())), 200);
        assert_eq!(status(&says(&get("/metrics", None), &ip.to_string())), 200);
    }
}

#[test]
fn what_is_no_request_is_told_so_and_harms_nobody() {
    let cluster = Cluster::start();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000));
    for nonsense in ["\r\n\r\n", "\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n", &long] {
        let mut stream = TcpStream::connect(cluster.server.http_address().unwrap()).unwrap();
        let mut text = Vec::new();
        // It may be hung up on before all is said.
        let _said = stream.write_all(nonsense.as_bytes());
        let _heard = stream.read_to_end(&mut text);
        let is_hung_up_on = nonsense == long && text.is_empty();
        assert!(is_hung_up_on || text.starts_with(b"HTTP/1.1 400 "), "{nonsense:?}");
    }
    assert_eq!(status(&cluster.says(&get("/live", None))), 200);
}
