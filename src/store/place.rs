//! Keys of more than one form: places in lists, and rows of the sales.

use serde::{Deserialize, Serialize};
use tollhouse_base::{clock::Timestamp, id::EndpointId};

use super::key::{Key, Part, StartOf};

/// The end of a key, as cursors carry it: opaque to all but the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Place(Vec<u8>);

impl Place {
    /// The place of these parts.
    #[must_use]
    pub fn of(parts: &impl Key) -> Self {
        let mut place = Vec::new();
        parts.write(&mut place);
        Self(place)
    }

    /// The parts, where they are these.
    #[must_use]
    pub fn parts<K: Key>(&self) -> Option<K> {
        K::read(&self.0)
    }

    /// What it starts with, and the rest.
    #[must_use]
    pub fn split<P: Part>(&self) -> Option<(P, Self)> {
        P::read(&self.0).map(|(part, rest)| (part, Self(rest.to_vec())))
    }

    /// As a cursor carries it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Out of a cursor. What is no place that was given out finds nothing, or others of the same list.
    #[must_use]
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Key for Place {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.to_vec()))
    }
}

/// A row of the sales among its owner's: both kinds lie in one range, so that one scan, which is one moment, sees a call once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SaleKey {
    /// The calls of a day, counted from 1970.
    RollUp(u32, EndpointId),
    /// A call that is not folded yet, and what tells it from others of its time.
    Row(Timestamp, String),
}

impl SaleKey {
    /// First byte of roll-ups.
    pub const ROLL_UP: u8 = 0;
    /// First byte of rows.
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
        let (kind, rest) = <u8 as Part>::read(bytes)?;
        match kind {
            Self::ROLL_UP => <(u32, EndpointId)>::read(rest).map(|(day, endpoint)| Self::RollUp(day, endpoint)),
            Self::ROW => <(Timestamp, String)>::read(rest).map(|(at, id)| Self::Row(at, id)),
            _ => None,
        }
    }
}

impl<A: Part> StartOf<(A, SaleKey)> for (A, u8, u32) {
    fn begin(&self, out: &mut Vec<u8>) {
        Part::write(&self.0, out);
        Part::write(&self.1, out);
        Part::write(&self.2, out);
    }
}

impl<A: Part> StartOf<(A, SaleKey)> for (A, u8) {
    fn begin(&self, out: &mut Vec<u8>) {
        Part::write(&self.0, out);
        Part::write(&self.1, out);
    }
}
