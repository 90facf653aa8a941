//! The store: objects of a keyspace.

use std::{fmt, ops::Range, path::Path as Place};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{
    StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    RenameTargetMode, Result, path::Path,
};
use tyr_client::{BlobId, ErrorKind, Keyspace, KeyspaceSettings, Store, Transaction};

use crate::{
    content::Content,
    errors,
    object::{DATA_PREFIX, Object, begun},
    steps::{DIRECT_MAX, Deleting, Moving, Placing, Step, Sweeping, recut},
    upload::Upload,
};

/// So many names are listed at once.
const PAGE: usize = 1000;
/// So many objects are deleted at once.
const DELETES: usize = 16;

/// An object store: the blobs of a keyspace.
#[derive(Clone)]
pub struct TyrObjects {
    store: Store,
    keyspace: Keyspace,
}

impl fmt::Debug for TyrObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TyrObjects").field("keyspace", &self.keyspace.name()).finish_non_exhaustive()
    }
}

impl fmt::Display for TyrObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Týr({})", self.keyspace.name())
    }
}

impl TyrObjects {
    /// The objects of a keyspace of an open store. Fails if the keyspace keeps no versions: what is read of an object while another one is put
    /// would be of both. Fails, too, if the store keeps [copies](tyr_client::OpenOptions::copies): nothing holds what was seen of those, so that it may be gone
    /// before it is read.
    pub fn new(store: Store, keyspace: Keyspace) -> Result<Self> {
        require_versions(&keyspace)?;
        if store.keeps_copies() {
            return Err(errors::generic(
                "the store keeps copies of what it has read, so what is read of an object that is being replaced could be lost; open it without \
                 OpenOptions::copies",
            ));
        }
        Ok(TyrObjects { store, keyspace })
    }

