//! How much room a device is to keep.
//!
//! Invariant: while nothing more is taken, there is room for what is taken nevertheless and for what gives room back: what was promised is
//! logged, and so are deletions; checkpoints and compaction write before anything is given back. Otherwise a device that is full could
//! not be emptied.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use tyr_env::Space;

/// What the device of a shard's store is to keep.
pub(crate) struct Room {
    /// What the segments take that are begun next in all stores on the device, in bytes.
    next_segments: u64,
}

impl Room {
    /// On a device with so many stores of such segments.
    pub fn new(segment_size: u64, stores: u64) -> Self {
        Room { next_segments: stores * SEGMENTS_NEXT * segment_size }
    }

    /// Whether no more is to be taken than what has been promised.
    pub fn is_short(&self, space: Space) -> bool {
        space.free < self.least(space.total)
    }

    /// Whether that may soon be so: it is to be looked again at once.
    pub fn is_nearly_short(&self, space: Space) -> bool {
        space.free < self.least(space.total) + TAKEN_MAX
    }

    /// What is to be left of a device of this size.
    pub fn least(&self, total: u64) -> u64 {
        (LEAST + self.next_segments).max((total / SHARE).min(SHARE_MAX)).min(total / SHARE_OF_SMALL)
    }
}

/// How many of these directories are on the device of one of them, that one counted.
pub(crate) fn on_device_of<'a>(one: &Path, all: impl Iterator<Item = &'a Path>) -> u64 {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let own = device(one);
    all.filter(|other| *other == one || device(other) == own).count() as u64
}

/// A store may begin so many segments before it gives one back: of its log, and of what is compacted.
const SEGMENTS_NEXT: u64 = 2;
/// What is on its way when nothing more is taken, in bytes.
const LEAST: u64 = 64 << 20;
/// Checkpoints are larger where there is more: a hundredth of a device is left for them,
const SHARE: u64 = 100;
/// at most so many bytes;
const SHARE_MAX: u64 = 16 << 30;
/// and of a small device no more than a quarter is left.
const SHARE_OF_SMALL: u64 = 4;
/// More than what is taken in a second, in bytes.
const TAKEN_MAX: u64 = 8 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 64 << 20;

    #[test]
    fn it_is_short_while_what_was_promised_still_has_room() {
        for (total, stores, least) in [
            (16 << 30, 2, (64 << 20) + 4 * SEGMENT),
            (16 << 30, 16, (64 << 20) + 32 * SEGMENT),
            (1 << 40, 2, (1 << 40) / 100),
            (16 << 40, 2, 16 << 30),
            (1 << 30, 2, 256 << 20),
        ] {
            let room = Room::new(SEGMENT, stores);
            let at = |free| Space { total, free };
            assert!(room.is_short(at(least - 1)) && room.is_nearly_short(at(least)), "{total} {stores}");
            assert!(!room.is_short(at(least)), "{total} {stores}");
        }
        assert!(!Room::new(SEGMENT, 2).is_nearly_short(Space { total: 1 << 40, free: 1 << 39 }));
    }

    #[test]
    fn directories_of_one_device_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        for path in [&one, &other] {
            fs::create_dir(path).unwrap();
        }
        let all = [one.as_path(), other.as_path(), Path::new("/proc"), Path::new("/nowhere")];
        assert_eq!(on_device_of(&one, all.into_iter()), 2);
        assert_eq!(on_device_of(Path::new("/nowhere"), all.into_iter()), 1);
    }
}
