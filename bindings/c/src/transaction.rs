//! Transactions.

use std::{
    ffi::{c_char, c_int},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{Mutex, MutexGuard};
use tyr_client::{
    Outcome, Pending as ClientPending, Receipt as ClientReceipt, Slot, Transaction as ClientTransaction,
    blocking,
};

use crate::{
    border,
    keyspace::{Keyspace, optional_bytes, range},
    list::{Content, List, told_of},
    memory::{Key, Out, Parts, Room, copied},
    operation::perform,
    options::{attribute, check, shown_number, transform},
    registry::{self, Used},
    status::{Failure, TYR_CONFLICT, TYR_NOT_FOUND},
    types::{
        tyr_async, tyr_buffer, tyr_bytes, tyr_check, tyr_content, tyr_keyspace, tyr_list, tyr_number,
        tyr_pending, tyr_receipt, tyr_stat, tyr_transaction, tyr_transform,
    },
};

/// A transaction. Its operations follow one another.
pub(crate) struct Transaction {
    held: Mutex<Held>,
    /// Those of its appends and transforms, in the order of their numbers.
    slots: Slots,
    /// Whether a run commits it.
    is_of_run: bool,
    /// Whether one of its operations has failed with `TYR_CONFLICT`.
    has_conflicted: AtomicBool,
}

type Slots = Arc<parking_lot::Mutex<Vec<Slot>>>;

/// What there is of a transaction until it has ended.
struct Held {
    transaction: Option<ClientTransaction>,
    waits: bool,
}

/// Finds out how a transaction ended.
pub(crate) struct Pending {
    pending: ClientPending,
    slots: Slots,
}

/// What a committed transaction resulted in.
pub(crate) struct Receipt {
    receipt: ClientReceipt,
    slots: Slots,
}

impl Transaction {
    /// One that has just begun, for who waits.
    pub fn new(transaction: ClientTransaction) -> Self {
        let held = Mutex::new(Held { transaction: Some(transaction), waits: true });
        Transaction { held, slots: Slots::default(), is_of_run: false, has_conflicted: false.into() }
    }

    /// One that a run commits.
    pub fn of_run(transaction: ClientTransaction) -> Self {
        Transaction { is_of_run: true, ..Transaction::new(transaction) }
    }

    /// Takes it back from who was lent it, unless an operation of it is under way.
    pub fn take(&self) -> Option<ClientTransaction> {
        self.held.try_lock().ok()?.transaction.take()
    }

    /// Whether one of its operations has met a conflict, so that it cannot commit.
    pub fn has_conflicted(&self) -> bool {
        self.has_conflicted.load(Ordering::SeqCst)
    }

    /// What an operation of it has resulted in.
    fn note(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        if result.as_ref().is_err_and(|failure| failure.status == TYR_CONFLICT) {
            self.has_conflicted.store(true, Ordering::SeqCst);
        }
        result
    }

    /// A receipt for it.
    pub fn receipt(&self, receipt: ClientReceipt) -> Arc<Receipt> {
        Arc::new(Receipt { receipt, slots: self.slots.clone() })
    }

    fn slot(&self, slot: Slot) -> Result<u32, Failure> {
        let mut slots = self.slots.lock();
        let number = u32::try_from(slots.len());
        let number =
            number.map_err(|_| Failure::invalid("the transaction has too many appends and transforms"))?;
        slots.push(slot);
        Ok(number)
    }

    /// What an operation works with, when those before it are done.
    async fn hold(&self, waits: bool) -> Result<MutexGuard<'_, Held>, Failure> {
        let mut held = self.held.lock().await;
        if held.waits != waits {
            let transaction = held.transaction.take().ok_or_else(ended)?;
            let ready = blocking::Transaction::from(transaction);
            held.transaction = Some(if waits { ready.into_ready() } else { ready.into() });
            held.waits = waits;
        }
        Ok(held)
    }
}

impl Held {
    fn open(&mut self) -> Result<&mut ClientTransaction, Failure> {
        self.transaction.as_mut().ok_or_else(ended)
    }
}

#[cold]
fn ended() -> Failure {
    Failure::invalid("the transaction has ended; begin another one")
}

/// The blob that a call is about.
type Target = (Used<Transaction>, Used<Keyspace>, Key, bool);

fn target(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    how: *mut tyr_async,
) -> Result<Target, Failure> {
    let waits = how.is_null();
    Ok((registry::find(transaction)?, registry::find(keyspace)?, copied(key, waits)?, waits))
}

/// Does what an operation of a transaction is to do, as [`perform`] does.
#[inline(always)]
fn operate(
    transaction: Arc<Transaction>,
    how: *mut tyr_async,
    doing: impl Future<Output = Result<(), Failure>> + 'static,
) -> Result<(), Failure> {
    perform(how, async move { transaction.note(doing.await) })
}