    /// The keyspace whose blobs these are.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Opens a directory or the URL of a cluster, and a keyspace there, which is made if it does not exist. Otherwise as [`TyrObjects::new`].
    pub async fn open(name: impl AsRef<Place>, keyspace: &str) -> Result<Self> {
        let failed = |error| errors::at(keyspace, error);
        let store = Store::open(name).await.map_err(failed)?;
        let found = match store.keyspace(keyspace) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match store.create_keyspace(keyspace, KeyspaceSettings::default()).await {
                    // Somebody was faster.
                    Err(error) if error.kind() == ErrorKind::Exists => store.keyspace(keyspace),
                    made => made,
                }
            }
            found => found,
        };
        Self::new(store, found.map_err(failed)?)
    }

    /// Deletes what uploads have left that began before a time and were neither completed nor aborted. Returns how many. One that is still
    /// under way is refused when it is completed, whatever parts come after.
    pub async fn remove_abandoned(&self, before: DateTime<Utc>) -> Result<usize> {
        let mut removed = 0;
        let mut after: Option<Vec<u8>> = None;
        loop {
            let keys = self.page(DATA_PREFIX.to_vec(), after).await?;
            let Some(last) = keys.last() else { return Ok(removed) };
            after = Some(last.clone());
            for key in keys.into_iter().filter(|key| begun(key).is_some_and(|begun| begun < before)) {
                removed += usize::from(self.delete_unused(key).await?);
            }
        }
    }

    /// Makes an object what is at a path, with its bytes if it does not have them elsewhere.
    pub(crate) async fn place(
        &self,
        location: &Path,
        object: Object,
        bytes: PutPayload,
        mode: PutMode,
    ) -> Result<PutResult> {
        let (attributes, tag) = (object.blob_attributes()?, object.tag.clone());
        let path = location.to_string();
        let keyspace = self.keyspace.clone();
        let step = Placing { keyspace, path: path.clone(), object, attributes, bytes, mode };
        self.take(path, step).await?;
        Ok(PutResult { e_tag: Some(tag), version: None, extensions: Default::default() })
    }

    /// Takes a step, until it is not disturbed.
    fn take(&self, path: String, step: impl Step + 'static) -> BoxFuture<'static, Result<bool>> {
        self.run(path, Box::new(step))
    }

    fn run(&self, path: String, step: Box<dyn Step>) -> BoxFuture<'static, Result<bool>> {
        let store = self.store.clone();
        Box::pin(async move {
            let failed = |error| errors::at(path.clone(), error);
            let mut retry = store.retry();
            loop {
                let mut transaction = retry.begin().await.map_err(failed)?;
                let decided = step.take(&mut transaction).await;
                if let Some(committed) = retry.finish(transaction, decided).await.map_err(failed)? {
                    return committed.value;
                }
            }
        })
    }

    /// Reads what an object is, in a transaction that can read its bytes as they are now.
    async fn look(&self, location: &Path) -> Result<(Transaction, Object)> {
        // It may have been altered.
        require_versions(&self.keyspace)?;
        let key = key_of(location);
        let failed = |error| errors::at(location.as_ref(), error);
        let mut lost = None;
        loop {
            let mut transaction = self.store.begin();
            let object = Object::of(&transaction.stat(&self.keyspace, &key).await.map_err(failed)?);
            // From now on they are kept for this reader, too. If they are gone, so is this object, and another one is there.
            if let Some(data) = &object.data
                && lost.as_ref() != Some(&object.tag)
                && !transaction.exists(&self.keyspace, data).await.map_err(failed)?
            {
                lost = Some(object.tag);
                continue;
            }
            return Ok((transaction, object));
        }
    }

    fn content(
        &self,
        transaction: Transaction,
        object: &Object,
        location: &Path,
        range: Range<u64>,
    ) -> Content {
        let key = object.data.clone().unwrap_or_else(|| key_of(location));
        Content { transaction, keyspace: self.keyspace.clone(), path: location.to_string(), key, range }
    }

    /// Copies or moves an object.
    async fn transfer(&self, from: &Path, to: &Path, creates: bool, moves: bool) -> Result<()> {
        let mode = if creates { PutMode::Create } else { PutMode::Overwrite };
        loop {
            let (transaction, seen) = self.look(from).await?;
            if from == to {
                return if creates { Err(errors::exists(to.as_ref())) } else { Ok(()) };
            }
            let carries = !(moves && seen.data.is_some());
            if carries && seen.size > DIRECT_MAX {
                let mut bytes = self.content(transaction, &seen, from, 0..seen.size).stream();
                let mut upload = Upload::begin(self.clone(), to.clone(), seen.attributes.clone()).await?;
                let carried = async {
                    while let Some(piece) = bytes.try_next().await? {
                        upload.put_part(piece.into()).await?;
                    }
                    if !moves {
                        return upload.complete_as(mode.clone()).await.map(|_| true);
                    }
                    let copied = Some((seen.tag, upload.object()?));
                    self.move_name(from, to, creates, copied).await
                };
                let carried = carried.await;
                if !matches!(carried, Ok(true)) {
                    upload.give_up().await;
                }
                if carried? {
                    return Ok(());
                }
            } else if moves {
                drop(transaction);
                if self.move_name(from, to, creates, None).await? {
                    return Ok(());
                }
            } else {
                let bytes = self.content(transaction, &seen, from, 0..seen.size).all().await?;
                let object = Object::new(seen.size, None, seen.attributes);
                return self.place(to, object, bytes.into(), mode).await.map(drop);
            }
        }
    }

    async fn move_name(
        &self,
        from: &Path,
        to: &Path,
        creates: bool,
        copied: Option<(String, Object)>,
    ) -> Result<bool> {
        let (keyspace, from, to) = (self.keyspace.clone(), from.to_string(), to.to_string());
        self.take(from.clone(), Moving { keyspace, from, to, creates, copied }).await
    }

    fn page(&self, prefix: Vec<u8>, after: Option<Vec<u8>>) -> BoxFuture<'static, Result<Vec<Vec<u8>>>> {
        let keyspace = self.keyspace.clone();
        Box::pin(async move {
            let entries = keyspace.scan(prefix.clone(), after.as_deref(), PAGE).await;
            let entries = entries.map_err(|error| errors::at(String::from_utf8_lossy(&prefix), error))?;
            Ok(entries.into_iter().map(|entry| entry.key.as_ref().to_vec()).collect())
        })
    }

    /// What of these keys are objects. Those of blobs that hold bytes, or that are no paths, are not.
    fn metas(&self, keys: &[Vec<u8>]) -> BoxFuture<'static, Result<Vec<ObjectMeta>>> {
        let named = keys.iter().filter_map(|key| Some((key.clone(), location_of(key)?)));
        let (keys, locations): (Vec<Vec<u8>>, Vec<Path>) = named.unzip();
        let keyspace = self.keyspace.clone();
        Box::pin(async move {
            let stats = keyspace.stats(&keys).await.map_err(|error| errors::at("", error))?;
            let found = locations.into_iter().zip(stats);
            Ok(found.filter_map(|(path, stat)| Some(Object::of(&stat?).meta(path))).collect())
        })
    }

    fn list_after(&self, prefix: Vec<u8>, after: Option<Vec<u8>>) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = self.clone();
        let pages = stream::try_unfold(Some((prefix, after)), move |place| {
            let objects = objects.clone();
            async move {
                let Some((prefix, after)) = place else { return Ok(None) };
                let keys = objects.page(prefix.clone(), after).await?;
                let metas = objects.metas(&keys).await?;
                let last = keys.last().filter(|last| keys.len() == PAGE && !last.starts_with(DATA_PREFIX));
                let next = last.map(|last| (prefix, Some(last.clone())));
                Ok::<_, object_store::Error>(Some((stream::iter(metas.into_iter().map(Ok)), next)))
            }
        });
        pages.try_flatten().fuse().boxed()
    }
}

