//! What is done to objects in one transaction each.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use object_store::{PutMode, PutPayload, Result};
use tyr_client::{BlobId, Check, ErrorKind, Keyspace, Stat, Transaction};

use crate::{errors, object::Object};

/// What a step makes of what it found: a refusal is no error of the transaction. Who refuses has changed nothing.
pub type Decided = tyr_client::Result<Result<bool>>;

/// So many bytes are moved in one transaction.
pub const DIRECT_MAX: u64 = 64 << 20;
/// The attribute of a blob with an object's bytes that names the object.
const USED: &str = "object.path";
/// Smaller pieces of a payload are written together.
const PIECE_MIN: usize = 4 << 20;
/// Larger ones are cut: a cluster takes 1 GiB in one write at most, and of that 256 MiB into one chunk.
const PIECE_MAX: usize = 32 << 20;

/// Something that is done in one transaction, which may run several times.
#[async_trait]
pub trait Step: Send + Sync {
    /// Does it, and says whether that changed anything.
    async fn take(&self, transaction: &mut Transaction) -> Decided;
}

/// Makes an object what is at a path, with its bytes if it does not have them elsewhere.
pub struct Placing {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The path.
    pub path: String,
    /// The object,
    pub object: Object,
    /// and what its blob's attributes say of it.
    pub attributes: Vec<(String, Vec<u8>)>,
    /// The bytes.
    pub bytes: PutPayload,
    /// What may be there.
    pub mode: PutMode,
}

#[async_trait]
impl Step for Placing {
    async fn take(&self, transaction: &mut Transaction) -> Decided {
        let Placing { keyspace, path, object, attributes, bytes, mode } = self;
        let before = find(transaction, keyspace, path).await?;
        if object.data.is_some() && before.as_ref().is_some_and(|before| before.data == object.data) {
            // It was placed before, and that was not answered.
            return Ok(Ok(true));
        }
        match (mode, &before) {
            (PutMode::Create, Some(_)) => return Ok(Err(errors::exists(path))),
            (PutMode::Update(version), before) => match before {
                Some(before) if version.e_tag.as_ref() == Some(&before.tag) => {
                    require_unchanged(transaction, keyspace, path, before)?;
                }
                _ => return Ok(Err(errors::changed(path))),
            },
            (PutMode::Create | PutMode::Overwrite, _) => {}
        }
        if let Some(data) = &object.data {
            match uploaded(transaction, keyspace, data, object.upload).await? {
                Uploaded::Removed => return Ok(Err(errors::removed(path))),
                // It was placed before, and has moved since.
                Uploaded::Placed => return Ok(Ok(true)),
                Uploaded::Unplaced => {}
            }
        }
        remove(transaction, keyspace, path, before.as_ref(), object.data.as_deref()).await?;
        put(transaction, keyspace, path, attributes, bytes).await?;
        if let Some(data) = &object.data {
            transaction.set_attribute(keyspace, data, USED, Some(path.as_bytes())).await?;
        }
        Ok(Ok(true))
    }
}

/// Moves an object: its name alone if its bytes lie elsewhere, or have been copied before, if it is still the one that was copied.
/// Otherwise nothing is done.
pub struct Moving {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// Where it is,
    pub from: String,
    /// and is to be.
    pub to: String,
    /// Whether nothing may be there.
    pub creates: bool,
    /// The tag of what was copied, and the copy.
    pub copied: Option<(String, Object)>,
}

#[async_trait]
impl Step for Moving {
    async fn take(&self, transaction: &mut Transaction) -> Decided {
        let Moving { keyspace, from, to, creates, copied } = self;
        let Some(object) = find(transaction, keyspace, from).await? else {
            return Ok(Err(errors::missing(from)));
        };
        let before = find(transaction, keyspace, to).await?;
        if *creates && before.is_some() {
            return Ok(Err(errors::exists(to)));
        }
        let (moved, bytes) = match copied {
            Some((tag, _)) if *tag != object.tag => return Ok(Ok(false)),
            Some((_, copy)) => {
                require_unchanged(transaction, keyspace, from, &object)?;
                if let Some(data) = &copy.data
                    && let Uploaded::Removed = uploaded(transaction, keyspace, data, copy.upload).await?
                {
                    return Ok(Err(errors::removed(to)));
                }
                (copy.clone(), Vec::new())
            }
            None if object.data.is_none() && object.size > DIRECT_MAX => return Ok(Ok(false)),
            None => {
                let bytes = match object.data {
                    Some(_) => Vec::new(),
                    None => transaction.read(keyspace, from, 0..object.size).await?,
                };
                (Object::new(object.size, object.data.clone(), object.attributes.clone()), bytes)
            }
        };
        let attributes = match moved.blob_attributes() {
            Ok(attributes) => attributes,
            Err(error) => return Ok(Err(error)),
        };
        // Bytes that lie elsewhere are kept if the new name has them.
        let kept = moved.data.as_deref();
        remove(transaction, keyspace, to, before.as_ref(), kept).await?;
        put(transaction, keyspace, to, &attributes, &bytes.into()).await?;
        remove(transaction, keyspace, from, Some(&object), kept).await?;
        if let Some(data) = kept {
            transaction.set_attribute(keyspace, data, USED, Some(to.as_bytes())).await?;
        }
        Ok(Ok(true))
    }
}

/// Deletes an object, if there is one.
pub struct Deleting {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The path.
    pub path: String,
}

