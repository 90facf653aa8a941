//! What the kernel is told without having asked.
//!
//! As `fuser` tells it, which has no word for an epoch of names and does not say whether there was an inode to be told of.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
};

/// The connection of a mount to it.
#[derive(Debug)]
pub struct Kernel(File);

impl Kernel {
    /// By a descriptor of the connection.
    pub fn new(connection: OwnedFd) -> Self {
        Kernel(connection.into())
    }

    /// Has it ask anew what an inode is. False if it has no inode of that number, or not yet.
    pub fn doubt(&self, number: u64) -> bool {
        // No pages: where they begin is negative.
        let told = self.invalidate(number, u64::MAX);
        !told.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Has it write back what it keeps of a file that was written to it, and forget the pages. Only ends when that was written: whoever waits for this
    /// must not be whom the kernel waits for.
    pub fn write_back(&self, number: u64) {
        // One that it does not have it keeps nothing of.
        let _ = self.invalidate(number, 0);
    }

    /// What it knows of an inode, and its pages from an offset on, are to be asked for anew.
    fn invalidate(&self, number: u64, offset: u64) -> io::Result<()> {
        let content: Vec<u8> = [number, offset, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.tell(NOTIFY_INVAL_INODE, &content)
    }

    /// Has it look up all names anew. Fails if it is older than Linux 6.16.
    pub fn begin_epoch(&self) -> io::Result<()> {
        self.tell(NOTIFY_INC_EPOCH, &[])
    }

    /// A message as `fuse_out_header` has it: length, what it is about, and that it answers nothing.
    fn tell(&self, about: u32, content: &[u8]) -> io::Result<()> {
        let length = u32::try_from(HEADER + content.len()).unwrap_or(u32::MAX);
        let mut message: Vec<u8> = [length, about, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        message.extend_from_slice(content);
        (&self.0).write_all(&message)
    }
}

const HEADER: usize = 16;
const NOTIFY_INVAL_INODE: u32 = 2;
const NOTIFY_INC_EPOCH: u32 = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn it_is_told_as_the_header_of_fuse_says() {
        let mut file = tempfile::tempfile().unwrap();
        let kernel = Kernel::new(file.try_clone().unwrap().into());
        assert!(kernel.doubt(0x0102_0304_0506_0708));
        kernel.begin_epoch().unwrap();
        kernel.write_back(9);
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        let words = |bytes: &[u8]| {
            bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(words(&bytes[..16]), [40, 2, 0, 0]);
        assert_eq!(bytes[16..24], 0x0102_0304_0506_0708_u64.to_ne_bytes());
        assert_eq!(bytes[24..32], (-1i64).to_ne_bytes());
        assert_eq!(words(&bytes[32..56]), [0, 0, 16, 8, 0, 0]);
        assert_eq!(words(&bytes[56..72]), [40, 2, 0, 0]);
        assert_eq!(bytes[72..], [9u64, 0, 0].map(u64::to_ne_bytes).concat());
    }

    #[test]
    fn a_kernel_that_is_gone_has_nothing_to_doubt() {
        let kernel = Kernel::new(File::open("/dev/null").unwrap().into());
        assert!(kernel.doubt(5));
        kernel.begin_epoch().unwrap_err();
    }
}
