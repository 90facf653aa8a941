//! Volumes: the files of an archive with its blobs' bytes. One begins with a header and ends with a record that says so.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `TYRVOLM1` |
//! | 16 | the archive's id, little-endian |
//! | 4 | the volume's number, little-endian |
//! | 4 | CRC-32C of the bytes before |
//! | | records |

use std::{
    fs::{self, File},
    io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use tyr_wire::checksum::{crc32c, crc32c_append};

use super::{
    ArchiveId, damaged, failed, open,
    record::{Next, Record},
    writing,
};
use crate::failure::Result;

/// A volume that is being written.
pub struct VolumeWriter {
    number: u32,
    path: PathBuf,
    file: BufWriter<File>,
    length: u64,
    checksum: u32,
}

/// A volume that was written: its number, how long it is, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its number.
    pub number: u32,
    /// Its bytes.
    pub length: u64,
    /// CRC-32C of all of them.
    pub checksum: u32,
}

/// A volume that is being read.
pub struct VolumeReader {
    path: PathBuf,
    file: BufReader<Summed>,
    position: u64,
}

/// A file of which the checksum is worked out as it is read.
struct Summed {
    file: File,
    checksum: u32,
}

/// Where records begin.
pub const FIRST: u64 = 32;
const MAGIC: [u8; 8] = *b"TYRVOLM1";
const BUFFER_SIZE: usize = 1 << 20;

/// The file of a volume.
pub fn path_of(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("volume-{number:06}"))
}

/// The number of the volume that a file is.
pub fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("volume-").filter(|digits| digits.len() >= 6)?.parse().ok()
}

fn header(archive: ArchiveId, number: u32) -> [u8; 32] {
    let mut header = [0; 32];
    header[..8].copy_from_slice(&MAGIC);
    header[8..24].copy_from_slice(&archive.0.to_le_bytes());
    header[24..28].copy_from_slice(&number.to_le_bytes());
    let checksum = crc32c(&header[..28]);
    header[28..].copy_from_slice(&checksum.to_le_bytes());
    header
}

impl VolumeWriter {
    /// Begins a volume; there is no file of that number.
    pub fn create(directory: &Path, archive: ArchiveId, number: u32) -> Result<Self> {
        let path = path_of(directory, number);
        let created = writing().create_new(true).open(&path);
        let file = created.map_err(|error| failed("create", &path, &error))?;
        let file = BufWriter::with_capacity(BUFFER_SIZE, file);
        let mut volume = VolumeWriter { number, path, file, length: 0, checksum: 0 };
        volume.write(&header(archive, number))?;
        Ok(volume)
    }

    /// Appends a record.
    pub fn put(&mut self, record: &Record) -> Result<()> {
        self.write(&record.encode())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| failed("write", &self.path, &error))?;
        self.length += bytes.len() as u64;
        self.checksum = crc32c_append(self.checksum, bytes);
        Ok(())
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How long it is.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Ends it; it is on the disk then.
    pub fn finish(mut self) -> Result<Written> {
        self.put(&Record::End)?;
        let VolumeWriter { number, path, file, length, checksum } = self;
        let file = file.into_inner().map_err(|error| failed("write", &path, error.error()))?;
        file.sync_all().map_err(|error| failed("sync", &path, &error))?;
        Ok(Written { number, length, checksum })
    }
}

impl VolumeReader {
    /// Opens a volume, and checks its header.
    pub fn open(directory: &Path, archive: ArchiveId, number: u32) -> Result<Self> {
        let path = path_of(directory, number);
        let file = open(&path)?;
        let file = BufReader::with_capacity(BUFFER_SIZE, Summed { file, checksum: 0 });
        let mut volume = VolumeReader { path, file, position: 0 };
        let mut found = [0; 32];
        let read = super::record::read_up_to(&mut volume.file, &mut found)
            .map_err(|error| failed("read", &volume.path, &error))?;
        if read < found.len() || found != header(archive, number) {
            return Err(damaged(&volume.path, "does not begin as this volume of this archive does"));
        }
        volume.position = FIRST;
        Ok(volume)
    }

    /// Goes on at the record that begins at a place.
    pub fn seek(&mut self, position: u64) -> Result<()> {
        self.file.seek(SeekFrom::Start(position)).map_err(|error| failed("read", &self.path, &error))?;
        self.position = position;
        Ok(())
    }

    /// Where the next record begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next record; `None`, with why, where no whole one is.
    pub fn next(&mut self) -> Result<std::result::Result<Record, &'static str>> {
        match Record::read(&mut self.file).map_err(|error| failed("read", &self.path, &error))? {
            Next::Record(record, length) => {
                self.position += length;
                Ok(Ok(record))
            }
            Next::Nothing => Ok(Err("ends too early")),
            Next::Malformed(why) => Ok(Err(why)),
        }
    }

    /// The next record. Fails where no whole one is.
    pub fn record(&mut self) -> Result<Record> {
        self.next()?.map_err(|why| damaged(&self.path, why))
    }

    /// After the last record: the length and checksum of all that was read from the beginning. Fails if something follows.
    pub fn finish(mut self) -> Result<(u64, u32)> {
        let mut rest = [0; 1];
        let more = self.file.read(&mut rest).map_err(|error| failed("read", &self.path, &error))?;
        if more > 0 {
            return Err(damaged(&self.path, "goes on after its end"));
        }
        Ok((self.position, self.file.get_ref().checksum))
    }
}

/// Cuts a volume that was not finished after its last whole record, and ends it there.
pub fn mend(directory: &Path, number: u32, position: u64) -> Result<()> {
    let path = path_of(directory, number);
    let end = || -> std::io::Result<()> {
        let mut file = File::options().write(true).open(&path)?;
        file.set_len(position)?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(&Record::End.encode())?;
        file.sync_all()
    };
    end().map_err(|error| failed("mend", &path, &error))
}

/// Removes a volume of which not even the header was written.
pub fn remove(directory: &Path, number: u32) -> Result<()> {
    let path = path_of(directory, number);
    fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))
}

impl Read for Summed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.checksum = crc32c_append(self.checksum, &buffer[..read]);
        Ok(read)
    }
}

impl Seek for Summed {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}
