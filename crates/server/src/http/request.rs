//! A request of HTTP/1.1, as far as it matters here.

use std::io;

use tyr_net::Door;

/// What somebody asks by HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub method: String,
    /// What it is asked of, as it was said: a path, maybe with a query.
    pub target: String,
    /// Names in small letters.
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What comes from who asks something.
pub(crate) enum Said {
    Request(Request),
    /// It makes no sense, or is too large.
    Nonsense,
    /// It ends too soon.
    Nothing,
}

/// Reads a request.
pub(crate) async fn read(door: &mut Door) -> io::Result<Said> {
    let mut bytes = Vec::new();
    let (head, size) = loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            let Some(request) = Request::parse(&bytes[..end]) else { return Ok(Said::Nonsense) };
            let Some(size) = request.body_size() else { return Ok(Said::Nonsense) };
            bytes.drain(..end + 4);
            break (request, size);
        }
        if bytes.len() > HEAD_MAX {
            return Ok(Said::Nonsense);
        }
        if door.read(&mut bytes).await? == 0 {
            return Ok(Said::Nothing);
        }
    };
    while bytes.len() < size {
        if door.read(&mut bytes).await? == 0 {
            return Ok(Said::Nothing);
        }
    }
    bytes.truncate(size);
    Ok(Said::Request(Request { body: bytes, ..head }))
}

impl Request {
    /// Reads the head of a request, without its last empty line.
    fn parse(head: &[u8]) -> Option<Self> {
        let text = str::from_utf8(head).ok().filter(|text| text.bytes().all(is_plain))?;
        let mut lines = text.split("\r\n");
        if lines.clone().any(|line| line.contains(['\r', '\n'])) {
            return None;
        }
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if !target.starts_with('/') || !version.starts_with("HTTP/1.") || words.next().is_some() {
            return None;
        }
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers = lines.map(header).collect::<Option<Vec<_>>>()?;
        Some(Request { method: method.to_owned(), target: target.to_owned(), headers, body: Vec::new() })
    }

    /// How many bytes follow; none if that is too much, or not said in a way that everybody understands alike.
    fn body_size(&self) -> Option<usize> {
        if self.header("transfer-encoding").is_some() {
            return None;
        }
        let sizes = self.headers.iter().filter(|(name, _)| name == "content-length");
        let sizes = sizes.map(|(_, size)| size.parse().ok()).collect::<Option<Vec<usize>>>()?;
        match sizes[..] {
            [] => Some(0),
            [size] if size <= BODY_MAX => Some(size),
            _ => None,
        }
    }

    /// What a header says, if it was said once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut said = self.headers.iter().filter(|(said, _)| said == name);
        let (_, value) = said.next()?;
        said.next().is_none().then_some(value)
    }

    /// The path, without a query.
    pub fn path(&self) -> &str {
        self.target.split_once('?').map_or(&*self.target, |(path, _)| path)
    }

    /// The token that is borne (RFC 6750, 2.1).
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }

    /// Whether it comes from a page of this very node, or from no page, and says that it is an object: a page of another site could not say so
    /// without asking first.
    pub fn is_of_same_site(&self) -> bool {
        let origin = self.header("origin").map(|origin| origin.split_once("://").map(|(_, host)| host));
        let kind = self.header("content-type").unwrap_or_default();
        let is_said_twice = |name: &str| self.headers.iter().filter(|(said, _)| said == name).count() > 1;
        kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json")
            && origin.is_none_or(|origin| origin.is_some() && origin == self.header("host"))
            && matches!(self.header("sec-fetch-site"), None | Some("same-origin" | "none"))
            && !is_said_twice("origin")
            && !is_said_twice("sec-fetch-site")
    }
}

/// Lines end by a carriage return and a line feed; nothing else that controls anything is said.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\r' | b'\n' | b'\t')
}

/// The largest head of a request, in bytes: a token takes a quarter of it.
const HEAD_MAX: usize = 8 << 10;
/// The largest body.
const BODY_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn request(lines: &[&str]) -> Option<Request> {
        Request::parse(lines.join("\r\n").as_bytes())
    }

    #[test]
    fn a_head_is_read_or_refused() {
        let asked =
            request(&["GET /console?x=1 HTTP/1.1", "Host: a:1", "AUTHORIZATION: bearer  tyr1-00 "]).unwrap();
        assert_eq!(
            (asked.path(), asked.header("host"), asked.bearer()),
            ("/console", Some("a:1"), Some("tyr1-00"))
        );
        for wrong in [
            "",
            "GET",
            "GET /",
            "GET / HTTP/2",
            "GET x HTTP/1.1",
            "GET / HTTP/1.1 x",
            "GET /\u{e9} HTTP/1.1",
            "G\0T / HTTP/1.1",
        ] {
            assert_eq!(request(&[wrong]), None, "{wrong:?}");
        }
        assert_eq!(request(&["GET / HTTP/1.1", "no header"]), None);
        assert_eq!(
            request(&["GET / HTTP/1.1", "Host: a\nLocation: elsewhere"]),
            None,
            "it would be said back"
        );
        assert_eq!(request(&["GET / HTTP/1.1", "Authorization: Basic eA=="]).unwrap().bearer(), None);
        let twice =
            request(&["GET / HTTP/1.1", "Authorization: Bearer a", "Authorization: Bearer b"]).unwrap();
        assert_eq!(twice.bearer(), None, "of two it is not clear which is meant");
    }

    #[test]
    fn a_body_is_as_long_as_it_is_said_once() {
        let size = |lines: &[&str]| request(&[&["POST / HTTP/1.1"], lines].concat()).unwrap().body_size();
        assert_eq!((size(&[]), size(&["Content-Length: 7"])), (Some(0), Some(7)));
        for wrong in [
            &["Content-Length: 5000"][..],
            &["Content-Length: -1"],
            &["Content-Length: 1", "Content-Length: 1"],
        ] {
            assert_eq!(size(wrong), None, "{wrong:?}");
        }
        assert_eq!(size(&["Transfer-Encoding: chunked"]), None);
    }

    #[test]
    fn another_site_has_nothing_done() {
        let with = |lines: &[&str]| {
            let lines = [&["POST /console/v1/act HTTP/1.1", "Host: node:7701"], lines].concat();
            request(&lines).unwrap().is_of_same_site()
        };
        let json = "Content-Type: application/json";
        assert!(with(&[json]) && with(&[json, "Origin: https://node:7701", "Sec-Fetch-Site: same-origin"]));
        assert!(!with(&[]) && !with(&["Content-Type: text/plain"]));
        for wrong in [
            "Origin: https://evil.example",
            "Origin: null",
            "Origin: https://node:7702",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
        ] {
            assert!(!with(&[json, wrong]), "{wrong}");
        }
        assert!(!with(&[json, "Origin: https://node:7701", "Origin: https://evil.example"]));
    }
}
