//! Room that is kept for a voter: by it a node is started whose device others have filled.

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::cell::Cell;

    use super::*;

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
