//! What stands before the entries of a log, as bytes.

use tyr_proto::Epoch;
use tyr_types::{Error, Result};

/// What a log begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The entries up to here are not kept.
    pub start: u64,
    /// The checkpoint holds the entries up to here, and possibly more, which the log has lost since; none if there is no checkpoint.
    /// Not before `start`.
    pub folded: Option<u64>,
    /// Each epoch with the index of its last entry, up to `start`.
    pub epochs: Vec<(Epoch, u64)>,
}

impl Base {
    /// The bytes of a base.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.extend(self.start.to_le_bytes());
        bytes.extend(self.folded.map_or(0, |folded| folded + 1).to_le_bytes());
        for (epoch, end) in &self.epochs {
            bytes.extend(epoch.0.to_le_bytes());
            bytes.extend(end.to_le_bytes());
        }
        bytes
    }

    /// A base from its bytes. Fails with `corrupt` if they are none, and with `unavailable` if another version has written them.
    pub fn decode(bytes: &[u8]) -> Result<Base> {
        let malformed = || Error::corrupt("the base of a log is malformed");
        let (format, rest) = bytes.split_first().ok_or_else(malformed)?;
        if *format != FORMAT {
            return Err(Error::unavailable(format!(
                "the partition logs have format version {format}, this program reads version {FORMAT}; use a matching release of Týr"
            )));
        }
        let (start, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (folded, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (epochs, []) = rest.as_chunks::<12>() else { return Err(malformed()) };
        let epoch = |bytes: &[u8; 12]| {
            let [a, b, c, d, end @ ..] = *bytes;
            (Epoch(u32::from_le_bytes([a, b, c, d])), u64::from_le_bytes(end))
        };
        let base = Base {
            start: u64::from_le_bytes(*start),
            folded: u64::from_le_bytes(*folded).checked_sub(1),
            epochs: epochs.iter().map(epoch).collect(),
        };
        let ascend = base.epochs.is_sorted_by(|one, two| one.0 < two.0 && one.1 < two.1);
        let end = base.epochs.last().map_or(0, |(_, end)| *end);
        let is_sound = ascend && end == base.start && base.folded.unwrap_or(0) >= base.start;
        if is_sound { Ok(base) } else { Err(malformed()) }
    }
}

/// The version of this layout and of those of records and checkpoints.
const FORMAT: u8 = 5;
