//! The few requests to etcd that are made here, in JSON by HTTP. Keys and values are text, in base 64 on the way.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::system::Outcome;

/// A connection to a member, with a lease for its locks.
pub struct Gateway {
    stream: BufReader<TcpStream>,
    lease: String,
}

/// A number that was found, and since when it is so; both are zero if it was not there.
pub struct Found {
    /// The number.
    pub number: i64,
    /// The revision of its last change.
    pub revision: i64,
}

/// Keys that stand for locks that are held.
pub struct Held(Vec<Value>);

/// Whether a member answers, and knows a leader.
pub async fn is_healthy(port: u16) -> bool {
    Gateway::connect(port).await.is_ok()
}

impl Gateway {
    /// Connects, and gets a lease that outlives the comparison.
    pub async fn connect(port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut gateway = Gateway { stream: BufReader::new(stream), lease: String::new() };
        let granted = gateway.ask("lease/grant", &json!({ "TTL": LEASE_SECONDS })).await?;
        gateway.lease = granted["ID"].as_str().ok_or("a lease has a number")?.to_owned();
        Ok(gateway)
    }

    /// Locks what these keys stand for, one after the other.
    pub async fn lock(&mut self, keys: &[String]) -> Outcome<Held> {
        let mut held = Vec::new();
        for key in keys {
            let request = json!({ "name": encode(&format!("lock/{key}")), "lease": self.lease });
            held.push(self.ask("lock/lock", &request).await?["key"].take());
        }
        Ok(Held(held))
    }

    /// Gives the locks back, all at once.
    pub async fn unlock(&mut self, held: Held) -> Outcome<()> {
        let delete = |key: &Value| json!({ "requestDeleteRange": { "key": key } });
        let request = json!({ "success": held.0.iter().map(delete).collect::<Vec<_>>() });
        self.ask("kv/txn", &request).await.map(drop)
    }

    /// Reads numbers, all at one revision.
    pub async fn read(&mut self, keys: &[String]) -> Outcome<Vec<Found>> {
        let get = |key: &String| json!({ "requestRange": { "key": encode(key) } });
        let request = json!({ "success": keys.iter().map(get).collect::<Vec<_>>() });
        let answer = self.ask("kv/txn", &request).await?;
        let answers = answer["responses"].as_array().ok_or("a transaction has answers")?;
        answers.iter().map(|answer| Found::parse(&answer["response_range"]["kvs"][0])).collect()
    }

    /// Writes numbers if the keys are as they were at these revisions; whether they were.
    pub async fn write_unless_changed(&mut self, puts: &[(String, i64, i64)]) -> Outcome<bool> {
        let compare = |(key, _, revision): &(String, i64, i64)| json!({ "key": encode(key), "target": "MOD", "result": "EQUAL", "modRevision": revision.to_string() });
        let put = |(key, number, _): &(String, i64, i64)| json!({ "requestPut": { "key": encode(key), "value": encode(&number.to_string()) } });
        let request = json!({
            "compare": puts.iter().map(compare).collect::<Vec<_>>(),
            "success": puts.iter().map(put).collect::<Vec<_>>(),
        });
        Ok(self.ask("kv/txn", &request).await?["succeeded"] == true)
    }

    async fn ask(&mut self, what: &str, request: &Value) -> Outcome<Value> {
        let body = request.to_string();
        let size = body.len();
        let text = format!(
            "POST /v3/{what} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n{body}"
        );
        self.stream.write_all(text.as_bytes()).await?;
        let (status, body) = self.answer().await?;
        if status != "200" {
            return Err(format!("etcd says {status} to {what}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(serde_json::from_slice(&body)?)
    }

    /// The status and the body of an answer.
    async fn answer(&mut self) -> Outcome<(String, Vec<u8>)> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut size, mut is_chunked) = (0, false);
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                size = value.trim().parse()?;
            }
            is_chunked |= line.starts_with("transfer-encoding:") && line.ends_with("chunked");
        }
        let mut body = Vec::new();
        if !is_chunked {
            self.take(size, &mut body).await?;
            return Ok((status, body));
        }
        loop {
            let size = usize::from_str_radix(&self.line().await?, 16)?;
            self.take(size, &mut body).await?;
            self.line().await?;
            if size == 0 {
                return Ok((status, body));
            }
        }
    }

    async fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err("etcd has closed a connection".into());
        }
        Ok(line.trim_end().to_owned())
    }

    async fn take(&mut self, size: usize, body: &mut Vec<u8>) -> Outcome<()> {
        let start = body.len();
        body.resize(start + size, 0);
        self.stream.read_exact(&mut body[start..]).await?;
        Ok(())
    }
}

impl Found {
    fn parse(entry: &Value) -> Outcome<Found> {
        if entry.is_null() {
            return Ok(Found { number: 0, revision: 0 });
        }
        let revision = entry["mod_revision"].as_str().ok_or("a key has a revision")?.parse()?;
        let value = STANDARD.decode(entry["value"].as_str().ok_or("a key has a value")?)?;
        Ok(Found { number: std::str::from_utf8(&value)?.parse()?, revision })
    }
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

const LEASE_SECONDS: u32 = 24 * 3600;
