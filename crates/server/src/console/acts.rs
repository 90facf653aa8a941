//! What an administrator may have done through the console: a few things that can be undone.
//!
//! An act goes the way of a command that a client sends: it is judged by the rights of who asks, carried to the one who leads, and audited.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use tokio::time::timeout;
use tyr_proto::{
    NodeId,
    cluster::{Command, Request, Response},
};
use tyr_types::KeyspaceId;
use tyr_wire::connection::Party;

use super::{Console, Page};
use crate::{asking::Back, event::Question, guard::Caller};

/// What the page asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Act {
    /// Has others take over what a node holds.
    Drain { node: u32 },
    /// Gives a node its share again.
    Restore { node: u32 },
    /// Bounds what a keyspace may hold, in bytes, or bounds it no longer.
    Quota { keyspace: u32, quota: Option<u64> },
}

impl Act {
    fn command(self) -> Command {
        match self {
            Act::Drain { node } => Command::Drain(NodeId(node)),
            Act::Restore { node } => Command::Restore(NodeId(node)),
            Act::Quota { keyspace, quota } => Command::SetQuota { id: KeyspaceId(keyspace), quota },
        }
    }
}

impl Console {
    /// Has done what somebody asks for, and tells what became of it.
    pub(super) async fn act(&self, caller: &Arc<Caller>, body: &[u8]) -> Page {
        let act: Act = match serde_json::from_slice(body) {
            Ok(act) => act,
            Err(error) => return Page::failure("400 Bad Request", &format!("this is no act: {error}")),
        };
        let request = Request::Command(act.command());
        let (back, reply) = Back::to_task(&self.reception, caller.clone(), &request);
        let (party, caller) = (Party::Client { session: caller.session }, Some(caller.clone()));
        self.reception.events.ask(Question { party, back, request, receipt: None, caller });
        match timeout(PATIENCE, reply).await {
            Ok(Ok(Response::Replied(Ok(_)))) => Page::json("{\"done\":true}"),
            Ok(Ok(Response::Replied(Err(refusal)))) => Page::failure("409 Conflict", &refusal.to_string()),
            Ok(Ok(Response::Denied(_, rights))) => {
                Page::failure("403 Forbidden", &format!("this takes the right to {rights} the cluster"))
            }
            _ => Page::failure(
                "503 Service Unavailable",
                "nobody who leads the cluster answers; it may have been done: look, and try again",
            ),
        }
    }
}

/// What is asked is answered within this time, or whoever asks is told to look.
const PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn an_act_is_one_of_a_few() {
        let act = |text: &str| serde_json::from_str::<Act>(text);
        assert_eq!(act(r#"{"act":"drain","node":3}"#).unwrap(), Act::Drain { node: 3 });
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"act":"remove","node":3}"#,
            r#"{"act":"drain"}"#,
            r#"{"act":"drain","node":-1}"#,
        ] {
            assert!(act(wrong).is_err(), "{wrong}");
        }
    }
}
