//! Running a transaction until it commits.

use std::{
    ffi::{c_int, c_void},
    sync::Arc,
};

use tyr_client::{Error, ErrorKind};

use crate::{
    border,
    memory::Out,
    registry,
    status::{Failure, TYR_OK, clear, kind_of, tyr_error_message},
    store::Store,
    transaction::Transaction,
    types::{tyr_body, tyr_receipt, tyr_store},
};

/// Runs a body in a transaction and commits it, on the calling thread. After a conflict it is run again with another transaction, after a
/// pause; after a few conflicts, writers of what it touches wait until it had its turn, so that it is not starved. So the body may run
/// several times and should do nothing besides that cannot be repeated. It is run until it commits or fails: a check of what it has not
/// read itself, and that does not come true, has it run for ever.
///
/// A status of the body that is not `TYR_OK` rolls back and is returned, unless it came from blobs whose states do not fit together: then
/// the body is run again. Whether it did is asked of the cluster; if nobody answers, the run fails with `TYR_UNAVAILABLE` instead. `TYR_CONFLICT` has the
/// body run again if an operation of its transaction has failed with that, and is a status like others if none has. The text of the error is that of the last
/// call in the body that failed. The body does not commit its transaction, whose handle is dead after the body returns; its operations have to end
/// before that.
///
/// A body that frees its transaction has rolled it back. If it returns `TYR_OK`, the run ends as with a status, but with `TYR_OK`: nothing
/// of it happened, and the receipt is null.
///
/// @param store The store.
/// @param body What is done in the transaction.
/// @param context What the body is given.
/// @param receipt Where the handle of the receipt goes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_store_run(
    store: *const tyr_store,
    body: tyr_body,
    context: *mut c_void,
    receipt: *mut *mut tyr_receipt,
) -> c_int {
    // What the body returned last, and whether that is how the run has ended.
    let (mut own, mut is_own) = (TYR_OK, false);
    let status = border::call(|| {
        let out = Out::optional(receipt);
        let store = registry::find::<Store>(store)?;
        let body = body.ok_or_else(|| Failure::invalid("the body is null"))?;
        let store = store.of(true);
        let ran = pollster::block_on(store.run(async |theirs| {
            // What is put in its place costs nothing and does nothing.
            let lent = Arc::new(Transaction::of_run(std::mem::replace(theirs, store.begin())));
            let handle = registry::insert(lent.clone());
            // What failed before is not what the body tells of.
            clear();
            // SAFETY: the program says that it can be called with its context and a transaction.
            let status = unsafe { body(context, handle) };
            own = status;
            // Who frees a transaction rolls it back.
            let is_freed = registry::remove::<Transaction>(handle).is_err();
            *theirs = lent.take().ok_or_else(under_way)?;
            result_of(status, &lent)?;
            if is_freed { Err(Error::invalid(ROLLED_BACK)) } else { Ok(lent) }
        }));
        let committed = match ran {
            Err(error) if own == TYR_OK && error.message() == ROLLED_BACK => {
                out.put(std::ptr::null_mut());
                return Ok(());
            }
            Err(error) if own != TYR_OK && error == made_up(own) => {
                is_own = true;
                return Err(error.into());
            }
            ran => ran?,
        };
        if out.is_wanted() {
            out.put(registry::insert(committed.value.receipt(committed.receipt)));
        }
        Ok(())
    });
    // What the body has made up is passed on; what it stood for here does not matter.
    if is_own { own } else { status }
}

/// What ends the run of a body that has rolled back by itself. The program does not see it.
const ROLLED_BACK: &str = "the body of the run has freed its transaction";

/// What a status of a body means for the run of its transaction.
fn result_of(status: c_int, transaction: &Transaction) -> Result<(), Error> {
    if status == TYR_OK {
        return Ok(());
    }
    let Some(kind) = kind_of(status) else { return Err(made_up(status)) };
    if kind == ErrorKind::Conflict && !transaction.has_conflicted() {
        // Another transaction would meet it again, and the run would never end.
        return Err(made_up(status));
    }
    // SAFETY: the text of this thread, which ends with a zero.
    let message = unsafe { std::ffi::CStr::from_ptr(tyr_error_message()) }.to_string_lossy().into_owned();
    // Who has met a conflict on another thread has no text here.
    if message.is_empty() && kind != ErrorKind::Conflict {
        return Err(made_up(status));
    }
    Err(match kind {
        ErrorKind::Conflict => Error::conflict(message),
        ErrorKind::Unavailable => Error::unavailable(message),
        ErrorKind::NotFound => Error::not_found(message),
        ErrorKind::Exists => Error::exists(message),
        ErrorKind::Denied => Error::denied(message),
        ErrorKind::Full => Error::full(message),
        ErrorKind::Expired => Error::expired(message),
        ErrorKind::Corrupt => Error::corrupt(message),
        ErrorKind::Internal => Error::internal(message),
        _ => Error::invalid(message),
    })
}

/// What stands in a run for a status that no call in the body has failed with.
fn made_up(status: c_int) -> Error {
    Error::invalid(format!("the body of the run has ended it with {status}"))
}

#[cold]
fn under_way() -> Error {
    Error::invalid("operations of a run's transaction have to end before its body returns")
}