/// Reads into one buffer after the other, as long as there are bytes.
macro_rules! read_parts {
    ($buffers:expr, $offset:expr, |$at:ident, $buffer:ident| $read:expr) => {{
        let mut total = 0;
        for $buffer in $buffers {
            let $at = $offset.saturating_add(total as u64);
            let wanted = $buffer.len();
            let count = $read.await?;
            total += count;
            if count < wanted {
                break;
            }
        }
        total
    }};
}

pub(crate) use read_parts;

/// Frees a transaction. One that was not committed is rolled back, and nothing of it happened.
///
/// @param transaction The transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_free(transaction: *mut tyr_transaction) -> c_int {
    border::call(|| registry::remove::<Transaction>(transaction).map(drop))
}

/// Creates an empty blob. Fails with `TYR_EXISTS` if it exists.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_create(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            Ok(open.create(keyspace.of(waits), key).await?)
        })
    })
}

/// Deletes a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_delete(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            Ok(open.delete(keyspace.of(waits), key).await?)
        })
    })
}

/// Reads the bytes of a blob from `start` to before `end`, fewer if the blob ends there; holes are zeros. Fails with `TYR_NOT_FOUND`
/// if the blob does not exist. Fails with `TYR_INVALID` if the range may
/// contain bytes that this transaction appends, whose offset is known only at the commit.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param start The first byte.
/// @param end The byte after the last one, or `TYR_END`.
/// @param content Where the handle of the bytes goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_read(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    start: u64,
    end: u64,
    content: *mut *mut tyr_content,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let out = Out::required(content)?;
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            let bytes = open.read(keyspace.of(waits), key, range(start, end)).await?;
            out.put(registry::insert(Content::new(bytes)));
            Ok(())
        })
    })
}

/// Reads bytes of a blob at an offset into buffers, one after the other, all of one version. Otherwise like reading.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param offset The first byte.
/// @param buffers The buffers, which do not overlap.
/// @param count How many.
/// @param read Where it goes how many bytes there were, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_read_into(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    offset: u64,
    buffers: *const tyr_buffer,
    count: usize,
    read: *mut u64,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, room) = (Out::optional(read), Room::of(buffers, count)?);
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            let own = keyspace.of(waits);
            let count = match room {
                Room::One(buffer) => open.read_into(own, key, offset, buffer).await?,
                Room::Many(buffers) => {
                    read_parts!(buffers, offset, |offset, buffer| open.read_into(own, &key, offset, buffer))
                }
            };
            out.put(count as u64);
            Ok(())
        })
    })
}

/// The state of a blob. Fails with `TYR_NOT_FOUND` if it does not exist.
/// Size and attributes count as read.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param stat Where the state goes, or null.
/// @param attributes Where the list of its attributes goes, or null: items with `key` and `value`.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_stat(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    stat: *mut tyr_stat,
    attributes: *mut *mut tyr_list,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, listed) = (Out::optional(stat), Out::optional(attributes));
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            let stat = open.stat(keyspace.of(waits), key).await?;
            out.put(told_of(&stat));
            if listed.is_wanted() {
                listed.put(registry::insert(List::attributes(&stat.attributes)));
            }
            Ok(())
        })
    })
}

/// Whether a blob exists.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param exists Where it goes: 1 or 0.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_exists(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    exists: *mut c_int,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let out = Out::required(exists)?;
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            out.put(c_int::from(open.exists(keyspace.of(waits), key).await?));
            Ok(())
        })
    })
}

/// The value of an attribute. Fails with `TYR_NOT_FOUND` if the blob does not exist; if the attribute is not set, there is no
/// content: null.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param name The name of the attribute.
/// @param content Where the handle of the value goes.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_attribute(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    name: *const c_char,
    content: *mut *mut tyr_content,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, name) = (Out::required(content)?, attribute(name)?);
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            let value = open.attribute(keyspace.of(waits), key, &name).await?;
            out.put(value.map_or(std::ptr::null_mut(), |value| registry::insert(Content::new(value))));
            Ok(())
        })
    })
}

/// Writes bytes at an offset; creates the blob if it does not exist, and extends it as needed.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param offset Where they go.
/// @param parts What is written, one part after the other.
/// @param count How many parts.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_write(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    offset: u64,
    parts: *const tyr_bytes,
    count: usize,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let parts = Parts::of(parts, count)?.joined()?;
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            Ok(open.write(keyspace.of(waits), key, offset, parts).await?)
        })
    })
}

/// Makes the bytes the whole content of the blob; keeps its attributes, and creates it if it does not exist.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param parts What is written, one part after the other.
/// @param count How many parts.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_put(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    parts: *const tyr_bytes,
    count: usize,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let parts = Parts::of(parts, count)?.joined()?;
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            Ok(open.put(keyspace.of(waits), key, parts).await?)
        })
    })
}

