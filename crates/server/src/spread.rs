//! Which shard's store is on which target: as many shards on each as its weight asks for.
//!
//! Every shard has about as many partitions as another one, so the shards of a target are its share. Once a store is made it stays where
//! it is, whatever the weights are later, until somebody moves its directory to another target while the node is stopped.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use tyr_types::{Error, Result};

use crate::{Settings, TargetSettings, label};

/// Where a shard's store is, and the weight of its target.
pub(crate) type Place = TargetSettings;

impl Settings {
    /// Fails if two targets are one directory: its shards would be taken for two of each.
    pub(crate) fn check_targets(&self) -> Result<()> {
        let mut known: BTreeMap<Identity, &Path> = BTreeMap::new();
        for TargetSettings { path, .. } in &self.targets {
            if let Some(identity) = identity_of(path)
                && let Some(other) = known.insert(identity, path)
            {
                return Err(Error::invalid(format!(
                    "a target is named twice: '{}' and '{}' are the same directory; name it once, with the weight that it is to have",
                    other.display(),
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// For each shard its place.
    pub(crate) fn shard_places(&self) -> Result<Vec<Place>> {
        let own = [TargetSettings::new(&self.directory)];
        let targets = if self.targets.is_empty() { &own[..] } else { &self.targets[..] };
        let weights: Vec<u32> = targets.iter().map(|target| target.weight).collect();
        let spread = spread(&weights, self.shards.get());
        let places = (0..self.shards.get()).zip(spread).map(|(number, planned)| {
            let directory = |target: &TargetSettings| target.path.join(format!("shard-{number}"));
            let made: Vec<&TargetSettings> =
                targets.iter().filter(|target| label::is_given(&directory(target))).collect();
            match made[..] {
                [] => Ok(place(directory(&targets[planned]), targets[planned].weight)),
                [target] => Ok(place(directory(target), target.weight)),
                [one, other, ..] => Err(Error::invalid(format!(
                    "'{}' and '{}' are both a shard of this node; keep the one that was in use last, and move the other away",
                    directory(one).display(),
                    directory(other).display()
                ))),
            }
        });
        places.collect()
    }
}

/// What tells a directory from others, by whichever path it is named: device and inode. Of one that is not there yet they are those of the
/// nearest directory above it that is, with the rest of the path.
type Identity = (u64, u64, PathBuf);

/// The identity of a directory, if anything above it can be looked at.
fn identity_of(path: &Path) -> Option<Identity> {
    let whole = std::path::absolute(path).ok()?;
    whole.ancestors().find_map(|above| {
        let metadata = above.metadata().ok()?;
        Some((metadata.dev(), metadata.ino(), whole.strip_prefix(above).ok()?.to_owned()))
    })
}

fn place(path: PathBuf, weight: u32) -> Place {
    Place { path, weight }
}

/// For each shard the target that it goes to: always the one that lacks most of its share, the first of several. Each target with any weight
/// gets one before another gets two, if there are enough.
fn spread(weights: &[u32], shards: u32) -> Vec<usize> {
    let mut counts = vec![0u64; weights.len()];
    let mut places = Vec::new();
    for _ in 0..shards {
        // Of two quotients `weight / (count + 1)` the larger one is found without dividing; one without a shard has none before it.
        let better = |one: usize, other: usize| {
            let quotient = |of: usize, against: usize| u64::from(weights[of]) * (counts[against] + 1);
            let is_empty = |of: usize| counts[of] == 0 && weights[of] > 0;
            (is_empty(one), quotient(one, other)) > (is_empty(other), quotient(other, one))
        };
        let best = (1..weights.len()).fold(0, |best, next| if better(next, best) { next } else { best });
        counts[best] += 1;
        places.push(best);
    }
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_get_as_many_shards_as_they_weigh() {
        let counts = |weights: &[u32], shards| {
            let spread = spread(weights, shards);
            (0..weights.len())
                .map(|at| spread.iter().filter(|place| **place == at).count())
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&[1], 3), [3]);
        assert_eq!(counts(&[1, 1], 4), [2, 2]);
        assert_eq!(counts(&[300, 100], 4), [3, 1]);
        assert_eq!(counts(&[1000, 1], 2), [1, 1], "none is without a share that should have one");
        assert_eq!(counts(&[2, 0, 1], 6), [4, 0, 2]);
        assert_eq!(counts(&[1, 1, 1], 5), [2, 2, 1]);
    }

    #[test]
    fn a_target_that_is_named_twice_is_refused_by_whichever_paths() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["one", "other"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::os::unix::fs::symlink("one", path("link")).unwrap();
        let check = |names: &[&str]| {
            let targets = names.iter().map(|name| TargetSettings::new(path(name))).collect();
            Settings { targets, ..Settings::new(path("node")) }.check()
        };
        for names in [
            ["one", "one"],
            ["one", "other/../one"],
            ["link", "one"],
            ["new", "./new"],
            ["link/new", "one/new"],
        ] {
            let error = check(&names).unwrap_err();
            assert_eq!(error.kind(), tyr_types::ErrorKind::Invalid);
            let [first, second] = names.map(|name| format!("'{}'", path(name).display()));
            let message = error.to_string();
            assert!(message.contains("named twice"), "{message}");
            assert!(message.contains(&first) && message.contains(&second), "{message}");
        }
        assert!(check(&["one", "one", "one"]).unwrap_err().to_string().contains("named twice"));
        for names in [["one", "other"], ["one", "new"], ["new", "newer"], ["one/new", "other/new"]] {
            check(&names).unwrap();
        }
    }
}
