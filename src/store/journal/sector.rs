//! Sectors: the smallest unit that a disk writes.
//!
//! A used sector contains a checksum of the rest of it, a mark that is never zero, and its content. So a sector that
//! was never written, which is all zeros, differs from one that was changed.

use std::io;

/// Size of a sector, in bytes.
pub(super) const SECTOR: usize = 512;
/// Size of checksum and mark, in bytes.
const HEAD: usize = 8;
/// Size of a sector's content, in bytes.
pub(super) const ROOM: usize = SECTOR - HEAD;

const USED: u32 = 1 << 31;
const FIRST: u32 = 1 << 30;

/// The state of a sector that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sector<'a> {
    /// Never written.
    Zero,
    /// Changed since it was written.
    Bad,
    /// Intact.
    Good {
        /// Whether a frame starts here.
        first: bool,
        /// The low bits of the frame's number. See [`low_bits`].
        low: u32,
        content: &'a [u8],
    },
}

/// Returns the low bits of a number, as many as a sector's mark has room for.
pub(super) fn low_bits(sequence: u64) -> u32 {
    (sequence & u64::from(FIRST - 1)) as u32
}

/// Returns the number of sectors for `bytes` bytes of content.
pub(super) fn sectors(bytes: usize) -> usize {
    bytes.div_ceil(ROOM)
}

/// Reads the next sector of a file. Returns `None` at its end.
pub(super) fn next(file: &mut impl io::Read) -> io::Result<Option<[u8; SECTOR]>> {
    let mut sector = [0; SECTOR];
    match file.read_exact(&mut sector) {
        Ok(()) => Ok(Some(sector)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn read(sector: &[u8; SECTOR]) -> Sector<'_> {
    if sector.iter().all(|byte| *byte == 0) {
        return Sector::Zero;
    }
    let (checksum, rest) = sector.split_at(4);
    let (mark, content) = rest.split_at(4);
    let mark = u32::from_be_bytes(mark.try_into().unwrap_or_default());
    if crc32fast::hash(rest).to_be_bytes() != checksum || mark & USED == 0 {
        return Sector::Bad;
    }
    Sector::Good { first: mark & FIRST != 0, low: mark & (FIRST - 1), content }
}

/// Appends `content` to `out` in sectors. The last one is padded with zeros.
pub(super) fn write(content: &[u8], sequence: u64, out: &mut Vec<u8>) {
    let mut mark = USED | FIRST | low_bits(sequence);
    for room in content.chunks(ROOM) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&mark.to_be_bytes());
        out.extend_from_slice(room);
        out.resize(start + SECTOR, 0);
        let checksum = crc32fast::hash(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&checksum.to_be_bytes());
        mark &= !FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(content: &[u8]) -> Vec<[u8; SECTOR]> {
        let mut out = Vec::new();
        write(content, 7, &mut out);
        out.as_chunks().0.to_vec()
    }

    #[test]
    fn sectors_are_read_as_they_were_written() {
        let content: Vec<u8> = (0..=255).cycle().take(ROOM * 2 + 5).collect();
        let sectors = written(&content);
        let mut found = Vec::new();
        for (position, sector) in sectors.iter().enumerate() {
            let Sector::Good { first, low, content } = read(sector) else { panic!("{position}") };
            assert_eq!((first, low), (position == 0, 7));
            found.extend_from_slice(content);
        }
        found.truncate(content.len());
        assert_eq!((sectors.len(), found), (3, content));
    }

    #[test]
    fn a_changed_bit_differs_from_a_blank_sector() {
        let sector = written(b"content")[0];
        for bit in 0..SECTOR * 8 {
            let mut changed = sector;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&changed), Sector::Bad, "bit {bit}");
            let mut blank = [0; SECTOR];
            assert_eq!(read(&blank), Sector::Zero);
            blank[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&blank), Sector::Bad, "bit {bit} of a blank one");
        }
    }

    #[test]
    fn a_written_sector_of_zeros_is_not_blank() {
        for sequence in [0, 1 << 30, 1 << 40] {
            let mut out = Vec::new();
            write(&[0; ROOM], sequence, &mut out);
            assert!(matches!(read(out.first_chunk().unwrap()), Sector::Good { .. }));
        }
    }
}
