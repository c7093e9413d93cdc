//! The two parts of a frame: the money, and the rest.

use std::ops::Range;

use bytes::Buf as _;

use super::total::SpaceTotal;

/// The length that means that there is no value.
const DELETED: u32 = u32::MAX;

/// A key and its new value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowPart {
    /// Number of its space, or of other data in the tree that a checkpoint must include.
    pub(crate) space: u8,
    pub(crate) key: Vec<u8>,
    /// The value, or `None` if the row was deleted.
    pub(crate) value: Option<Vec<u8>>,
}

/// An entry of the change log that a commit adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeEntry {
    pub(crate) number: u64,
    pub(crate) keys: Vec<(u8, Vec<u8>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FramePart {
    pub(crate) rows: Vec<RowPart>,
    /// The totals of these rows' spaces afterwards.
    pub(crate) totals: Vec<(u8, SpaceTotal)>,
    pub(crate) change: Vec<ChangeEntry>,
}

impl FramePart {
    /// Encodes the part. An empty part has no bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if *self == Self::default() {
            return out;
        }
        count(self.rows.len(), &mut out);
        for RowPart { space, key, value } in &self.rows {
            write_key(*space, key, &mut out);
            match value {
                None => out.extend_from_slice(&DELETED.to_be_bytes()),
                Some(value) => {
                    count(value.len(), &mut out);
                    out.extend_from_slice(value);
                }
            }
        }
        count(self.totals.len(), &mut out);
        for (space, total) in &self.totals {
            out.push(*space);
            total.write(&mut out);
        }
        count(self.change.len(), &mut out);
        for ChangeEntry { number, keys } in &self.change {
            out.extend_from_slice(&number.to_be_bytes());
            count(keys.len(), &mut out);
            for (space, key) in keys {
                write_key(*space, key, &mut out);
            }
        }
        out
    }

    /// Decodes a part, or returns `None` if the bytes are malformed.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let mut cut = bytes;
        let rows = (0..cut.try_get_u32().ok()?).map(|_| read_row(&mut cut)).collect::<Option<_>>()?;
        let totals =
            (0..cut.try_get_u32().ok()?).map(|_| Some((cut.try_get_u8().ok()?, SpaceTotal::read(&mut cut)?))).collect::<Option<_>>()?;
        let change = (0..cut.try_get_u32().ok()?).map(|_| read_change(&mut cut)).collect::<Option<_>>()?;
        cut.is_empty().then_some(Self { rows, totals, change })
    }
}

/// Returns the keys of the rows in the `damaged` bytes of a part, as far as it can be read, and whether all of it could
/// be.
pub(super) fn keys_within(bytes: &[u8], damaged: &[Range<usize>]) -> (Vec<(u8, Vec<u8>)>, bool) {
    let mut cut = bytes;
    let mut keys = Vec::new();
    let Ok(rows) = cut.try_get_u32() else { return (keys, bytes.is_empty()) };
    for _ in 0..rows {
        let start = bytes.len() - cut.len();
        let Some(row) = read_row(&mut cut) else { return (keys, false) };
        let end = bytes.len() - cut.len();
        if damaged.iter().any(|damaged| damaged.start < end && start < damaged.end) {
            keys.push((row.space, row.key));
        }
    }
    (keys, true)
}

fn count(length: usize, out: &mut Vec<u8>) {
    // Values have at most 16 MiB, and the writer limits the size of a frame.
    out.extend_from_slice(&u32::try_from(length).unwrap_or(DELETED).to_be_bytes());
}

fn write_key(space: u8, key: &[u8], out: &mut Vec<u8>) {
    out.push(space);
    // Keys have at most 1 KiB.
    out.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(key);
}

fn read_key(cut: &mut &[u8]) -> Option<(u8, Vec<u8>)> {
    let (space, length) = (cut.try_get_u8().ok()?, cut.try_get_u16().ok()?);
    Some((space, cut.split_off(..usize::from(length))?.to_vec()))
}

fn read_row(cut: &mut &[u8]) -> Option<RowPart> {
    let (space, key) = read_key(cut)?;
    let value = match cut.try_get_u32().ok()? {
        DELETED => None,
        length => Some(cut.split_off(..usize::try_from(length).ok()?)?.to_vec()),
    };
    Some(RowPart { space, key, value })
}

fn read_change(cut: &mut &[u8]) -> Option<ChangeEntry> {
    let (number, keys) = (cut.try_get_u64().ok()?, cut.try_get_u32().ok()?);
    Some(ChangeEntry { number, keys: (0..keys).map(|_| read_key(cut)).collect::<Option<_>>()? })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::journal) fn row(space: u8, key: &str, value: Option<usize>) -> RowPart {
        RowPart { space, key: key.as_bytes().to_vec(), value: value.map(|size| vec![space; size]) }
    }

    fn part() -> FramePart {
        FramePart {
            rows: vec![row(3, "a", Some(5)), row(3, "", None), row(10, "large", Some(5_000))],
            totals: vec![(3, SpaceTotal { entries: 1, bytes: 2, print: 3 })],
            change: vec![ChangeEntry { number: 9, keys: vec![(3, b"a".to_vec()), (10, vec![])] }],
        }
    }

    #[test]
    fn parts_are_read_as_they_were_written() {
        assert_eq!(FramePart::read(&part().bytes()), Some(part()));
        assert_eq!(FramePart::default().bytes(), b"");
        assert_eq!(FramePart::read(b""), Some(FramePart::default()));
    }

    #[test]
    fn a_truncated_part_is_malformed() {
        let bytes = part().bytes();
        assert!((1..bytes.len()).all(|length| FramePart::read(&bytes[..length]).is_none()));
        assert_eq!(FramePart::read(&[&bytes[..], b"x"].concat()), None);
    }

    #[test]
    fn damaged_rows_are_reported_by_their_keys() {
        let bytes = part().bytes();
        assert_eq!(keys_within(&bytes, std::slice::from_ref(&(14..15))), (vec![(3, b"a".to_vec())], true));
        let (keys, all) = keys_within(&bytes, std::slice::from_ref(&(0..bytes.len())));
        assert_eq!((keys.len(), all), (3, true));
        let (keys, all) = keys_within(&bytes[..30], std::slice::from_ref(&(0..30)));
        assert_eq!((keys.len(), all), (2, false));
    }
}
