//! Frames: a group of commits, as it lies in sectors.

use super::{
    cut::Cut,
    link::Link,
    part::Part,
    sector::{self, sectors},
};

/// Bytes of a head.
pub(super) const HEAD: usize = 8 + 8 + 4 + 4 + 64;

/// What a frame says of itself, before its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) sequence: u64,
    /// The highest number that was known to be on disk when this was written.
    pub(super) synced: u64,
    pub(super) money_bytes: u32,
    pub(super) rest_bytes: u32,
    /// What all frames before come to. In the archive: the chain before, and the rest that went into it.
    pub(super) link: Link,
}

impl Head {
    /// `None` also for the last number there is, behind which no frame could come.
    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let mut cut = Cut(content);
        let head = Self {
            sequence: cut.u64()?,
            synced: cut.u64()?,
            money_bytes: cut.u32()?,
            rest_bytes: cut.u32()?,
            link: Link::of_bytes(&cut.array()?),
        };
        (head.sequence < u64::MAX).then_some(head)
    }

    /// Whether it can be of a frame in a segment whose first frame is `first` and whose file has this many bytes: each frame takes at least
    /// a sector, and knows of none behind itself. A sector that was written elsewhere may have any numbers in place of a head.
    pub(super) fn fits(&self, first: u64, file_bytes: u64) -> bool {
        self.synced < self.sequence && self.sequence.checked_sub(first).is_some_and(|behind| behind < file_bytes / sector::SECTOR as u64)
    }

    /// Bytes of head and parts.
    pub(super) fn frame_bytes(&self) -> u64 {
        HEAD as u64 + u64::from(self.money_bytes) + u64::from(self.rest_bytes)
    }
}

/// A frame, its parts not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(super) head: Head,
    pub(super) money: Vec<u8>,
    pub(super) rest: Vec<u8>,
}

impl Frame {
    /// `None` if the parts are longer than a frame takes.
    pub(super) fn new(sequence: u64, synced: u64, link: Link, money: Vec<u8>, rest: Vec<u8>) -> Option<Self> {
        let (money_bytes, rest_bytes) = (u32::try_from(money.len()).ok()?, u32::try_from(rest.len()).ok()?);
        Some(Self { head: Head { sequence, synced, money_bytes, rest_bytes, link }, money, rest })
    }

    /// Of what was read after the head.
    pub(super) fn of(head: Head, parts: &[u8]) -> Option<Self> {
        let mut cut = Cut(parts);
        let money = cut.bytes(usize::try_from(head.money_bytes).ok()?)?.to_vec();
        let rest = cut.bytes(usize::try_from(head.rest_bytes).ok()?)?.to_vec();
        Some(Self { head, money, rest })
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.head.sequence
    }

    /// What all frames up to this one come to.
    pub(crate) fn link(&self) -> Link {
        self.head.link.next(self.head.sequence, &self.money, &self.rest)
    }

    /// The money, and the rest. `None` if they are not what a frame holds.
    pub(crate) fn parts(&self) -> Option<[Part; 2]> {
        Some([Part::read(&self.money)?, Part::read(&self.rest)?])
    }

    /// Bytes on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        (sectors(HEAD + self.money.len() + self.rest.len()) * sector::SECTOR) as u64
    }

    /// Appends its sectors to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Head { sequence, synced, money_bytes, rest_bytes, link } = self.head;
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
