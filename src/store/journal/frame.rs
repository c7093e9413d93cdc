//! Frames: groups of commits, as they are stored in sectors.

use bytes::Buf as _;

use super::{
    hash_chain::ChainLink,
    part::FramePart,
    sector::{self, sectors},
};

/// Size of a frame's header, in bytes.
pub(super) const HEAD: usize = 8 + 8 + 4 + 4 + 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) sequence: u64,
    /// The highest number known to be on disk when this frame was written.
    pub(super) synced: u64,
    pub(super) money_bytes: u32,
    pub(super) rest_bytes: u32,
    /// The hashes of all frames before. In the archive: the chain before, and the `rest` hash that went into it.
    pub(super) link: ChainLink,
}

impl FrameHead {
    /// Parses a header. Returns `None` also for the highest possible number, after which no frame could follow.
    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let mut cut = content;
        let head = Self {
            sequence: cut.try_get_u64().ok()?,
            synced: cut.try_get_u64().ok()?,
            money_bytes: cut.try_get_u32().ok()?,
            rest_bytes: cut.try_get_u32().ok()?,
            link: ChainLink::of_bytes(cut.first_chunk()?),
        };
        (head.sequence < u64::MAX).then_some(head)
    }

    /// Returns whether the header can belong to a frame in a segment of `file_bytes` bytes whose first frame is
    /// `first`. Each frame takes at least one sector and cannot know of later frames. This rejects stray sectors that
    /// contain arbitrary numbers.
    pub(super) fn fits(&self, first: u64, file_bytes: u64) -> bool {
        self.synced < self.sequence && self.sequence.checked_sub(first).is_some_and(|behind| behind < file_bytes / sector::SECTOR as u64)
    }

    /// Returns the bytes of header and parts.
    pub(super) fn frame_bytes(&self) -> u64 {
        HEAD as u64 + u64::from(self.money_bytes) + u64::from(self.rest_bytes)
    }
}

/// A frame with its parts still encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(super) head: FrameHead,
    pub(super) money: Vec<u8>,
    pub(super) rest: Vec<u8>,
}

impl Frame {
    /// Creates a frame, or returns `None` if the parts are too long for one.
    pub(super) fn new(sequence: u64, synced: u64, link: ChainLink, money: Vec<u8>, rest: Vec<u8>) -> Option<Self> {
        let (money_bytes, rest_bytes) = (u32::try_from(money.len()).ok()?, u32::try_from(rest.len()).ok()?);
        Some(Self { head: FrameHead { sequence, synced, money_bytes, rest_bytes, link }, money, rest })
    }

    /// Creates a frame from its header and the bytes after it.
    pub(super) fn of(head: FrameHead, parts: &[u8]) -> Option<Self> {
        let mut cut = parts;
        let money = cut.split_off(..usize::try_from(head.money_bytes).ok()?)?.to_vec();
        let rest = cut.split_off(..usize::try_from(head.rest_bytes).ok()?)?.to_vec();
        Some(Self { head, money, rest })
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.head.sequence
    }

    /// Returns the hashes of all frames up to this one.
    pub(crate) fn link(&self) -> ChainLink {
        self.head.link.next(self.head.sequence, &self.money, &self.rest)
    }

    /// Decodes the money part and the rest. Returns `None` if they are malformed.
    pub(crate) fn parts(&self) -> Option<[FramePart; 2]> {
        Some([FramePart::read(&self.money)?, FramePart::read(&self.rest)?])
    }

    /// Returns its size on disk in bytes.
    pub(super) fn disk_bytes(&self) -> u64 {
        (sectors(HEAD + self.money.len() + self.rest.len()) * sector::SECTOR) as u64
    }

    /// Appends the frame's sectors to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let FrameHead { sequence, synced, money_bytes, rest_bytes, link } = self.head;
        let mut content = Vec::with_capacity(HEAD + self.money.len() + self.rest.len());
        content.extend_from_slice(&sequence.to_be_bytes());
        content.extend_from_slice(&synced.to_be_bytes());
        content.extend_from_slice(&money_bytes.to_be_bytes());
        content.extend_from_slice(&rest_bytes.to_be_bytes());
        content.extend_from_slice(&link.bytes());
        content.extend_from_slice(&self.money);
        content.extend_from_slice(&self.rest);
        sector::write(&content, sequence, out);
    }
}
