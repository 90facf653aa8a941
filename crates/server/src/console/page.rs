//! What the console serves by HTTP: one page with its style and script, all of them in the program, and the JSON behind them.
//!
//! Nothing here changes anything.

use super::Console;

/// Something to be served.
pub(crate) struct Page {
    pub status: &'static str,
    pub kind: &'static str,
    pub body: String,
}

impl Page {
    fn of(kind: &'static str, body: impl Into<String>) -> Self {
        Page { status: "200 OK", kind, body: body.into() }
    }
}

/// Whether whoever asks may see what there is to see. The page can do no more than that: what would change something will have to ask here, too.
fn may_look(_head: &[u8]) -> bool {
    true
}

/// What there is at a path; none if there is nothing.
pub(crate) async fn page(console: &Console, path: &str, head: &[u8]) -> Option<Page> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let found = match path {
        "/" | "/console" | "/console/" => Page::of(HTML, include_str!("page.html")),
        "/console/style.css" => Page::of(CSS, include_str!("style.css")),
        "/console/script.js" => Page::of(SCRIPT, include_str!("script.js")),
        "/console/icon.svg" => Page::of(ICON, include_str!("icon.svg")),
        "/console/v1/cluster" | "/console/v1/node" if !may_look(head) => Page {
            status: "403 Forbidden",
            kind: JSON,
            body: r#"{"error":"you may not see this"}"#.to_owned(),
        },
        "/console/v1/cluster" => Page::of(JSON, &*console.cluster_text().await),
        "/console/v1/node" => Page::of(JSON, console.node_text()?),
        _ => return None,
    };
    Some(found)
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";
const JSON: &str = "application/json";
