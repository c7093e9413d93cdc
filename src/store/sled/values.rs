//! How keys and values lie in the tree.
//!
//! A key of a space is the space's number and the key; its value is a head. The head of a small value is
//! the value itself; that of a large one tells its length, and its pieces lie under keys of their own,
//! out of the way of scans. sled rewrites whole leaves of up to 20 values, and moves a leaf above
//! 128 KiB to a file that it does not sync; pieces of 4 KiB keep leaves below that.

use std::collections::BTreeMap;

use sled::{Batch, IVec, Tree};

use crate::store::{Space, Write};

/// The number of the layout described here, kept in the tree itself: a version that knows lower ones alone does not open it.
pub(super) const FORMAT: &str = "2";
/// The layout in which no value says its own format. What is there reads as it did.
pub(super) const UNMARKED: &str = "1";
/// Where [`FORMAT`] lies.
pub(super) const FORMAT_KEY: &[u8] = b"\xfeformat";

/// Largest value kept in its head, and size of a piece, in bytes.
const PIECE: usize = 4 * 1024;
/// First byte of the keys of pieces; no space has this number.
const PIECES: u8 = 0xff;
const INLINE: u8 = 0;
const IN_PIECES: u8 = 1;

/// The key in the tree of a key of a space.
pub(super) fn head_key(space: Space, key: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(1 + key.len());
    head.push(space as u8);
    head.extend_from_slice(key);
    head
}

/// The value that a head holds itself.
pub(super) fn inline(head: &[u8]) -> Option<&[u8]> {
    head.split_first().filter(|(kind, _)| **kind == INLINE).map(|(_, value)| value)
}

/// The value at a key. The caller sees to it that no commit is applied meanwhile.
pub(super) fn get(tree: &Tree, space: Space, key: &[u8]) -> sled::Result<Option<Vec<u8>>> {
    match tree.get(head_key(space, key))? {
        Some(head) => resolve(tree, space, key, &head).map(Some),
        None => Ok(None),
    }
}

/// The value of a head. The caller sees to it that no commit is applied meanwhile.
pub(super) fn resolve(tree: &Tree, space: Space, key: &[u8], head: &[u8]) -> sled::Result<Vec<u8>> {
    if let Some(value) = inline(head) {
        return Ok(value.to_vec());
    }
    let bytes = length(head).ok_or_else(|| damaged("a head of no known kind"))?;
    let mut value = Vec::with_capacity(bytes);
    for number in 0..pieces(bytes) {
        let piece = tree.get(piece_key(space, key, number))?.ok_or_else(|| damaged("a piece of a value is missing"))?;
        value.extend_from_slice(&piece);
    }
    if value.len() == bytes { Ok(value) } else { Err(damaged("a value has another length than its head says")) }
}

/// The bytes of the value that a head stands for.
pub(super) fn value_bytes(head: &[u8]) -> usize {
    length(head).unwrap_or(head.len().saturating_sub(1))
}

/// The batch that does `writes`, in order, and what changes by it.
pub(super) fn batch(tree: &Tree, writes: Vec<Write>) -> sled::Result<(Batch, Vec<Change>)> {
    let mut batch = Batch::default();
    let mut changes = Vec::with_capacity(writes.len());
    let last: BTreeMap<(Space, Vec<u8>), Option<Vec<u8>>> = writes.into_iter().map(|w| ((w.space, w.key), w.value)).collect();
    for ((space, key), value) in last {
        let head = head_key(space, &key);
        let stored = tree.get(&head)?;
        let before = stored.as_deref().and_then(length).map_or(0, pieces);
        changes.push(Change {
            before: stored.as_deref().map(|stored| key.len() + value_bytes(stored)),
            after: value.as_ref().map(|value| key.len() + value.len()),
            key: head.clone(),
        });
        let after = match value {
            None => {
                batch.remove(head);
                0
            }
            Some(value) if value.len() <= PIECE => {
                batch.insert(head, head_value(INLINE, &value));
                0
            }
            Some(value) => {
                let bytes = u32::try_from(value.len()).map_err(|_| sled::Error::Unsupported("a value above 4 GiB".to_owned()))?;
                batch.insert(head, head_value(IN_PIECES, &bytes.to_be_bytes()));
                for (number, piece) in (0..).zip(value.chunks(PIECE)) {
                    batch.insert(piece_key(space, &key, number), piece);
                }
                pieces(value.len())
            }
        };
        for number in after..before {
            batch.remove(piece_key(space, &key, number));
        }
    }
    Ok((batch, changes))
}

fn head_value(kind: u8, rest: &[u8]) -> IVec {
    let mut head = Vec::with_capacity(1 + rest.len());
    head.push(kind);
    head.extend_from_slice(rest);
    head.into()
}

/// The length of the value of a head that lies in pieces.
fn length(head: &[u8]) -> Option<usize> {
    let bytes = head.strip_prefix(&[IN_PIECES])?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(bytes)).ok()
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX)
}

/// The key's length comes before the key, so that no two keys share the key of a piece.
fn piece_key(space: Space, key: &[u8], number: u32) -> Vec<u8> {
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[PIECES, space as u8][..], &length, key, &number.to_be_bytes()].concat()
}

fn damaged(what: &str) -> sled::Error {
    sled::Error::ReportableBug(what.to_owned())
}

/// What a commit does to one key.
pub(super) struct Change {
    /// As the tree has it: the space's number, then the key.
    pub(super) key: Vec<u8>,
    /// Bytes of key and value.
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}