#[async_trait]
impl Step for Deleting {
    async fn take(&self, transaction: &mut Transaction) -> Decided {
        let found = find(transaction, &self.keyspace, &self.path).await?;
        remove(transaction, &self.keyspace, &self.path, found.as_ref(), None).await?;
        Ok(Ok(found.is_some()))
    }
}

/// Deletes bytes that are no object's.
pub struct Sweeping {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The key of their blob.
    pub key: Vec<u8>,
}

#[async_trait]
impl Step for Sweeping {
    async fn take(&self, transaction: &mut Transaction) -> Decided {
        let Sweeping { keyspace, key } = self;
        let stat = match transaction.stat(keyspace, key).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(false)),
            stat => stat?,
        };
        if is_used(transaction, keyspace, key, &stat).await? {
            return Ok(Ok(false));
        }
        transaction.delete(keyspace, key).await?;
        Ok(Ok(true))
    }
}

/// A payload in pieces that are neither small nor large, however it was cut: each is a write.
pub fn recut(payload: &PutPayload) -> Vec<Bytes> {
    let (mut pieces, mut joined) = (Vec::new(), BytesMut::new());
    let cut = payload.iter().flat_map(|whole| {
        let starts = (0..whole.len()).step_by(PIECE_MAX);
        starts.map(|start| whole.slice(start..whole.len().min(start + PIECE_MAX)))
    });
    for piece in cut {
        if joined.is_empty() && piece.len() >= PIECE_MIN {
            pieces.push(piece);
            continue;
        }
        joined.extend_from_slice(&piece);
        if joined.len() >= PIECE_MIN {
            pieces.push(joined.split().freeze());
        }
    }
    pieces.extend((!joined.is_empty()).then(|| joined.freeze()));
    pieces
}

/// What has become of the bytes of an upload.
enum Uploaded {
    /// The blob that was made for them is gone. What may be there is another one, of the parts that came after.
    Removed,
    /// An object has them.
    Placed,
    /// No object has them.
    Unplaced,
}

async fn uploaded(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    data: &[u8],
    upload: Option<BlobId>,
) -> tyr_client::Result<Uploaded> {
    Ok(match transaction.stat(keyspace, data).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Uploaded::Removed,
        stat => match stat? {
            stat if upload != Some(stat.blob) => Uploaded::Removed,
            stat if is_used(transaction, keyspace, data, &stat).await? => Uploaded::Placed,
            _ => Uploaded::Unplaced,
        },
    })
}

/// Whether an object has the bytes of a blob.
async fn is_used(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    data: &[u8],
    stat: &Stat,
) -> tyr_client::Result<bool> {
    let path = stat.attributes.value(USED).and_then(|path| std::str::from_utf8(path).ok());
    let object = match path {
        Some(path) => find(transaction, keyspace, path).await?,
        None => None,
    };
    Ok(object.is_some_and(|object| object.data.as_deref() == Some(data)))
}

async fn find(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    path: &str,
) -> tyr_client::Result<Option<Object>> {
    match transaction.stat(keyspace, path).await {
        Ok(stat) => Ok(Some(Object::of(&stat))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes it a conflict if anybody writes to an object that was found before this is committed, also if that leaves its size and attributes
/// as they are.
fn require_unchanged(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    path: &str,
    found: &Object,
) -> tyr_client::Result<()> {
    match found.version {
        Some(version) => transaction.check(keyspace, path, Check::Version(version)),
        None => Ok(()),
    }
}

/// Removes an object that was found, with its bytes and what it has left, but for a blob of bytes that is kept.
async fn remove(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    path: &str,
    found: Option<&Object>,
    kept: Option<&[u8]>,
) -> tyr_client::Result<()> {
    let Some(object) = found else { return Ok(()) };
    let named = object.data.iter().chain(&object.leftover).map(Vec::as_slice);
    for data in named.filter(|data| kept != Some(*data)) {
        // Who copies a blob with its attributes by other means makes one that names what is not its own.
        match transaction.attribute(keyspace, data, USED).await {
            Ok(Some(used)) if used == path.as_bytes() => transaction.delete(keyspace, data).await?,
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    transaction.delete(keyspace, path).await
}

/// Puts a blob where there is none.
async fn put(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    path: &str,
    attributes: &[(String, Vec<u8>)],
    bytes: &PutPayload,
) -> tyr_client::Result<()> {
    transaction.create(keyspace, path).await?;
    for (name, value) in attributes {
        transaction.set_attribute(keyspace, path, name, Some(value)).await?;
    }
    let mut offset = 0;
    for piece in recut(bytes) {
        let length = piece.len() as u64;
        transaction.write(keyspace, path, offset, piece).await?;
        offset += length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(payload: &PutPayload) -> Vec<usize> {
        recut(payload).iter().map(Bytes::len).collect()
    }

    #[test]
    fn small_pieces_are_joined_and_large_ones_are_cut() {
        let piece = |length: usize| Bytes::from(vec![7; length]);
        assert_eq!(lengths(&PutPayload::new()), []);
        assert_eq!(lengths(&piece(PIECE_MIN).into()), [PIECE_MIN]);
        assert_eq!(lengths(&[1, 2, PIECE_MIN, 3].map(piece).into_iter().collect()), [PIECE_MIN + 3, 3]);
        assert_eq!(lengths(&piece(PIECE_MAX).into()), [PIECE_MAX]);
        let large = piece(3 * PIECE_MAX + 5);
        let pieces = recut(&large.clone().into());
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE_MAX, PIECE_MAX, PIECE_MAX, 5]);
        assert_eq!(pieces[1].as_ptr(), large[PIECE_MAX..].as_ptr(), "nothing large is copied");
        assert!(pieces.concat() == large);
    }
}
