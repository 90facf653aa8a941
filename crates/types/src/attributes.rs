//! The small map of named values that a blob carries in its head.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use crate::{Error, Result};

/// The longest attribute name, in bytes.
pub const ATTRIBUTE_NAME_MAX: usize = 255;
/// The most bytes that the names and values of one blob's attributes may have together.
pub const ATTRIBUTES_SIZE_MAX: usize = 64 << 10;

/// Named values of a blob, at most [`ATTRIBUTES_SIZE_MAX`] bytes in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(BTreeMap<String, Vec<u8>>);

impl Attributes {
    /// The value of the attribute, if it is set.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// All attributes in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// How many attributes are set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all names and values.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Sets the attribute, or unsets it if `value` is `None`. Fails with [`crate::ErrorKind::Invalid`], and changes
    /// nothing, if the name or the whole would be too long.
    pub fn set(&mut self, name: &str, value: Option<&[u8]>) -> Result<()> {
        if name.is_empty() || name.len() > ATTRIBUTE_NAME_MAX {
            return Err(Error::invalid(format!(
                "the attribute name has {} bytes; a name has 1 to {ATTRIBUTE_NAME_MAX} bytes",
                name.len()
            )));
        }
        let Some(value) = value else {
            self.0.remove(name);
            return Ok(());
        };
        let old = self.value(name).map_or(0, |old| old.len() + name.len());
        let size = self.size() - old + name.len() + value.len();
        if size > ATTRIBUTES_SIZE_MAX {
            return Err(Error::invalid(format!(
                "attributes would have {size} bytes; a blob's attributes have at most {ATTRIBUTES_SIZE_MAX} bytes in all"
            )));
        }
        self.0.insert(name.into(), value.into());
        Ok(())
    }
}

/// As a store has them, each of a name of its own. Only who sets one is held to the limits, so that a blob that has more can be read and mended.
impl FromIterator<(String, Vec<u8>)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, Vec<u8>)>>(attributes: I) -> Self {
        Attributes(attributes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_limit_counts_replaced_values_once() {
        let mut attributes = Attributes::default();
        let half = [0; ATTRIBUTES_SIZE_MAX / 2];
        attributes.set("a", Some(&half)).expect("fits");
        attributes.set("a", Some(&half)).expect("replaces");
        assert!(attributes.set("b", Some(&half)).is_err());
        assert_eq!((attributes.len(), attributes.size()), (1, half.len() + 1));
        attributes.set("a", None).expect("unsets");
        attributes.set("b", Some(&half)).expect("fits now");
    }
}
