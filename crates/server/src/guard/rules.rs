//! What each thing that a client can say takes.

use tyr_proto::{
    Extent, HeadPlan, Operation, SessionId, TransactionId,
    access::{Entitlement, Rights, Scope},
    cluster::{Command, Difference, Fact, Request, Response},
    message::{Message, RequestId},
};
use tyr_types::KeyspaceId;

/// What was denied, so that the client can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// A transaction.
    Transaction(TransactionId),
    /// Payload of one.
    Stage(TransactionId),
    /// Something that was to be read.
    Request(RequestId),
    /// What only a node, or another client, may say: nobody is told.
    Foreign,
}

/// Whether a message of a client to a partition may pass.
pub(crate) fn judge(message: &Message, own: SessionId, rights: &Entitlement) -> Result<(), Denied> {
    let of_session = |session: SessionId| if session == own { Ok(()) } else { Err(Denied::Foreign) };
    let reads = |request: RequestId, keyspaces: &mut dyn Iterator<Item = KeyspaceId>| {
        of_session(request.session)?;
        for keyspace in keyspaces {
            if !rights.rights(keyspace).has(Rights::READ) {
                return Err(Denied::Request(request));
            }
        }
        Ok(())
    };
    match message {
        Message::Start(plan) => {
            of_session(plan.id.session)?;
            plan.reserve.map_or(Ok(()), |reserve| of_session(reserve.session))?;
            let may = plan.heads.iter().all(|head| rights.rights(head.blob.keyspace).has(needed(head)));
            if may { Ok(()) } else { Err(Denied::Transaction(plan.id)) }
        }
        Message::AskOutcome { id, .. } | Message::KeepStages { id } => of_session(id.session),
        Message::Answered { session, .. } => of_session(*session),
        Message::Stage(stage) => {
            of_session(stage.id.session)?;
            // What it is for is known when the transaction begins. Until then it takes up room.
            if rights.allows_anywhere(Rights::WRITE) { Ok(()) } else { Err(Denied::Stage(stage.id)) }
        }
        Message::Look { request, blob } | Message::Get { request, blob, .. } => {
            reads(*request, &mut std::iter::once(blob.keyspace))
        }
        Message::Stat { request, blobs } => reads(*request, &mut blobs.iter().map(|blob| blob.keyspace)),
        Message::Read { request, chunk, .. } | Message::Locate { request, chunk, .. } => {
            reads(*request, &mut std::iter::once(chunk.blob.keyspace))
        }
        Message::Scan { request, after, .. } => reads(*request, &mut std::iter::once(after.keyspace)),
        Message::Pin { request, .. } => of_session(request.session),
        Message::Freeze { freeze, stands } if stands.is_empty() => {
            of_session(freeze.request.session)?;
            // One that stays keeps others from writing.
            let needed = if freeze.stays { Rights::READ | Rights::WRITE } else { Rights::READ };
            let has = |keyspace: KeyspaceId| rights.rights(keyspace).has(needed);
            let may = match &freeze.extent {
                Extent::Blobs(blobs) => blobs.iter().all(|(_, blob)| has(blob.keyspace)),
                Extent::Prefixes(prefixes) => prefixes.iter().all(|(keyspace, _)| has(*keyspace)),
            };
            if may { Ok(()) } else { Err(Denied::Request(freeze.request)) }
        }
        Message::Freeze { .. }
        | Message::Frozen { .. }
        | Message::Pass { .. }
        | Message::Release { .. }
        | Message::Write { .. }
        | Message::Vote { .. }
        | Message::AskVote { .. }
        | Message::Outcome { .. }
        | Message::OutcomeStored { .. }
        | Message::Olds { .. }
        | Message::Ask { .. }
        | Message::AskNumber { .. }
        | Message::NumberLost { .. }
        | Message::Forget { .. }
        | Message::Forgotten { .. }
        | Message::Pull { .. }
        | Message::Pulled(_)
        | Message::Settle { .. }
        | Message::Settled { .. }
        | Message::Fetch { .. }
        | Message::Fetched { .. }
        | Message::Append { .. }
        | Message::Stored { .. }
        | Message::Reconcile { .. }
        | Message::Reconciled { .. }
        | Message::Copy { .. }
        | Message::Copied { .. }
        | Message::AskPins { .. }
        | Message::Pins { .. }
        | Message::Collected { .. }
        | Message::Collect { .. }
        | Message::Subscribe { .. }
        | Message::Cached { .. }
        | Message::Uncache { .. }
        | Message::Uncached { .. } => Err(Denied::Foreign),
    }
}

/// What a transaction's part at one blob takes: whether it is refused tells of what it has seen, and a transform tells what was there.
fn needed(head: &HeadPlan) -> Rights {
    let tells = |operation: &Operation| matches!(operation, Operation::Transform { .. });
    let writes = if head.operations.is_empty() { Rights::NONE } else { Rights::WRITE };
    let reads = head.operations.is_empty() || head.seen.is_some() || head.operations.iter().any(tells);
    if reads { writes | Rights::READ } else { writes }
}

/// What a question to the cluster manager takes of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing more than to have been let in.
    Nothing,
    /// These rights.
    Rights(Scope, Rights),
    /// To be a node.
    Node,
}

/// What a question takes.
pub(crate) fn needs_of(request: &Request) -> Needs {
    let cluster = Needs::Rights(Scope::Cluster, Rights::ADMINISTER);
    match request {
        Request::Ring(_) | Request::Newest(_) | Request::Report | Request::Hatch => Needs::Nothing,
        Request::Register(..) | Request::Lease(..) => Needs::Node,
        // A view names keyspaces and blobs, whoever may read them.
        Request::View(_) | Request::Token(_) | Request::Seal => cluster,
        Request::Command(command) => match command {
            Command::AlterKeyspace { id, .. } | Command::DropKeyspace(id) => {
                Needs::Rights(Scope::Keyspace(*id), Rights::ADMINISTER)
            }
            Command::Grant { scope: scope @ Scope::Keyspace(_), .. } => {
                Needs::Rights(*scope, Rights::ADMINISTER)
            }
            Command::Drain(_)
            | Command::Leave(_)
            | Command::Restore(_)
            | Command::Replace { .. }
            | Command::Abandon(_)
            | Command::GiveUp(_)
            | Command::CreateClass(..)
            | Command::CreateKeyspace { .. }
            | Command::CreateAccount { .. }
            | Command::RemoveAccount(_)
            | Command::Enroll { .. }
            | Command::Dismiss { .. }
            | Command::Grant { .. }
            | Command::RevokeTokens { .. }
            | Command::RemoveSeal(_) => cluster,
            Command::Found(_)
            | Command::Register { .. }
            | Command::Evict(_)
            | Command::RemoveReplica { .. }
            | Command::LearnerComplete { .. }
            | Command::Release { .. }
            | Command::Retarget { .. }
            | Command::Advance(_)
            | Command::Lose { .. }
            | Command::AddSeal(..) => Needs::Node,
        },
    }
}

/// What a client sees of a response: accounts are for administrators.
pub(crate) fn see(response: Response, rights: &Entitlement) -> Response {
    match response {
        Response::Ring(Difference { mut facts, next, reached }) => {
            if !super::sees_accounts(rights) {
                facts.retain(|fact| !matches!(fact, Fact::Account(..) | Fact::Seal(..)));
            }
            Response::Ring(Difference { facts, next, reached })
        }
        response => response,
    }
}
