//! What the console serves by HTTP: one page with its style and script, all of them in the program, and the JSON behind them.

use super::{Console, Viewer};
use crate::http::Request;

/// Something to be served.
#[derive(Debug)]
pub(crate) struct Page {
    pub status: &'static str,
    pub kind: &'static str,
    pub body: String,
    /// Where it is to be asked for, if that is elsewhere.
    pub location: Option<String>,
}

impl Page {
    fn of(kind: &'static str, body: impl Into<String>) -> Self {
        Page { status: "200 OK", kind, body: body.into(), location: None }
    }

    /// Lines for people.
    pub fn text(status: &'static str, body: &str) -> Self {
        Page { status, ..Page::of("text/plain; charset=utf-8", body) }
    }

    /// Samples in the text format of Prometheus.
    pub fn samples(text: String) -> Self {
        Page::of("text/plain; version=0.0.4; charset=utf-8", text)
    }

    /// An object.
    pub fn json(body: impl Into<String>) -> Self {
        Page::of("application/json", body)
    }

    /// An object that says what is wrong.
    pub fn failure(status: &'static str, error: &str) -> Self {
        Page { status, ..Page::json(serde_json::json!({ "error": error }).to_string()) }
    }
}

/// The page itself, which shows nothing before it has asked; none if there is nothing at a path.
pub(crate) fn still_page(path: &str) -> Option<Page> {
    Some(match path {
        "/" | "/console" | "/console/" => Page::of("text/html; charset=utf-8", include_str!("page.html")),
        "/console/style.css" => Page::of("text/css; charset=utf-8", include_str!("style.css")),
        "/console/script.js" => Page::of("text/javascript; charset=utf-8", include_str!("script.js")),
        "/console/icon.svg" => Page::of("image/svg+xml", include_str!("icon.svg")),
        _ => return None,
    })
}

/// What somebody who looks is told; none if there is nothing at a path.
pub(crate) async fn told_page(console: &Console, request: &Request, viewer: &Viewer) -> Option<Page> {
    let unknown =
        || Page::failure("503 Service Unavailable", "the node cannot tell now what there is to see");
    Some(match (request.method.as_str(), request.path()) {
        ("GET", "/console/v1/cluster") => console.cluster_text(viewer).await.map_or_else(unknown, Page::json),
        ("GET", "/console/v1/node") => console.node_text(viewer).map_or_else(unknown, Page::json),
        ("POST", "/console/v1/act") => match viewer.caller() {
            Some(_) if !request.is_of_same_site() => {
                Page::failure("403 Forbidden", "only the console's own page has anything done")
            }
            Some(caller) => console.act(caller, &request.body).await,
            None => Page::failure(
                "403 Forbidden",
                "the console of a node without a secret is read-only: nobody is asked who he is",
            ),
        },
        _ => return None,
    })
}
