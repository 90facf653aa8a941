//! An object as a blob: what its attributes say.
//!
//! | attribute | value |
//! |---|---|
//! | `object.tag` | the tag of the put, another one each time |
//! | `object.modified` | microseconds since 1970, in decimal |
//! | `object.data`, `object.size` | the key of the blob that has the bytes, and how many these are, if they are not in this one |
//! | `object.is.NAME` | an attribute of HTTP, such as `object.is.content-type` |
//! | `object.has.NAME` | an attribute of the user |
//!
//! Who writes to the blob by other means leaves the tag as it is. So the entity tag is the tag of the put only as long as the blob is as that
//! made it: every put makes the blob anew, and one that was changed since has a version that is not the number by which it was made. Then the
//! entity tag has the version, too. So a put knows its entity tag before it is committed.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use chrono::{DateTime, Utc};
use object_store::{Attribute, Attributes, ObjectMeta, Result, path::Path};
use tyr_client::{BlobId, KEY_SIZE_MAX, Number, Stat};

use crate::errors;

const TAG: &str = "object.tag";
const MODIFIED: &str = "object.modified";
const DATA: &str = "object.data";
const SIZE: &str = "object.size";
const IS: &str = "object.is.";
const HAS: &str = "object.has.";

/// Keys of blobs that hold the bytes of objects begin so. No path does: it is UTF-8.
pub const DATA_PREFIX: &[u8] = &[0xff];

/// What an object is.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its entity tag, which is another one after every change.
    pub tag: String,
    /// The version of its blob, if it was found.
    pub version: Option<Number>,
    /// When it was put.
    pub modified: DateTime<Utc>,
    /// Its bytes.
    pub size: u64,
    /// The key of the blob that has them, if it is not the object's own.
    pub data: Option<Vec<u8>>,
    /// Which blob that is, if it is of an upload that is to be completed. Parts that come after somebody has deleted it make another one.
    pub upload: Option<BlobId>,
    /// The key of the blob that had them, until somebody wrote to the object's own by other means.
    pub leftover: Option<Vec<u8>>,
    /// What the user says of it.
    pub attributes: Attributes,
}

impl Object {
    /// An object that is put now.
    pub fn new(size: u64, data: Option<Vec<u8>>, attributes: Attributes) -> Self {
        let (tag, modified) = (unique(), Utc::now());
        Object { tag, version: None, modified, size, data, upload: None, leftover: None, attributes }
    }

    /// What a blob is as an object. One that was not put as such was changed at an unknown time.
    pub fn of(stat: &Stat) -> Object {
        let text = |name: &str| stat.attributes.value(name).and_then(|value| std::str::from_utf8(value).ok());
        let modified = text(MODIFIED).and_then(|micros| micros.parse().ok());
        // Who has written to the blob itself meanwhile knows nothing of bytes elsewhere.
        let is_key = |key: &&[u8]| key.starts_with(DATA_PREFIX) && key.len() <= KEY_SIZE_MAX;
        let named = stat.attributes.value(DATA).filter(is_key).map(<[u8]>::to_vec);
        let (data, leftover) = if stat.size == 0 { (named, None) } else { (None, named) };
        let size = data.as_ref().and_then(|_| text(SIZE)?.parse().ok()).unwrap_or(stat.size);
        let mut attributes = Attributes::new();
        for (name, value) in stat.attributes.iter() {
            if let (Some(attribute), Ok(value)) = (attribute_of(name), std::str::from_utf8(value)) {
                attributes.insert(attribute, value.to_owned().into());
            }
        }
        let tag = match text(TAG) {
            Some(tag) if stat.version.to_u64() == stat.blob.to_u64() => tag.to_owned(),
            tag => format!("{}v{}", tag.unwrap_or_default(), stat.version),
        };
        Object {
            tag,
            version: Some(stat.version),
            modified: modified.and_then(DateTime::from_timestamp_micros).unwrap_or(DateTime::UNIX_EPOCH),
            size,
            data,
            upload: None,
            leftover,
            attributes,
        }
    }

    /// The names and values of its blob's attributes. Fails for what cannot be kept.
    pub fn blob_attributes(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut all = vec![
            (TAG.to_owned(), self.tag.clone().into_bytes()),
            (MODIFIED.to_owned(), self.modified.timestamp_micros().to_string().into_bytes()),
        ];
        if let Some(data) = &self.data {
            all.push((DATA.to_owned(), data.clone()));
            all.push((SIZE.to_owned(), self.size.to_string().into_bytes()));
        }
        for (attribute, value) in &self.attributes {
            all.push((name_of(attribute)?, value.as_bytes().to_vec()));
        }
        Ok(all)
    }

    /// Fails unless a blob can have its attributes.
    pub fn check_attributes(&self, location: &Path) -> Result<()> {
        let mut blob = tyr_client::Attributes::default();
        for (name, value) in self.blob_attributes()? {
            blob.set(&name, Some(&value)).map_err(|error| errors::at(location.as_ref(), error))?;
        }
        Ok(())
    }

    /// What listings and reads tell of it.
    pub fn meta(&self, location: Path) -> ObjectMeta {
        ObjectMeta {
            location,
            last_modified: self.modified,
            size: self.size,
            e_tag: Some(self.tag.clone()),
            version: None,
        }
    }
}

fn attribute_of(name: &str) -> Option<Attribute> {
    if let Some(key) = name.strip_prefix(HAS) {
        return Some(Attribute::Metadata(key.to_owned().into()));
    }
    Some(match name.strip_prefix(IS)? {
        "cache-control" => Attribute::CacheControl,
        "content-disposition" => Attribute::ContentDisposition,
        "content-encoding" => Attribute::ContentEncoding,
        "content-language" => Attribute::ContentLanguage,
        "content-type" => Attribute::ContentType,
        _ => return None,
    })
}

fn name_of(attribute: &Attribute) -> Result<String> {
    Ok(match attribute {
        Attribute::CacheControl => format!("{IS}cache-control"),
        Attribute::ContentDisposition => format!("{IS}content-disposition"),
        Attribute::ContentEncoding => format!("{IS}content-encoding"),
        Attribute::ContentLanguage => format!("{IS}content-language"),
        Attribute::ContentType => format!("{IS}content-type"),
        Attribute::Metadata(key) => format!("{HAS}{key}"),
        _ => return Err(errors::not_supported("this attribute of objects")),
    })
}

/// A key for the bytes of an object that is to be.
pub fn data_key() -> Vec<u8> {
    [DATA_PREFIX, unique().as_bytes()].concat()
}

/// When the bytes with a key were begun.
pub fn begun(data_key: &[u8]) -> Option<DateTime<Utc>> {
    let text = std::str::from_utf8(data_key.strip_prefix(DATA_PREFIX)?).ok()?;
    let micros = i64::from_str_radix(text.split('-').next()?, 16).ok()?;
    DateTime::from_timestamp_micros(micros)
}

/// A word that nobody else ever makes: of the time, a random number of this process, and a count.
fn unique() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    static PROCESS: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    format!("{micros:x}-{process:x}-{:x}", MADE.fetch_add(1, Ordering::Relaxed))
}