#[async_trait]
impl ObjectStore for TyrObjects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let size = payload.content_length() as u64;
        if size <= DIRECT_MAX {
            let object = Object::new(size, None, options.attributes);
            return self.place(location, object, payload, options.mode).await;
        }
        let mut upload = Upload::begin(self.clone(), location.clone(), options.attributes).await?;
        let put = async {
            upload.put_part(payload).await?;
            upload.complete_as(options.mode).await
        };
        let put = put.await;
        if put.is_err() {
            upload.give_up().await;
        }
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(Upload::begin(self.clone(), location.clone(), options.attributes).await?))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.version.is_some() {
            return Err(errors::not_supported("versions of objects other than the newest"));
        }
        let (transaction, object) = self.look(location).await?;
        let meta = object.meta(location.clone());
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => within(range, object.size)?,
            None => 0..object.size,
        };
        let stream = match options.head {
            true => stream::empty().boxed(),
            false => self.content(transaction, &object, location, range.clone()).stream(),
        };
        let (payload, attributes) = (GetResultPayload::Stream(stream), object.attributes);
        Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (transaction, object) = self.look(location).await?;
        let mut content = self.content(transaction, &object, location, 0..0);
        let mut all = Vec::with_capacity(ranges.len());
        for range in ranges {
            content.range = within(&GetRange::Bounded(range.clone()), object.size)?;
            all.push(content.all().await?);
        }
        Ok(all)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let objects = self.clone();
        let deleted = locations.map(move |location| {
            let objects = objects.clone();
            async move {
                let location = location?;
                let (keyspace, path) = (objects.keyspace.clone(), location.to_string());
                objects.take(path.clone(), Deleting { keyspace, path }).await?;
                Ok(location)
            }
        });
        deleted.buffered(DELETES).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.list_after(directory(prefix), None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.list_after(directory(prefix), Some(key_of(offset)))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = directory(prefix);
        let (mut common_prefixes, mut objects) = (Vec::new(), Vec::new());
        let mut after: Option<Vec<u8>> = None;
        loop {
            let keys = self.page(prefix.clone(), after).await?;
            let mut own = Vec::new();
            let mut inside: Option<Vec<u8>> = None;
            for key in &keys {
                let is_named = inside.as_ref().is_some_and(|inside| key.starts_with(inside));
                // What is no object makes no directory.
                if is_named || location_of(key).is_none() {
                    continue;
                }
                match key[prefix.len()..].iter().position(|byte| *byte == b'/') {
                    Some(length) => {
                        let end = prefix.len() + length;
                        common_prefixes.extend(location_of(&key[..end]));
                        inside = Some(key[..=end].to_vec());
                    }
                    None => own.push(key.clone()),
                }
            }
            objects.extend(self.metas(&own).await?);
            let Some(last) = keys.last().filter(|last| keys.len() == PAGE && !last.starts_with(DATA_PREFIX))
            else {
                return Ok(ListResult { common_prefixes, objects, extensions: Default::default() });
            };
            // Nothing more of a directory that has been named is listed: no path has this byte.
            let rest = inside
                .filter(|inside| last.starts_with(inside))
                .map(|inside| [&inside[..], &[0xff]].concat());
            after = Some(rest.unwrap_or_else(|| last.clone()));
        }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let creates = match options.mode {
            CopyMode::Overwrite => false,
            CopyMode::Create => true,
        };
        self.transfer(from, to, creates, false).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let creates = match options.target_mode {
            RenameTargetMode::Overwrite => false,
            RenameTargetMode::Create => true,
        };
        self.transfer(from, to, creates, true).await
    }
}

