//! A store's directory in one text file that is small and may be checked in.
//!
//! Lines: `#` begins a comment; `version KEYSPACE KEY NUMBER` says which version a blob has; `file NAME LENGTH` begins a file,
//! `@OFFSET` says where, in hexadecimal, the bytes of the lines that follow lie in it, and they are hexadecimal too. All else is zeros.

use std::{collections::BTreeMap, fmt::Write};

use tyr_env::Disk;
use tyr_sim_env::SimDisk;
use tyr_types::{Key, KeyspaceId, Number};

use super::model::key;

/// The files of a store, and the versions of its blobs.
#[derive(Debug, Default, PartialEq)]
pub struct Packed {
    pub versions: BTreeMap<(KeyspaceId, Key), Number>,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Packed {
    /// Everything on the disk.
    pub fn files_of(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
        let names = disk.names().expect("lists");
        names.into_iter().map(|name| (name.clone(), disk.read_file(&name).expect("is there"))).collect()
    }

    /// A disk with these files, durably.
    pub fn disk(&self) -> std::sync::Arc<SimDisk> {
        let disk = SimDisk::new(1);
        self.files.iter().for_each(|(name, bytes)| disk.write_file(name, bytes).expect("plants"));
        disk
    }

    pub fn parse(text: &str) -> Self {
        let mut packed = Packed::default();
        let (mut name, mut offset) = ("", 0);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["version", space, name, number] => {
                    let space = KeyspaceId(space.parse().expect("a number"));
                    packed.versions.insert((space, key(name)), number.parse().expect("a version"));
                }
                ["file", next, length] => {
                    name = next;
                    packed.files.insert(name.into(), vec![0; length.parse().expect("a length")]);
                }
                [place] if place.starts_with('@') => {
                    offset = usize::from_str_radix(&place[1..], 16).expect("an offset");
                }
                [hex] => {
                    let file = packed.files.get_mut(name).expect("a file has begun");
                    for pair in hex.as_bytes().as_chunks::<2>().0 {
                        let pair = str::from_utf8(pair).expect("ASCII");
                        file[offset] = u8::from_str_radix(pair, 16).expect("hexadecimal");
                        offset += 1;
                    }
                }
                _ => panic!("not a line of a packed store: {line}"),
            }
        }
        packed
    }

    pub fn print(&self) -> String {
        let mut text = String::new();
        for ((space, key), number) in &self.versions {
            writeln!(text, "version {} {key} {number}", space.0).expect("a string takes everything");
        }
        for (name, bytes) in &self.files {
            writeln!(text, "file {name} {}", bytes.len()).expect("a string takes everything");
            let mut end = usize::MAX;
            for (index, row) in bytes.chunks(ROW).enumerate() {
                if row.iter().all(|byte| *byte == 0) {
                    continue;
                }
                if end != index * ROW {
                    writeln!(text, "@{:x}", index * ROW).expect("a string takes everything");
                }
                end = (index + 1) * ROW;
                row.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a string takes everything"));
                text.push('\n');
            }
        }
        text
    }
}

/// Bytes of a line.
const ROW: usize = 64;
