//! What is sought in a blob.

/// What a seek finds the next of, as `lseek` does with `SEEK_DATA` and `SEEK_HOLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seek {
    /// A byte that was written.
    Data,
    /// A byte that was never written, or of which nothing is left; it reads as zero. The end of a blob is a hole.
    Hole,
}