fn require_versions(keyspace: &Keyspace) -> Result<()> {
    if keyspace.settings().multi_version {
        return Ok(());
    }
    let name = keyspace.name();
    Err(errors::generic(format!(
        "keyspace '{name}' keeps no versions, so what is read of an object that is being replaced would be torn; alter it to multi_version \
         ('tyr keyspace alter {name} --multi-version on')"
    )))
}

fn key_of(location: &Path) -> Vec<u8> {
    location.as_ref().as_bytes().to_vec()
}

/// The path that a key is, if it is one.
fn location_of(key: &[u8]) -> Option<Path> {
    let path = Path::parse(std::str::from_utf8(key).ok()?).ok()?;
    (path.as_ref().as_bytes() == key && !key.is_empty()).then_some(path)
}

/// What the keys of objects in a directory begin with.
fn directory(prefix: Option<&Path>) -> Vec<u8> {
    match prefix.map(Path::as_ref) {
        None | Some("") => Vec::new(),
        Some(prefix) => [prefix.as_bytes(), b"/"].concat(),
    }
}

fn within(range: &GetRange, size: u64) -> Result<Range<u64>> {
    range.as_range(size).map_err(|error| errors::generic(error.to_string()))
}

impl TyrObjects {
    /// Makes a blob for the bytes of an object that is to be, and tells its number.
    pub(crate) fn create_data(&self, location: &Path, key: Vec<u8>) -> BoxFuture<'static, Result<BlobId>> {
        let (keyspace, location) = (self.keyspace.clone(), location.to_string());
        Box::pin(async move {
            let made = async {
                keyspace.create(&key).await?;
                Ok(keyspace.stat(&key).await?.blob)
            };
            made.await.map_err(|error| errors::at(location, error))
        })
    }

    /// Writes a part of the bytes of an object that is to be.
    pub(crate) fn write_data(
        &self,
        key: Vec<u8>,
        offset: u64,
        bytes: PutPayload,
    ) -> BoxFuture<'static, Result<()>> {
        let keyspace = self.keyspace.clone();
        Box::pin(async move {
            let mut at = offset;
            for piece in recut(&bytes) {
                let length = piece.len() as u64;
                keyspace.write(&key, at, piece).await.map_err(|error| errors::at("", error))?;
                at += length;
            }
            Ok(())
        })
    }

    /// Deletes bytes, unless an object has them. Returns whether they were deleted.
    pub(crate) fn delete_unused(&self, key: Vec<u8>) -> BoxFuture<'static, Result<bool>> {
        self.take(String::new(), Sweeping { keyspace: self.keyspace.clone(), key })
    }
}
