//! A call of the kernel, and the line that the access log has for it.

use std::{
    ffi::OsStr,
    fmt::{self, Write},
    os::unix::ffi::OsStrExt,
    time::Duration,
};

use fuser::{INodeNo, Request};

use crate::{
    counts::Ask,
    signals::{is_asked_to_end, is_ending},
};

/// Who asks for what, of which inode.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub ask: Ask,
    process: u32,
    inode: u64,
    what: What<'a>,
}

#[derive(Clone, Copy, Debug)]
enum What<'a> {
    Inode,
    Name(&'a OsStr),
    Range { offset: u64, length: u64 },
}

impl<'a> Call<'a> {
    pub fn of(request: &Request, ask: Ask, inode: INodeNo) -> Self {
        Call { ask, process: request.pid(), inode: inode.0, what: What::Inode }
    }

    /// It is about a name in the directory.
    pub fn named(self, name: &'a OsStr) -> Self {
        Call { what: What::Name(name), ..self }
    }

    /// It is about so many bytes at an offset.
    pub fn ranged(self, offset: u64, length: u64) -> Self {
        Call { what: What::Range { offset, length }, ..self }
    }

    /// Whether nobody is to wait for it any more that has waited for so long: its program is about to end, or was asked to. What handles such a signal itself
    /// does so after the call, and for what takes only moments it can wait. A page that is read for a mapping it would miss, and crash.
    pub fn is_given_up(&self, waited: Duration) -> bool {
        is_ending(self.process)
            || (waited >= PATIENCE && self.ask != Ask::Read && is_asked_to_end(self.process))
    }
}

/// Its process, what it asks for, and of what: one word each, whatever bytes a name has.
impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.process, self.ask.name(), self.inode)?;
        match self.what {
            What::Inode => Ok(()),
            What::Range { offset, length } => write!(f, "[{offset}+{length}]"),
            What::Name(name) => {
                f.write_char('/')?;
                name.as_bytes().iter().try_for_each(|byte| match byte {
                    b' ' => f.write_str("\\x20"),
                    byte => write!(f, "{}", byte.escape_ascii()),
                })
            }
        }
    }
}

/// A call that takes so long waits for a cluster that does not serve now.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_words_whatever_a_name_has() {
        let call = Call { ask: Ask::Remove, process: 7, inode: 20, what: What::Inode };
        assert_eq!(call.to_string(), "7 remove 20");
        assert_eq!(call.ranged(4096, 10).to_string(), "7 remove 20[4096+10]");
        let name = OsStr::from_bytes(b"a b\n\xff\\");
        assert_eq!(call.named(name).to_string(), "7 remove 20/a\\x20b\\n\\xff\\\\");
    }
}
