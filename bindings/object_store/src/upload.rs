//! An upload in parts: the bytes go to a blob of their own, which the object names once the upload is completed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use object_store::{
    Attributes, MultipartUpload, PutMode, PutPayload, PutResult, Result, UploadPart, path::Path,
};
use tyr_client::BlobId;

use crate::{
    errors,
    object::{Object, data_key},
    objects::TyrObjects,
};

/// An upload.
#[derive(Debug)]
pub struct Upload {
    objects: TyrObjects,
    location: Path,
    attributes: Attributes,
    /// Where the bytes go,
    key: Vec<u8>,
    /// and which blob that is.
    blob: BlobId,
    /// Where the next part begins.
    end: u64,
    /// Bytes that are written.
    written: Arc<AtomicU64>,
    /// What it is to be, once that was asked for: the same each time.
    object: Option<Object>,
}

impl Upload {
    /// Of an object that is to be at a path. Fails for attributes that cannot be kept, before anything is written.
    pub async fn begin(objects: TyrObjects, location: Path, attributes: Attributes) -> Result<Self> {
        let (key, written) = (data_key(), Arc::default());
        Object::new(u64::MAX, Some(key.clone()), attributes.clone()).check_attributes(&location)?;
        let blob = objects.create_data(&location, key.clone()).await?;
        Ok(Upload { objects, location, attributes, key, blob, end: 0, written, object: None })
    }

    /// The object, if all of its parts are written.
    pub fn object(&mut self) -> Result<Object> {
        let (written, all) = (self.written.load(Ordering::Acquire), self.end);
        if written < all {
            let location = &self.location;
            let message =
                format!("the upload to {location} is not complete: {written} of {all} bytes are written");
            return Err(errors::generic(message));
        }
        let Upload { key, blob, attributes, .. } = self;
        let object = self.object.get_or_insert_with(|| Object {
            upload: Some(*blob),
            ..Object::new(all, Some(key.clone()), attributes.clone())
        });
        Ok(object.clone())
    }

    /// Makes it the object at its path.
    pub async fn complete_as(&mut self, mode: PutMode) -> Result<PutResult> {
        let object = self.object()?;
        self.objects.place(&self.location, object, PutPayload::new(), mode).await
    }

    /// Aborts it for who tells nobody of it, and has something else to tell. What this does not delete, [`TyrObjects::remove_abandoned`] finds.
    pub async fn give_up(&mut self) {
        let _ = self.abort().await;
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (offset, length) = (self.end, data.content_length() as u64);
        self.end += length;
        let (objects, key, written) = (self.objects.clone(), self.key.clone(), self.written.clone());
        Box::pin(async move {
            objects.write_data(key, offset, data).await?;
            written.fetch_add(length, Ordering::AcqRel);
            Ok(())
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.complete_as(PutMode::Overwrite).await
    }

    /// What an object has by now stays: that it was completed may not have been answered.
    async fn abort(&mut self) -> Result<()> {
        self.objects.delete_unused(self.key.clone()).await.map(drop)
    }
}
