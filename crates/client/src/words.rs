//! What callers are told.

use tyr_proto::{
    Refusal,
    access::{Rights, Scope},
    cluster,
};
use tyr_types::{ATTRIBUTES_SIZE_MAX, Error, Key, KeyspaceName};

/// The store was closed.
#[cold]
pub fn closed() -> Error {
    Error::unavailable("the store is closed; open it again")
}

/// The store was closed before it was known whether something happened that was sent.
#[cold]
pub fn closed_and_unknown() -> Error {
    Error::unavailable(
        "the store was closed before an answer came: it is not known whether this happened, but it happens once at most, as a whole; \
         read what it wrote before doing it again",
    )
}

/// Nobody would know with which of them it works.
#[cold]
pub fn two_clusters(addresses: &[String]) -> Error {
    let addresses = addresses.join(", ");
    Error::invalid(format!("the nodes at {addresses} are of 2 clusters; name nodes of one"))
}

/// Nothing was heard in time of something that changes nothing.
#[cold]
pub fn no_answer(troubles: &str) -> Error {
    Error::unavailable(format!("no answer came in time{troubles}; try again later"))
}

/// Nothing was heard in time of something that had not begun.
#[cold]
pub fn not_begun(troubles: &str) -> Error {
    Error::unavailable(format!(
        "nothing of it happened, and nothing will: it could not begin in time{troubles}; try again later",
    ))
}

/// It is not known how a transaction ended.
#[cold]
pub fn unknown(troubles: &str) -> Error {
    Error::unavailable(format!(
        "no answer came in time{troubles}: it is not known whether this happened, but it happens once at most, as a whole, and is \
         still being found out; read what it wrote before doing it again, or, in a program, ask the transaction's Pending for its outcome",
    ))
}

/// It is not known whether the cluster manager did what was asked.
#[cold]
pub fn unknown_command(troubles: &str) -> Error {
    Error::unavailable(format!(
        "the cluster manager did not answer in time{troubles}: it is not known whether this happened; look, then try again",
    ))
}

/// Somebody asks how a transaction ended that was rolled back, or goes on.
#[cold]
pub fn not_committed() -> Error {
    Error::invalid("the transaction was not committed, so it has no outcome")
}

/// Nobody will ever know how a transaction ended.
#[cold]
pub fn forgotten() -> Error {
    Error::unavailable(
        "nobody knows any more whether this happened: the cluster heard nothing of this client for too long; read what it wrote \
         before doing it again",
    )
}

/// A refusal of something that is as it is however often it is tried.
#[cold]
pub fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Conflict => Error::conflict("something that was read has changed meanwhile; run it again"),
        Refusal::Exists => Error::exists("the blob exists already; delete it first, or write to it"),
        Refusal::NotFound => Error::not_found("the blob does not exist; write or create it first"),
        Refusal::Invalid => Error::invalid(
            "an operation is not possible, such as a write past 2^63-1; use a smaller offset or size",
        ),
        Refusal::TooLarge => Error::invalid(
            "it is more than one transaction can do, or a blob would have more chunks than one can delete; do it in several, or keep the \
             blob in a keyspace with larger chunks",
        ),
        Refusal::TooManyAttributes => Error::invalid(format!(
            "a blob's attributes would have more than {ATTRIBUTES_SIZE_MAX} bytes in all; remove or shorten some of them first"
        )),
        Refusal::Full => {
            Error::full("a node has no room for it; delete something or add a node, then try again")
        }
        Refusal::Quota => Error::full(
            "the keyspace would grow past its quota; delete or shrink something, or have who runs the cluster raise it with \
             'tyr keyspace alter --quota'",
        ),
        Refusal::TooFewReplicas => Error::unavailable(
            "nothing of it happened: too few replicas of a partition are left to take writes; bring nodes back, then try again",
        ),
        Refusal::Denied => denied(),
        Refusal::Busy => Error::unavailable(
            "nothing of it happened: too much is under way at a blob or a partition that it needs; try again later",
        ),
        Refusal::Fenced | Refusal::Unstaged => {
            Error::unavailable("nothing of it happened: a node failed meanwhile; try again")
        }
    }
}

/// The client has not the right.
#[cold]
pub fn denied() -> Error {
    Error::denied(
        "there is no right to do this in the keyspace; ask who administers it, who can grant it with 'tyr grant'",
    )
}

/// What was written is nowhere any more.
#[cold]
pub fn bytes_lost() -> Error {
    Error::corrupt(
        "bytes that were written to the blob are lost: the nodes that held them in memory have ended; write the blob anew, or delete it",
    )
}

/// Nobody lets the client in any more, and it is not known whether what it had sent happened.
#[cold]
pub fn unknown_and_denied(reason: &str) -> Error {
    Error::denied(format!(
        "{reason}; it is not known whether this happened: it does once at most, as a whole; read what it wrote before doing it again"
    ))
}

/// The client has not the rights that a change of the cluster takes.
#[cold]
pub fn lacks(scope: Scope, rights: Rights) -> Error {
    let what = match scope {
        Scope::Cluster => "the cluster",
        Scope::Keyspaces => "all keyspaces",
        Scope::Keyspace(_) => "the keyspace",
    };
    Error::denied(format!("this takes the right to {rights} {what}; ask who administers the cluster"))
}

/// A refusal of the cluster manager.
#[cold]
pub fn not_managed(refusal: cluster::Refusal) -> Error {
    let text = format!("the cluster manager refused: {refusal}");
    match refusal {
        cluster::Refusal::NotFound => Error::not_found(text),
        cluster::Refusal::Taken => Error::exists(text),
        cluster::Refusal::Invalid => Error::invalid(text),
        cluster::Refusal::NotEntitled => Error::denied(text),
        cluster::Refusal::NotFounded
        | cluster::Refusal::Stale
        | cluster::Refusal::TooFew
        | cluster::Refusal::Busy
        | cluster::Refusal::LastCopy => Error::unavailable(text),
        cluster::Refusal::NoSecret => Error::invalid(text),
    }
}

/// A blob that does not exist.
#[cold]
pub fn no_blob(keyspace: &str, key: &Key) -> Error {
    Error::not_found(format!("keyspace '{keyspace}' has no blob '{key}'; write or create it first"))
}

/// A keyspace that does not exist.
#[cold]
pub fn no_keyspace(name: &str) -> Error {
    let name = name.escape_debug();
    Error::not_found(format!("there is no keyspace '{name}'; create it first"))
}

/// A keyspace of a name that is taken.
#[cold]
pub fn keyspace_exists(name: &KeyspaceName) -> Error {
    Error::exists(format!("keyspace '{name}' exists already; choose another name or drop it first"))
}

/// A keyspace that exists no more.
#[cold]
pub fn dropped(name: &str) -> Error {
    Error::not_found(format!("keyspace '{name}' was dropped"))
}

/// What a cluster cannot do.
#[cold]
pub fn not_in_a_cluster(what: &str) -> Error {
    Error::invalid(format!("{what}: a cluster cannot do that yet; it works on stores in a directory"))
}
