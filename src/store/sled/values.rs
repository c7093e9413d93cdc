//! The encoding of keys and values in the tree.
//!
//! A tree key is the number of the space followed by the key. Its value is a head with a checksum of key and value. The
//! head of a small value contains the value. The head of a large value contains its length, and its pieces have
//! separate keys outside the range of scans. sled rewrites whole leaves of up to 20 values, and moves a leaf above 128
//! KiB to a file that it does not sync. Pieces of 4 KiB keep leaves below that.

use sled::{IVec, Tree};

use super::sink::Sink;
use crate::{
    Space, StoreError,
    journal::{RowPart, RowWeight, SpaceTotals, checksum, name},
};

/// Version of the layout described here, stored in the tree itself. A tree of another version is not opened.
pub(super) const FORMAT: &str = "3";
/// The tree key of [`FORMAT`].
pub(super) const FORMAT_KEY: &[u8] = b"\xfeformat";

/// Maximum size of a value in its head, and size of a piece, in bytes.
const PIECE: usize = 4 * 1024;
/// First byte of the keys of pieces. No space has this number.
const PIECES: u8 = 0xff;
const INLINE: u8 = 0;
const IN_PIECES: u8 = 1;

/// A decoded head.
#[derive(Debug, Clone, Copy)]
struct ValueHead<'a> {
    checksum: u32,
    body: ValueBody<'a>,
}

#[derive(Debug, Clone, Copy)]
enum ValueBody<'a> {
    Inline(&'a [u8]),
    /// The length of the value in bytes.
    InPieces(usize),
}

impl<'a> ValueHead<'a> {
    fn read(head: &'a [u8]) -> Option<Self> {
        let (kind, rest) = head.split_first()?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let body = match *kind {
            INLINE => ValueBody::Inline(rest),
            IN_PIECES => ValueBody::InPieces(u32::from_be_bytes(rest.try_into().ok()?) as usize),
            _ => return None,
        };
        Some(Self { checksum: u32::from_be_bytes(*checksum), body })
    }

    fn bytes(&self) -> usize {
        match self.body {
            ValueBody::Inline(value) => value.len(),
            ValueBody::InPieces(bytes) => bytes,
        }
    }

    fn pieces(&self) -> u32 {
        match self.body {
            ValueBody::Inline(_) => 0,
            ValueBody::InPieces(bytes) => pieces(bytes),
        }
    }

    fn weight(&self, space: u8, key: &[u8]) -> RowWeight {
        RowWeight::of(space, key, self.bytes(), self.checksum)
    }
}

/// Returns the tree key of a key in a space.
pub(super) fn head_key(space: Space, key: &[u8]) -> Vec<u8> {
    head_key_of(space as u8, key)
}

fn head_key_of(space: u8, key: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(1 + key.len());
    head.push(space);
    head.extend_from_slice(key);
    head
}

/// Returns whether a head contains its value.
pub(super) fn is_inline(head: &[u8]) -> bool {
    head.first() == Some(&INLINE)
}

/// Returns the value at a key. The caller must ensure that no commit is applied meanwhile.
pub(super) fn get(tree: &Tree, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    match tree.get(head_key(space, key)).map_err(StoreError::away)? {
        Some(head) => resolve(tree, space as u8, key, &head).map(Some),
        None => Ok(None),
    }
}

/// Returns the value of a head. The caller must ensure that no commit is applied meanwhile.
pub(super) fn resolve(tree: &Tree, space: u8, key: &[u8], head: &[u8]) -> Result<Vec<u8>, StoreError> {
    let head = ValueHead::read(head).ok_or_else(|| wrong(space, key, "its head is malformed"))?;
    value_of(tree, space, key, &head)
}

/// Returns a row's contribution to the total of its space, after verifying its value.
pub(super) fn size_change(tree: &Tree, space: u8, key: &[u8], head: &[u8]) -> Result<RowWeight, StoreError> {
    let head = ValueHead::read(head).ok_or_else(|| wrong(space, key, "its head is malformed"))?;
    value_of(tree, space, key, &head)?;
    Ok(head.weight(space, key))
}

fn value_of(tree: &Tree, space: u8, key: &[u8], head: &ValueHead<'_>) -> Result<Vec<u8>, StoreError> {
    let value = match head.body {
        ValueBody::Inline(value) => value.to_vec(),
        ValueBody::InPieces(bytes) => {
            // Read only the pieces that exist, even if a damaged head states another length.
            let mut value = Vec::new();
            for number in 0..pieces(bytes) {
                let piece = tree.get(piece_key(space, key, number)).map_err(StoreError::away)?;
                let piece = piece.ok_or_else(|| wrong(space, key, "a piece is missing"))?;
                value.extend_from_slice(&piece);
            }
            value
        }
    };
    if value.len() != head.bytes() || checksum(space, key, &value) != head.checksum {
        return Err(wrong(space, key, "its checksum does not match"));
    }
    Ok(value)
}

#[cold]
fn wrong(space: u8, key: &[u8], what: &str) -> StoreError {
    StoreError::Away(format!("the row {} is damaged on disk: {what}", name(space, key)))
}

/// Writes a row to `to`. Returns how it changes `tree`.
pub(super) fn write(tree: &Tree, RowPart { space, key, value }: &RowPart, to: &mut impl Sink) -> Result<KeyChange, StoreError> {
    let position = head_key_of(*space, key);
    let stored = tree.get(&position).map_err(StoreError::away)?;
    let stored = stored.as_deref().and_then(ValueHead::read);
    let mut change = KeyChange { position: position.clone(), before: stored.map(|head| head.weight(*space, key)), after: None };
    let mut pieces_after = 0;
    if let Some(value) = value {
        let sum = checksum(*space, key, value);
        change.after = Some(RowWeight::of(*space, key, value.len(), sum));
        if value.len() <= PIECE {
            to.put(position.into(), head_value(INLINE, sum, value))?;
        } else {
            let bytes = u32::try_from(value.len()).map_err(|_| StoreError::Away("a value above 4 GiB".to_owned()))?;
            to.put(position.into(), head_value(IN_PIECES, sum, &bytes.to_be_bytes()))?;
            for (number, piece) in (0..).zip(value.chunks(PIECE)) {
                to.put(piece_key(*space, key, number).into(), piece.into())?;
            }
            pieces_after = pieces(value.len());
        }
    } else {
        to.take(position.into())?;
    }
    for number in pieces_after..stored.map_or(0, |head| head.pieces()) {
        to.take(piece_key(*space, key, number).into())?;
    }
    Ok(change)
}

fn head_value(kind: u8, checksum: u32, rest: &[u8]) -> IVec {
    let mut head = Vec::with_capacity(5 + rest.len());
    head.push(kind);
    head.extend_from_slice(&checksum.to_be_bytes());
    head.extend_from_slice(rest);
    head.into()
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX)
}

/// Returns the tree key of a piece. The key's length precedes the key, so that pieces of different keys never collide.
fn piece_key(space: u8, key: &[u8], number: u32) -> Vec<u8> {
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[PIECES, space][..], &length, key, &number.to_be_bytes()].concat()
}

/// The change of one key by a commit.
#[derive(Debug)]
pub(super) struct KeyChange {
    /// The tree key: the space's number followed by the key.
    pub(super) position: Vec<u8>,
    pub(super) before: Option<RowWeight>,
    pub(super) after: Option<RowWeight>,
}

impl KeyChange {
    /// Counts the change in the total of its space.
    pub(super) fn count(&self, totals: &mut SpaceTotals) {
        if let Some(space) = self.position.first() {
            totals.change(*space, self.before, self.after);
        }
    }
}
