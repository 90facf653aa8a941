//! What the kernel is told: an answer, or why there is none.

use fuser::{
    Errno, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};

/// An answer that is owed.
pub trait Reply {
    /// There is none, for this reason.
    fn refuse(self, errno: Errno);
}

macro_rules! replies {
    ($($reply:ty),* $(,)?) => {
        $(impl Reply for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

replies!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr,
);

/// It was done, and there is nothing to tell.
pub fn done(reply: ReplyEmpty, (): ()) {
    reply.ok();
}

/// A value, or how long it is if that is all that was asked for.
pub fn value(reply: ReplyXattr, value: &[u8], size: u32) {
    match u32::try_from(value.len()) {
        Ok(length) if size == 0 => reply.size(length),
        Ok(length) if length <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}

/// So many bytes were written.
pub fn written(reply: ReplyWrite, length: u64) {
    match u32::try_from(length) {
        Ok(length) => reply.written(length),
        Err(_) => reply.error(Errno::EIO),
    }
}
