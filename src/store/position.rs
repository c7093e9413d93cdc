//! Keys with several forms: positions in lists, and rows of the sales table.

use serde::{Deserialize, Serialize};
use tollhouse_base::{clock::Timestamp, id::EndpointId};

use super::key::{Key, KeyPart, KeyPrefix, prefixes};

/// The end of a key, as used in cursors. Only the store interprets it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyPosition(Vec<u8>);

impl KeyPosition {
    /// Encodes `parts` as a place.
    pub fn of(parts: &impl Key) -> Self {
        let mut position = Vec::new();
        parts.write(&mut position);
        Self(position)
    }

    /// Decodes the place as a `K`, or returns `None` if it is not one.
    pub fn parts<K: Key>(&self) -> Option<K> {
        K::read(&self.0)
    }

    /// Splits off the first part. Returns it with the rest.
    pub fn split<P: KeyPart>(&self) -> Option<(P, Self)> {
        P::read(&self.0).map(|(part, rest)| (part, Self(rest.to_vec())))
    }

    /// Returns the bytes for a cursor.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Restores a place from a cursor. Bytes that were never issued find nothing, or other rows of the same list.
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Key for KeyPosition {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.to_vec()))
    }
}

/// The key of an owner's sale. Both kinds share a range, so that one scan, which is a snapshot, sees each call exactly
/// once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SaleKey {
    /// The calls of a tool on a day, in days since 1970.
    RollUp(u32, EndpointId),
    /// A call that is not rolled up yet: its time, and a text that distinguishes it from others of that time.
    Row(Timestamp, String),
}

impl SaleKey {
    /// First byte of the key of a roll-up.
    pub const ROLL_UP: u8 = 0;
    /// First byte of the key of a single call.
    pub const ROW: u8 = 1;
}

impl Key for SaleKey {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::RollUp(day, endpoint) => Key::write(&(Self::ROLL_UP, *day, endpoint.clone()), out),
            Self::Row(at, id) => Key::write(&(Self::ROW, *at, id.clone()), out),
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = <u8 as KeyPart>::read(bytes)?;
        match kind {
            Self::ROLL_UP => <(u32, EndpointId)>::read(rest).map(|(day, endpoint)| Self::RollUp(day, endpoint)),
            Self::ROW => <(Timestamp, String)>::read(rest).map(|(at, id)| Self::Row(at, id)),
            _ => None,
        }
    }
}

prefixes! {
    <A> (A, u8) => (A, SaleKey);
    <A> (A, u8, u32) => (A, SaleKey);
}
