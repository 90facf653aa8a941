//! Where things lie: the keys of the blobs.
//!
//! An inode lies in one blob; the key of that is its *site*. The site of what was created under a name is the name's own:
//! the site of the directory, a slash, and the name. So as long as no directory on its way was renamed, the site of a file is its absolute
//! path. What was renamed lies elsewhere, until it moves to its name ([`Filesystem::tend`](crate::Filesystem::tend)). Where a name's own site holds another inode still, or a directory's would be too long for names below it, the site is a fresh one:
//! `#` and a number.
//!
//! What is no file begins with `!`, and what lies in a site begins with `/` or `#`: neither is ever mistaken for the other.

use std::{fmt, sync::Arc};

use crate::errno::{Errno, Result};

/// The key of the blob in which an inode lies, or that is a name's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(Arc<[u8]>);

impl Site {
    /// That of the root.
    pub fn root() -> Self {
        Site(Arc::from(b"/".as_slice()))
    }

    /// One that no name has.
    pub fn fresh(number: u64) -> Self {
        Site(format!("#{number:x}").into_bytes().into())
    }

    /// From the bytes of a key.
    pub fn from_key(key: &[u8]) -> Self {
        Site(key.into())
    }

    /// That of a name in the directory that lies here.
    pub fn of(&self, name: &[u8]) -> Self {
        let directory = if &*self.0 == b"/" { b"" } else { &*self.0 };
        let mut key = Vec::with_capacity(directory.len() + 1 + name.len());
        key.extend_from_slice(directory);
        key.push(b'/');
        key.extend_from_slice(name);
        Site(key.into())
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.0
    }

    /// Whether a directory may lie here: every name below it fits a key then.
    pub fn is_short(&self) -> bool {
        self.0.len() <= DIRECTORY_SITE_MAX
    }
}

impl AsRef<[u8]> for Site {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// Fails unless it may name something.
pub fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Errno::ENOENT.because("a name is not empty")),
        b"." | b".." => Err(Errno::EINVAL.because("'.' and '..' are no names of anything new")),
        name if name.len() > NAME_MAX => {
            Err(Errno::ENAMETOOLONG.because(format!("a name has at most {NAME_MAX} bytes")))
        }
        name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => {
            Err(Errno::EINVAL.because("a name has neither slashes nor zero bytes"))
        }
        _ => Ok(()),
    }
}

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;
/// The longest path, in bytes, as the kernel has it: one less than `PATH_MAX`, which counts the zero at the end.
pub const PATH_MAX: usize = 4095;
/// The longest site of a directory. A key has at most 4096 bytes; the rest is for the name, and the whole stays cheap to hash and send.
const DIRECTORY_SITE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_the_path_unless_it_is_fresh() {
        let data = Site::root().of(b"data");
        assert_eq!(data.key(), b"/data");
        assert_eq!(data.of(b"a b").key(), b"/data/a b");
        assert_eq!(Site::fresh(255).of(b"x").key(), b"#ff/x");
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for (name, errno) in [
            (b"".as_slice(), Errno::ENOENT),
            (b".", Errno::EINVAL),
            (b"..", Errno::EINVAL),
            (b"a/b", Errno::EINVAL),
            (b"a\0", Errno::EINVAL),
            (&[b'x'; 256], Errno::ENAMETOOLONG),
        ] {
            assert_eq!(check_name(name).map_err(|error| error.errno()), Err(errno), "{name:?}");
        }
        for name in [b"...".as_slice(), b"\xff\n", &[b'x'; 255]] {
            assert_eq!(check_name(name), Ok(()));
        }
    }
}
