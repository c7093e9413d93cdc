//! Links: each frame carries the hash of all frames before it.
//!
//! There are two hashes, so that the money alone can be archived and still be verified. Frames without money are hashed
//! into `rest`. A frame with money hashes its own rest into `rest` too, then `chain` takes in that `rest` and the
//! money, and `rest` starts again from zero. The frames with money, each with the `rest` that went into it, are enough
//! to verify `chain`.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 hash.
pub(crate) type Hash = [u8; 32];

/// The hashes of all frames up to a given one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ChainLink {
    /// Hash of the frames with money.
    pub(crate) chain: Hash,
    /// Hash of the frames since the last one with money.
    pub(crate) rest: Hash,
}

impl ChainLink {
    /// Returns the link after one more frame, from the bytes of its parts.
    pub(crate) fn next(self, sequence: u64, money: &[u8], rest: &[u8]) -> Self {
        let folded = hash(&[&self.rest, &sequence.to_be_bytes(), &hash(&[rest])]);
        if money.is_empty() { Self { rest: folded, ..self } } else { Self::of_money(self.chain, sequence, money, folded) }
    }

    /// Returns the link after a frame with money, from its archived form.
    pub(super) fn of_money(chain: Hash, sequence: u64, money: &[u8], folded: Hash) -> Self {
        Self { chain: hash(&[&chain, &sequence.to_be_bytes(), &hash(&[money]), &folded]), rest: Hash::default() }
    }

    pub(super) fn bytes(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&self.chain);
        bytes[32..].copy_from_slice(&self.rest);
        bytes
    }

    pub(super) fn of_bytes(bytes: &[u8; 64]) -> Self {
        let mut link = Self::default();
        link.chain.copy_from_slice(&bytes[..32]);
        link.rest.copy_from_slice(&bytes[32..]);
        link
    }
}

fn hash(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_alone_proves_the_chain() {
        let before = ChainLink::default().next(1, b"", b"a").next(2, b"", b"b");
        let whole = before.next(3, b"money", b"c");
        let folded = before.next(3, b"", b"c").rest;
        assert_eq!(ChainLink::of_money(before.chain, 3, b"money", folded), whole);
    }

    #[test]
    fn every_byte_of_every_frame_changes_the_hash() {
        let end = |a: &[u8], b: &[u8], c: &[u8]| ChainLink::default().next(1, b"", a).next(2, b, c);
        let reported = end(b"a", b"b", b"c");
        for other in [end(b"x", b"b", b"c"), end(b"a", b"x", b"c"), end(b"a", b"b", b"x")] {
            assert_ne!(other.chain, reported.chain);
        }
        assert_ne!(ChainLink::default().next(1, b"", b"a"), ChainLink::default().next(2, b"", b"a"));
    }
}
