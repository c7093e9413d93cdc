//! Dumps: all rows of a store as they stood at one moment, in a form that every backend is filled from.
//!
//! A dump is a mark, then blocks: a letter, the length of what follows as four bytes, and that. All numbers are big-endian.
//!
//! | block | holds |
//! |---|---|
//! | `H` | what whoever wrote it says of it, as JSON; the first, once |
//! | `R` | the number of a space, then rows of it: length of the key (two bytes), of the value (four), key, value. Spaces in order, keys in order |
//! | `S` | ends a space: its number, how many rows there were (eight), SHA-256 of what its blocks `R` hold |
//! | `C` | what commits did while the rows were walked: space, length of the key (two), of the value (four; all ones where the row went), key, value |
//! | `D` | ends those, where there are any: how many (eight), SHA-256 of what they hold |
//! | `T` | what the rows come to once these are written over them, by their spaces |
//! | `E` | ends the dump: SHA-256 of all before this block |

mod read;
mod write;

use std::io;

pub use self::{read::DumpReader, write::DumpWriter};

/// What a dump starts with; the digits are the number of its format.
const MARK: &[u8; 8] = b"thdump01";
/// Bytes of what a block holds, at most: a row and its lengths.
const MOST: u32 = (super::MAX_VALUE_BYTES + super::MAX_KEY_BYTES + 16) as u32;
/// The length of a value that is none.
const NONE: u32 = u32::MAX;

const HEADER: u8 = b'H';
const ROWS: u8 = b'R';
const SPACE: u8 = b'S';
const CHANGES: u8 = b'C';
const CHANGED: u8 = b'D';
const SUMS: u8 = b'T';
const END: u8 = b'E';

/// Why a dump is not read, or not written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum DumpError {
    #[error("it is no dump of a store, or of another format than this version reads")]
    Format,
    #[error("it is damaged at byte {at}: {what}; take another backup")]
    Damaged { at: u64, what: &'static str },
    #[error("it cannot be read or written")]
    Io(#[from] io::Error),
}
