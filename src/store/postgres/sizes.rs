//! The latest known sizes of spaces. Each partition's size has a version, so that late reports are ignored.

use std::collections::HashMap;

use tokio_postgres::{Error, Row};
use tollhouse_base::lock::Lock;

use crate::{Space, SpaceSize, SpaceSizes};

/// The size of one partition of a space.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizePart {
    pub(super) space: i16,
    pub(super) part: i16,
    pub(super) entries: i64,
    pub(super) bytes: i64,
    pub(super) version: i64,
}

/// The latest known size of each partition.
#[derive(Debug, Default)]
pub(super) struct KnownSizes(Lock<HashMap<(i16, i16), SizePart>>);

impl KnownSizes {
    /// Records sizes that are newer than the known ones.
    pub(super) fn learn(&self, parts: impl IntoIterator<Item = SizePart>) {
        let mut known = self.0.lock();
        for part in parts {
            let position = known.entry((part.space, part.part)).or_insert(part);
            if part.version > position.version {
                *position = part;
            }
        }
    }

    /// Records the sizes that a transaction returned. It counted in partition `part`.
    pub(super) fn note(&self, row: &Row, part: i16) -> Result<(), Error> {
        let Some(spaces) = row.try_get::<_, Option<Vec<i16>>>("out_spaces")? else { return Ok(()) };
        let numbers = |name| row.try_get::<_, Vec<i64>>(name);
        let (entries, bytes, versions) = (numbers("out_entries")?, numbers("out_bytes")?, numbers("out_versions")?);
        let counts = entries.into_iter().zip(bytes).zip(versions);
        self.learn(spaces.into_iter().zip(counts).map(|(space, ((entries, bytes), version))| SizePart {
            space,
            part,
            entries,
            bytes,
            version,
        }));
        Ok(())
    }

    pub(super) fn total(&self) -> SpaceSizes {
        let known = self.0.lock();
        let mut sums = HashMap::<i16, (i64, i64)>::new();
        for part in known.values() {
            let (entries, bytes) = sums.entry(part.space).or_default();
            *entries += part.entries;
            *bytes += part.bytes;
        }
        let spaces = sums.into_iter().filter_map(|(space, (entries, bytes))| {
            let space = Space::of_number(u8::try_from(space).ok()?)?;
            Some((space, SpaceSize { entries: entries.try_into().unwrap_or_default(), bytes: bytes.try_into().unwrap_or_default() }))
        });
        SpaceSizes { spaces: spaces.collect(), complete: true, ..SpaceSizes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_sizes_are_ignored() {
        let known = KnownSizes::default();
        let part = |part, entries, version| SizePart { space: Space::Kv as i16, part, entries, bytes: 10 * entries, version };
        known.learn([part(0, 5, 2), part(1, -2, 1), SizePart { space: -1, ..part(0, 9, 9) }]);
        assert_eq!(known.total().spaces, [(Space::Kv, SpaceSize { entries: 3, bytes: 30 })].into());
        known.learn([part(0, 4, 1), part(1, 7, 2)]);
        assert_eq!(known.total().spaces, [(Space::Kv, SpaceSize { entries: 12, bytes: 120 })].into());
    }
}