/// Appends bytes, at an offset that the receipt tells; creates the blob if it does not exist.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param parts What is written, one part after the other.
/// @param count How many parts.
/// @param slot Where the number goes that the receipt is asked with, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_append(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    parts: *const tyr_bytes,
    count: usize,
    slot: *mut u32,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, parts) = (Out::optional(slot), Parts::of(parts, count)?.joined()?);
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            let slot = open.append(keyspace.of(waits), key, parts).await?;
            out.put(transaction.slot(slot)?);
            Ok(())
        })
    })
}

/// Makes the blob this long, cutting it or extending it with zeros. Fails with `TYR_NOT_FOUND` if it does not exist.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param size How long.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_truncate(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    size: u64,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            Ok(open.truncate(keyspace.of(waits), key, size).await?)
        })
    })
}

/// Leaves a hole in a blob: the bytes of the range read as zeros and take no room. The size stays. Fails with `TYR_NOT_FOUND` if it does not
/// exist, and in a directory, at the commit, with `TYR_INVALID` if it is more than 64 GiB of what there is.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param start The first byte.
/// @param end The byte after the last one.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_punch(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    start: u64,
    end: u64,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            Ok(open.punch(keyspace.of(waits), key, start..end).await?)
        })
    })
}

/// Sets an attribute, or unsets it. Fails with `TYR_NOT_FOUND` if the blob does not exist, and with `TYR_INVALID`, now or at the commit, if its
/// attributes would be too large.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param name The name of the attribute.
/// @param value Its value, or null to unset it.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_set_attribute(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    name: *const c_char,
    value: *const tyr_bytes,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (name, value) = (attribute(name)?, optional_bytes(value)?);
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            Ok(open.set_attribute(keyspace.of(waits), key, &name, value.as_deref()).await?)
        })
    })
}

/// Transforms the number at an offset when the transaction commits; the receipt tells the old value. Creates the blob if it does not exist,
/// and extends it with zeros as needed.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param offset Where the number is.
/// @param transform The transform.
/// @param slot Where the number goes that the receipt is asked with, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_transform(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    offset: u64,
    transform: *const tyr_transform,
    slot: *mut u32,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, transform) = (Out::optional(slot), self::transform(transform)?);
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            let slot = open.transform(keyspace.of(waits), key, offset, transform).await?;
            out.put(transaction.slot(slot)?);
            Ok(())
        })
    })
}

/// Makes the commit a conflict unless the condition holds then. It is about the committed state of the blob; changes of this transaction do
/// not count.
///
/// @param transaction The transaction.
/// @param keyspace The keyspace of the blob.
/// @param key The blob's key: 1 to 4096 bytes.
/// @param check The condition.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_check(
    transaction: *const tyr_transaction,
    keyspace: *const tyr_keyspace,
    key: tyr_bytes,
    check: *const tyr_check,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let check = self::check(check)?;
        let (transaction, keyspace, key, waits) = target(transaction, keyspace, key, how)?;
        operate(transaction.arc(), how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.open()?;
            Ok(open.check(keyspace.of(waits), key, check)?)
        })
    })
}

/// Commits. Everything that was done happens at one point in time, or nothing. Fails with `TYR_CONFLICT` if something that was read has
/// changed meanwhile, or a check does not hold: then begin another transaction. `tyr_store_run` does so by itself.
///
/// Any other error says that nothing happened, except `TYR_UNAVAILABLE`, and `TYR_DENIED` if the client lost its rights while it waited for a
/// cluster: their texts say what is known. `tyr_pending_outcome` finds out the rest, for who is let in. The transaction has ended then; its
/// handle is still to be freed.
///
/// @param transaction The transaction.
/// @param receipt Where the handle of the receipt goes, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_commit(
    transaction: *const tyr_transaction,
    receipt: *mut *mut tyr_receipt,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let (out, waits) = (Out::optional(receipt), how.is_null());
        let transaction = registry::find::<Transaction>(transaction)?;
        if transaction.is_of_run {
            return Err(Failure::invalid("a run commits its transaction by itself, when its body returns"));
        }
        perform(how, async move {
            let mut held = transaction.hold(waits).await?;
            let open = held.transaction.take().ok_or_else(ended)?;
            settle(open.commit().await?, &transaction.slots, &out)
        })
    })
}

fn settle(outcome: Outcome, slots: &Slots, out: &Out<*mut tyr_receipt>) -> Result<(), Failure> {
    match outcome {
        Outcome::Committed(receipt) => {
            if out.is_wanted() {
                out.put(registry::insert(Arc::new(Receipt { receipt, slots: slots.clone() })));
            }
            Ok(())
        }
        Outcome::Conflict(conflict) => Err(Failure::conflict(&conflict)),
    }
}

