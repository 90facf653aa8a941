//! A directory of its own for each test, and runs of the binary in it.

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// A directory with room for a store and files. Removed at the end.
pub struct Scratch(TempDir);

/// A run that has ended.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Scratch {
    pub fn new() -> Self {
        Scratch(tempfile::tempdir().expect("a directory"))
    }

    /// With a store that has the keyspace `k`.
    pub fn with_keyspace() -> Self {
        let scratch = Scratch::new();
        scratch.run(["keyspace", "create", "k"]).ok();
        scratch
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and what leads to it.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below the directory")).expect("created");
        fs::write(&path, content).expect("written");
        path
    }

    /// The command with nothing of this machine's environment but what finds programs.
    pub fn command(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tyr"));
        command.args(arguments).current_dir(self.0.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home")).env("TYR_STORE", self.path("store"));
        // Small segments, so that tests allocate little.
        command.env("TYR_STORE_SEGMENT_SIZE", "1MiB");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
        Run::from(self.command(arguments).output().expect("runs"))
    }

    pub fn run_with_input(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: impl AsRef<[u8]>,
    ) -> Run {
        let mut child = self.spawn(arguments);
        let mut stdin = child.stdin.take().expect("is piped");
        let input = input.as_ref().to_vec();
        // From another thread: the command may print before it has read everything. One that does not want it all is fine.
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("runs");
        let _ = writer.join().expect("does not panic");
        Run::from(output)
    }

    /// Starts the command with all of its streams piped.
    pub fn spawn(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Child {
        self.command(arguments).stdin(Stdio::piped()).spawn().expect("starts")
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Run { code: output.status.code(), stdout: output.stdout, stderr }
    }
}

impl Run {
    /// Asserts success without a word on standard error.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "stdout: {}", self.text());
        self
    }

    /// Asserts a failure with this exit code and a message that contains the text.
    #[track_caller]
    pub fn fails(self, code: i32, message: &str) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {} stderr: {}", self.text(), self.stderr);
        assert!(self.stderr.contains(message), "'{message}' is not in: {}", self.stderr);
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The document on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.text(), self.stderr))
    }
}

/// Everything about a tree that an export restores: path, kind, mode, time, and content or target.
pub fn describe_tree(root: &Path) -> Vec<String> {
    use std::os::unix::{ffi::OsStrExt, fs::MetadataExt};

    let mut described = Vec::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let metadata = fs::symlink_metadata(&path).expect("is there");
        let content = if metadata.is_dir() {
            paths.extend(fs::read_dir(&path).expect("reads").map(|entry| entry.expect("reads").path()));
            String::from("directory")
        } else if metadata.is_symlink() {
            format!("link to {:?}", fs::read_link(&path).expect("reads"))
        } else {
            format!(
                "file of {} bytes, {:08x}",
                metadata.len(),
                tyr_wire::checksum::crc32c(&fs::read(&path).expect("reads"))
            )
        };
        let name =
            path.strip_prefix(root).expect("is below").as_os_str().as_bytes().escape_ascii().to_string();
        let mode = if metadata.is_symlink() { 0 } else { metadata.mode() };
        described.push(format!("{name}: {mode:o} {}.{} {content}", metadata.mtime(), metadata.mtime_nsec()));
    }
    described.sort();
    described
}
