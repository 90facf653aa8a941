//! Room that is kept for a voter: by it a node goes on, and is started, whose device others have filled.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// A file that nothing is in.
pub(crate) struct Reserve(PathBuf);

impl Reserve {
    /// That of a voter, beside its directory.
    pub fn beside(directory: &Path) -> Self {
        Reserve(directory.with_extension("reserve"))
    }

    /// Makes it, unless it is there. Where there is no room it is not made.
    pub fn keep(&self) {
        let is_there = fs::metadata(&self.0).is_ok_and(|known| known.len() == SIZE as u64);
        let make = || {
            let mut file = fs::File::create(&self.0)?;
            file.write_all(&[0; SIZE])?;
            file.sync_all()
        };
        if !is_there && make().is_err() {
            self.give_back();
        }
    }

    /// Gives its room to others. Whether there was any.
    fn give_back(&self) -> bool {
        fs::remove_file(&self.0).is_ok()
    }

    /// Gives its room to the voter when there is so little on its device that a write may fail: after one that fails the voter keeps nothing
    /// any more. When others have made room it is kept again. Whether it was given now.
    pub fn ease(&self, free: u64) -> bool {
        let is_short = free < SHORT;
        if !is_short && free > 2 * SIZE as u64 {
            self.keep();
        }
        is_short && self.give_back()
    }

    /// Does something, and if there is no room for that, does it once more in the room of this.
    pub async fn with<T>(&self, work: impl AsyncFn() -> io::Result<T>) -> io::Result<T> {
        match work().await {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.give_back() => work().await,
            done => done,
        }
    }
}

/// As much as a voter writes in a long while.
const SIZE: usize = 1 << 20;
/// More than it writes at once, in bytes.
const SHORT: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::cell::Cell;

    use super::*;

    #[test]
    fn it_is_given_before_a_write_fails_and_kept_again_when_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        let reserve = Reserve::beside(&directory.path().join("manager"));
        let path = directory.path().join("manager.reserve");
        reserve.keep();
        assert!(!reserve.ease(SHORT) && path.exists(), "there is enough yet");
        assert!(reserve.ease(SHORT - 1) && !path.exists());
        assert!(!reserve.ease(0), "there is none any more");
        assert!(!reserve.ease(SIZE as u64) && !path.exists(), "that is what it gave");
        assert!(!reserve.ease(3 * SIZE as u64) && path.exists());
    }

    #[tokio::test]
    async fn what_finds_no_room_is_done_once_more_without_the_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let reserve = Reserve::beside(&directory.path().join("manager"));
        let path = directory.path().join("manager.reserve");
        let tries = Cell::new(0);
        let work = async || {
            tries.set(tries.get() + 1);
            match path.exists() {
                true => Err(io::Error::from(io::ErrorKind::StorageFull)),
                false => Ok(tries.get()),
            }
        };
        reserve.keep();
        assert_eq!(fs::metadata(&path).unwrap().len(), SIZE as u64);
        assert_eq!(reserve.with(work).await.unwrap(), 2);
        let full = async || Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull));
        assert!(reserve.with(full).await.is_err(), "there is none any more");
        reserve.keep();
        let missing = async || Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        assert!(reserve.with(missing).await.is_err() && path.exists(), "room would not have helped");
    }
}