/// What finds out how a transaction ended, in case that its commit is not answered in time. To be asked for before the commit.
///
/// @param transaction The transaction.
/// @param pending Where its handle goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_transaction_pending(
    transaction: *const tyr_transaction,
    pending: *mut *mut tyr_pending,
) -> c_int {
    border::call(|| {
        let out = Out::required(pending)?;
        let transaction = registry::find::<Transaction>(transaction)?;
        let held = transaction.held.try_lock();
        let held = held.map_err(|_| Failure::invalid("an operation of the transaction is under way"))?;
        let pending = held.transaction.as_ref().ok_or_else(ended)?.pending();
        out.put(registry::insert(Arc::new(Pending { pending, slots: transaction.slots.clone() })));
        Ok(())
    })
}

/// How the transaction ended, as its commit would have told; waits for that. May be asked again. In a directory only opening the store
/// again tells, and this fails with `TYR_UNAVAILABLE`.
///
/// @param pending What finds it out.
/// @param receipt Where the handle of the receipt goes, or null.
/// @param how Null to wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_pending_outcome(
    pending: *const tyr_pending,
    receipt: *mut *mut tyr_receipt,
    how: *mut tyr_async,
) -> c_int {
    border::call(|| {
        let out = Out::optional(receipt);
        let pending = registry::find::<Pending>(pending)?;
        perform(how, async move { settle(pending.pending.outcome().await?, &pending.slots, &out) })
    })
}

/// Frees what finds out how a transaction ended. Nobody else keeps that.
///
/// @param pending What finds it out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_pending_free(pending: *mut tyr_pending) -> c_int {
    border::call(|| registry::remove::<Pending>(pending).map(drop))
}

/// The number of the transaction: that of the versions it wrote; 0 in a cluster, where it has none of its own.
///
/// @param receipt The receipt.
/// @param number Where it goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_receipt_number(receipt: *const tyr_receipt, number: *mut u64) -> c_int {
    border::call(|| {
        let out = Out::required(number)?;
        out.put(registry::find::<Receipt>(receipt)?.receipt.number().to_u64());
        Ok(())
    })
}

/// The offset at which an append put its bytes. Fails with `TYR_NOT_FOUND` if the slot is not that of an append of the transaction.
///
/// @param receipt The receipt.
/// @param slot What the append told.
/// @param offset Where the offset goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_receipt_offset(
    receipt: *const tyr_receipt,
    slot: u32,
    offset: *mut u64,
) -> c_int {
    border::call(|| {
        let out = Out::required(offset)?;
        let receipt = registry::find::<Receipt>(receipt)?;
        let offset = receipt.slot(slot).and_then(|slot| receipt.receipt.offset(slot));
        out.put(offset.ok_or_else(|| not_of(slot, "an append"))?);
        Ok(())
    })
}

/// The value that a transform replaced. Fails with `TYR_NOT_FOUND` if the slot is not that of a transform of the transaction.
///
/// @param receipt The receipt.
/// @param slot What the transform told.
/// @param old Where the value goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_receipt_old(
    receipt: *const tyr_receipt,
    slot: u32,
    old: *mut tyr_number,
) -> c_int {
    border::call(|| {
        let out = Out::required(old)?;
        let receipt = registry::find::<Receipt>(receipt)?;
        let old = receipt.slot(slot).and_then(|slot| receipt.receipt.old(slot));
        out.put(shown_number(old.ok_or_else(|| not_of(slot, "a transform"))?));
        Ok(())
    })
}

/// Frees a receipt.
///
/// @param receipt The receipt.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_receipt_free(receipt: *mut tyr_receipt) -> c_int {
    border::call(|| registry::remove::<Receipt>(receipt).map(drop))
}

impl Receipt {
    fn slot(&self, number: u32) -> Option<Slot> {
        self.slots.lock().get(usize::try_from(number).ok()?).copied()
    }
}

#[cold]
fn not_of(slot: u32, what: &str) -> Failure {
    Failure {
        status: TYR_NOT_FOUND,
        message: format!("slot {slot} is not that of {what} of the transaction"),
    }
}

#[cfg(test)]
mod tests {
    use tyr_client::Error;

    use super::*;

    #[test]
    fn a_transaction_knows_whether_an_operation_of_it_has_met_a_conflict() {
        let transaction = Transaction {
            held: Mutex::new(Held { transaction: None, waits: true }),
            slots: Slots::default(),
            is_of_run: true,
            has_conflicted: false.into(),
        };
        assert!(transaction.note(Err(Error::not_found("nothing").into())).is_err());
        assert!(!transaction.has_conflicted());
        assert!(transaction.note(Err(Error::conflict("changed").into())).is_err());
        assert!(transaction.note(Ok(())).is_ok() && transaction.has_conflicted());
    }
}
