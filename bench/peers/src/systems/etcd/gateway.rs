//! The few requests to etcd that are made here, in JSON by HTTP. Keys and values are text, in base 64 on the way.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{system::Outcome, systems::http::Connection};

/// A connection to a member, with a lease for its locks.
pub struct Gateway {
    connection: Connection,
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
        let mut gateway = Gateway { connection: Connection::open(port).await?, lease: String::new() };
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
        let (target, body) = (format!("/v3/{what}"), request.to_string());
        let answer = self.connection.ask("POST", &target, "application/json", body.as_bytes()).await;
        Ok(serde_json::from_slice(&answer.map_err(|error| format!("etcd says {error}"))?)?)
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
