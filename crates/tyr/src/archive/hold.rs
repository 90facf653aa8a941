//! What keeps other exports out of an archive that is being written.

use std::{
    fs::{self, File},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use tyr_client::Error;

use super::{failed, writing};
use crate::{
    failure::{Failure, Result},
    lock::{Lock, lock},
};

/// A file in the archive's directory that is locked as long as this lives. Then it is removed; a process that is killed leaves it, and it harms
/// nobody.
pub struct Hold {
    path: PathBuf,
    _locked: File,
}

/// The file's name.
pub const NAME: &str = "export.lock";

impl Hold {
    /// Fails if another export is writing to the archive.
    pub fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
        loop {
            let mut options = writing();
            options.create(true).truncate(false);
            options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
            let file = options.open(&path).map_err(|error| failed("create", &path, &error))?;
            let failed = |error| failed("lock", &path, &error);
            match lock(&file, &path).map_err(failed)? {
                // What has bytes is somebody else's, and is not removed.
                Lock::Held if file.metadata().map_err(failed)?.len() > 0 => {
                    return Err(Failure::Store(Error::invalid(format!(
                        "'{}' is no file of an archive; name an empty directory, or one that is not there",
                        path.display()
                    ))));
                }
                Lock::Held => return Ok(Hold { path, _locked: file }),
                Lock::Busy => {
                    return Err(Failure::Store(Error::unavailable(format!(
                        "another export is writing to the archive '{}'; wait until it has ended, or name another directory",
                        directory.display()
                    ))));
                }
                Lock::Gone => {}
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // It is held until it is gone, so that nobody else has locked it meanwhile. Should it fail, an empty file stays.
        let _ = fs::remove_file(&self.path);
    }
}
