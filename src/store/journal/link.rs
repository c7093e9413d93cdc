//! Links: each frame carries the hash of all before it.
//!
//! There are two, so that the money alone can be kept and still be proved. Frames without money are hashed into `rest`; one with
//! money hashes its own rest into it too, then `chain` takes that and the money, and `rest` begins anew. Who has the frames with
//! money, and of each the `rest` that went in, can follow `chain` without the others.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256.
pub(crate) type Hash = [u8; 32];

/// What all frames up to one come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Link {
    /// Over the frames with money.
    pub(crate) chain: Hash,
    /// Over what came since the last of them.
    pub(crate) rest: Hash,
}

impl Link {
    /// After one more frame, by the bytes of its parts.
    pub(crate) fn next(self, sequence: u64, money: &[u8], rest: &[u8]) -> Self {
        let folded = hash(&[&self.rest, &sequence.to_be_bytes(), &hash(&[rest])]);
        if money.is_empty() { Self { rest: folded, ..self } } else { Self::of_money(self.chain, sequence, money, folded) }
    }

    /// After a frame with money, by what is kept of it in the archive.
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
        let before = Link::default().next(1, b"", b"a").next(2, b"", b"b");
        let whole = before.next(3, b"money", b"c");
        let folded = before.next(3, b"", b"c").rest;
        assert_eq!(Link::of_money(before.chain, 3, b"money", folded), whole);
    }

    #[test]
    fn each_byte_of_each_frame_counts() {
        let end = |a: &[u8], b: &[u8], c: &[u8]| Link::default().next(1, b"", a).next(2, b, c);
        let told = end(b"a", b"b", b"c");
        for other in [end(b"x", b"b", b"c"), end(b"a", b"x", b"c"), end(b"a", b"b", b"x")] {
            assert_ne!(other.chain, told.chain);
        }
        assert_ne!(Link::default().next(1, b"", b"a"), Link::default().next(2, b"", b"a"));
    }
}
