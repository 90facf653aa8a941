//! The index: which blobs an archive's keyspace had, and where in the volumes the bytes of each are that this archive has.
//!
//! It begins like a volume, with `TYRINDX1`, and consists of the same records.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Read, Write},
    path::Path,
};

use tyr_wire::checksum::{crc32c, crc32c_append};

use super::{
    ArchiveId, Catalog, damaged, failed,
    manifest::FileFacts,
    open,
    record::{Next, Record, read_up_to},
    writing,
};
use crate::failure::Result;

/// The index's file.
pub const NAME: &str = "index";
const MAGIC: [u8; 8] = *b"TYRINDX1";

fn header(archive: ArchiveId) -> [u8; 28] {
    let mut header = [0; 28];
    header[..8].copy_from_slice(&MAGIC);
    header[8..24].copy_from_slice(&archive.0.to_le_bytes());
    let checksum = crc32c(&header[..24]);
    header[24..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Writes the index of these blobs, durably.
pub fn write(directory: &Path, archive: ArchiveId, catalog: &Catalog) -> Result<FileFacts> {
    let path = directory.join(NAME);
    let write = || -> std::io::Result<(u64, u32)> {
        let mut file = BufWriter::with_capacity(1 << 20, writing().create(true).truncate(true).open(&path)?);
        let (mut length, mut checksum) = (0, 0);
        let mut put = |bytes: &[u8]| {
            length += bytes.len() as u64;
            checksum = crc32c_append(checksum, bytes);
            file.write_all(bytes)
        };
        put(&header(archive))?;
        for (key, blob) in &catalog.blobs {
            put(&Record::Blob(key.clone(), blob.clone()).encode())?;
        }
        put(&Record::End.encode())?;
        file.flush()?;
        file.get_ref().sync_all()?;
        Ok((length, checksum))
    };
    let (length, crc32c) = write().map_err(|error| failed("write", &path, &error))?;
    Ok(FileFacts { name: NAME.to_owned(), length, crc32c })
}

/// Reads an index, and checks that it is the one that the manifest names.
pub fn read(directory: &Path, archive: ArchiveId, facts: &FileFacts) -> Result<Catalog> {
    let path = directory.join(NAME);
    let file = open(&path)?;
    let length = file.metadata().map_err(|error| failed("look at", &path, &error))?.len();
    if length != facts.length {
        return Err(damaged(&path, format_args!("has {length} bytes and not {}", facts.length)));
    }
    let mut summed = Summed { file: BufReader::with_capacity(1 << 20, file), checksum: 0 };
    let mut found = [0; 28];
    read_up_to(&mut summed, &mut found).map_err(|error| failed("read", &path, &error))?;
    if found != header(archive) {
        return Err(damaged(&path, "does not begin as this archive's index does"));
    }
    let mut catalog = Catalog::default();
    loop {
        match Record::read(&mut summed).map_err(|error| failed("read", &path, &error))? {
            Next::Record(Record::Blob(key, mut blob), _) => {
                blob.is_whole = true;
                catalog.blobs.insert(key, blob);
            }
            Next::Record(Record::End, _) => break,
            Next::Record(..) => return Err(damaged(&path, "has a record that does not belong there")),
            Next::Nothing => return Err(damaged(&path, "ends too early")),
            Next::Malformed(why) => return Err(damaged(&path, why)),
        }
    }
    if summed.checksum != facts.crc32c {
        return Err(damaged(&path, "has a wrong checksum"));
    }
    Ok(catalog)
}

struct Summed {
    file: BufReader<File>,
    checksum: u32,
}

impl Read for Summed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.checksum = crc32c_append(self.checksum, &buffer[..read]);
        Ok(read)
    }
}
