//! Access control: `tyr user`, `tyr group`, `tyr grant`, `tyr revoke`, `tyr token`, `tyr secret`, and `tyr audit`.

pub mod account;
pub mod audit;
mod directory;
pub mod grant;
pub mod secret;
pub mod token;

use tyr_server::{ClusterCommand, Operator, Refusal};
use tyr_types::Error;

use crate::failure::Result;

/// Has something carried out, which is named in words if it is refused.
fn command(operator: &mut Operator, command: ClusterCommand, what: &str) -> Result<tyr_server::Answer> {
    Ok(operator.command(command)?.map_err(|refusal| refused(refusal).context(what))?)
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Taken => Error::exists("there is one of this name already, or there are too many"),
        Refusal::NotFound => Error::not_found("it does not exist any more"),
        Refusal::Invalid => {
            Error::invalid("that is not possible: only users have tokens and belong to groups")
        }
        Refusal::NoSecret => Error::invalid(format!(
            "{refusal}; to begin with access control, stop all nodes and start them with --secret-file"
        )),
        other => Error::unavailable(other.to_string()),
    }
}

/// Random bits, from the seed that the standard library draws for its maps.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
