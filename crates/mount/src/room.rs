//! How much room there is.

use fuser::ReplyStatfs;

use crate::{attributes::BLOCK, shared::Shared};

/// Blocks, as the kernel is told of them.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    blocks: u64,
    free: u64,
    /// To those who are not the superuser.
    available: u64,
}

impl Shared {
    /// What the quota leaves, and the device, if it is known.
    pub fn room(&self) -> Room {
        let device = self.settings.device.as_ref();
        let of_device = match device.and_then(|device| rustix::fs::statvfs(device).ok()) {
            Some(told) => {
                let scale = |blocks: u64| blocks.saturating_mul(told.f_frsize) / u64::from(BLOCK);
                Room {
                    blocks: scale(told.f_blocks),
                    free: scale(told.f_bfree),
                    available: scale(told.f_bavail),
                }
            }
            None => Room { blocks: UNKNOWN, free: UNKNOWN, available: UNKNOWN },
        };
        match self.filesystem.room() {
            Some(room) => {
                let (blocks, left) = room.blocks(BLOCK.into());
                Room { blocks, free: left.min(of_device.free), available: left.min(of_device.available) }
            }
            None => of_device,
        }
    }
}

impl Room {
    /// Bytes that may still be written.
    pub fn left(&self) -> u64 {
        self.available.saturating_mul(BLOCK.into())
    }

    /// Tells the kernel.
    pub fn tell(&self, reply: ReplyStatfs) {
        let names = u32::try_from(tyr_fs::site::NAME_MAX).unwrap_or(255);
        reply.statfs(self.blocks, self.free, self.available, UNKNOWN, UNKNOWN, BLOCK, names, BLOCK);
    }
}

/// Blocks and inodes where nobody knows how many there are: as many as no program takes for none.
const UNKNOWN: u64 = 1 << 40;
