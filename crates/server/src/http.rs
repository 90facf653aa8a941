//! Health, metrics, and the console by HTTP: `/live`, `/ready`, `/metrics` in the text format of Prometheus, and `/console`.
//!
//! As much of HTTP/1.1 as a probe or a browser needs: one request per connection. A node with a certificate speaks TLS with whoever begins
//! with it, on the same port.
//!
//! Who has to say who he is bears a token. Invariant: a token that comes where others may hear it lets nobody in; there is no cookie, nor
//! anything else that a browser would send along by itself for another site.

mod request;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::timeout,
};
use tyr_net::{Door, Tls};
use tyr_types::{Error, Result};
use tyr_wire::connection::Refusal;

pub(crate) use request::Request;
use request::Said;

use crate::{
    MetricsFor,
    console::{Console, Page, Viewer, still_page, told_page},
    guard::Gate,
    metrics::metrics,
    reception::Reception,
    state::State,
};

/// Who knows what is asked.
pub(crate) struct Asked {
    pub state: Arc<State>,
    pub reception: Arc<Reception>,
    pub console: Arc<Console>,
    /// Who judges tokens, if they are asked for.
    pub gate: Option<Arc<Gate>>,
    pub tls: Option<Tls>,
    pub metrics_for: MetricsFor,
}

/// An address that is nobody else's: whoever connects waits until it is [served](serve).
pub(crate) struct Place {
    listener: TcpListener,
    /// With the port that the system chose.
    pub address: String,
}

impl Place {
    pub(crate) async fn take(address: &str) -> Result<Self> {
        let failed = |error| Error::unavailable(format!("cannot serve HTTP at {address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        Ok(Place { listener, address })
    }
}

/// Serves from now on.
pub(crate) fn serve(Place { listener, .. }: Place, asked: Asked) {
    let asked = Arc::new(asked);
    tokio::spawn(async move {
        let mut under_way: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PATIENCE / 10).await;
                continue;
            };
            under_way.retain(|one| !one.is_finished());
            // Those who ask slowly keep nobody out.
            if under_way.len() >= CONNECTIONS_MAX
                && let Some(oldest) = under_way.pop_front()
            {
                oldest.abort();
            }
            let asked = asked.clone();
            let answered = tokio::spawn(async move {
                // Whoever does not ask or listen in time is not answered.
                let _unheard = timeout(PATIENCE, answer(stream, &asked)).await;
            });
            under_way.push_back(answered.abort_handle());
        }
    });
}

async fn answer(stream: TcpStream, asked: &Asked) -> std::io::Result<()> {
    let mut door = Door::open(stream, asked.tls.as_ref()).await?;
    let mut has_body = true;
    let page = match request::read(&mut door).await? {
        Said::Request(mut request) => {
            // It is answered as GET is, but for the body (RFC 9110, 9.3.2).
            if request.method == "HEAD" {
                has_body = false;
                "GET".clone_into(&mut request.method);
            }
            respond(&request, &door, asked).await
        }
        Said::Nonsense => Page::text("400 Bad Request", "this is no request that is understood here\n"),
        Said::Nothing => return Ok(()),
    };
    let Page { status, kind, body, location } = page;
    let location = location.map_or_else(String::new, |location| format!("Location: {location}\r\n"));
    let challenge = if status.starts_with("401") { "WWW-Authenticate: Bearer realm=\"tyr\"\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{location}{challenge}Connection: close\r\n{GUARDS}\r\n{}",
        body.len(),
        if has_body { &*body } else { "" }
    );
    door.answer(answer.as_bytes()).await
}

async fn respond(request: &Request, door: &Door, asked: &Asked) -> Page {
    let path = request.path();
    let is_console = path == "/" || path.starts_with("/console");
    if !matches!((request.method.as_str(), path), ("GET", _) | ("POST", "/console/v1/act")) {
        return Page::text("405 Method Not Allowed", "only GET and HEAD are served\n");
    }
    if is_console && asked.gate.is_some() && !door.is_private() {
        return elsewhere(request, asked);
    }
    match path {
        "/live" | "/health/live" => Page::text("200 OK", "live\n"),
        "/ready" | "/health/ready" if asked.state.status().is_ready => Page::text("200 OK", "ready\n"),
        "/ready" | "/health/ready" => Page::text(
            "503 Service Unavailable",
            "not ready: it has no lease, or does not know the ring yet\n",
        ),
        // Without a lease it does not hear what has become of the others.
        "/health/cluster" if !asked.state.status().is_ready => Page::text(
            "503 Service Unavailable",
            "not known: this node has no lease, or does not know the ring yet\n",
        ),
        "/health/cluster" => match asked.console.unserved().await {
            Some(0) => Page::text("200 OK", "every partition is served\n"),
            Some(count) => {
                Page::text("503 Service Unavailable", &format!("{count} partitions are served by nobody\n"))
            }
            None => Page::text("503 Service Unavailable", "nothing is known of the ring yet\n"),
        },
        "/metrics" => match (asked.metrics_for, viewer(request, door, asked)) {
            (MetricsFor::WhoHasAToken, Err(page)) => page,
            _ => Page::samples(metrics(&asked.state, &asked.reception, asked.tls.as_ref())),
        },
        _ => {
            if let Some(page) = still_page(path) {
                return page;
            }
            let told = match viewer(request, door, asked) {
                Ok(viewer) => told_page(&asked.console, request, &viewer).await,
                Err(page) if is_console => Some(page),
                Err(_) => None,
            };
            let nothing = "there are /live, /ready, /health/cluster, /metrics, and /console\n";
            told.unwrap_or_else(|| Page::text("404 Not Found", nothing))
        }
    }
}

/// Who asks, or what he is told if he is not let in.
fn viewer(request: &Request, door: &Door, asked: &Asked) -> Result<Viewer, Page> {
    let Some(gate) = &asked.gate else { return Ok(Viewer::anybody()) };
    let unauthorized = |error: &str| Page::failure("401 Unauthorized", error);
    if !door.is_private() {
        return Err(elsewhere(request, asked));
    }
    let Some(token) = request.bearer() else { return Err(unauthorized("this node asks for a token")) };
    match gate.bearer(token, &door.from()) {
        Ok(caller) => Viewer::of(caller, &asked.reception.registry)
            .ok_or_else(|| unauthorized("the token has expired, or was revoked")),
        Err(Refusal::Stopping) => Err(Page::failure(
            "503 Service Unavailable",
            "the node has not heard yet of who made this token; try again in a moment",
        )),
        Err(Refusal::Expired) => Err(unauthorized("the token has expired")),
        Err(Refusal::Revoked) => Err(unauthorized("the token was revoked")),
        Err(_) => Err(unauthorized("the token is not valid for this cluster")),
    }
}

/// What is told to who comes where others may hear what he says.
fn elsewhere(request: &Request, asked: &Asked) -> Page {
    match request.header("host").filter(|_| asked.tls.is_some() && request.method == "GET") {
        Some(host) => {
            let location = Some(format!("https://{host}{}", request.target));
            Page { location, ..Page::text("307 Temporary Redirect", "this is told over TLS only\n") }
        }
        None => Page::failure(
            "403 Forbidden",
            "this node asks for a token, which is taken over TLS or from the node's own machine only: give the node a certificate, or come \
             by a tunnel, such as ssh -L 7701:127.0.0.1:7701",
        ),
    }
}

/// The page asks nobody but the node for anything, is shown in no frame of another one, and nobody keeps what it shows.
const GUARDS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";
/// The most connections at once: of more the one that has been there longest is closed.
const CONNECTIONS_MAX: usize = 64;
/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
