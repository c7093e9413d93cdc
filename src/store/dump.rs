//! Dumps: all rows of a store at one moment, in a format that every backend can import.
//!
//! A dump is a magic number followed by blocks. A block is a letter, the length of its content in four bytes, and the
//! content. All numbers are big-endian.
//!
//! | block | content |
//! |---|---|
//! | `H` | the header, JSON from the writer; first, exactly once |
//! | `R` | the number of a space, then rows of it: key length (two bytes), value length (four), key, value. Spaces and keys are in order |
//! | `S` | ends a space: its number, the row count (eight bytes), SHA-256 of the content of its `R` blocks |
//! | `C` | changes committed while the rows were read: space, key length (two bytes), value length (four; all ones if the row was deleted), key, value |
//! | `D` | ends the changes, if any: their count (eight bytes), SHA-256 of their content |
//! | `T` | the totals by space once the changes are applied to the rows |
//! | `E` | ends the dump: SHA-256 of everything before this block |

mod read;
mod write;

use std::io;

pub use self::{read::DumpReader, write::DumpWriter};

/// The magic number of a dump. The digits are the version of its format.
const MARK: &[u8; 8] = b"thdump01";
/// Maximum content of a block, in bytes: one row with its lengths.
const MAX: u32 = (super::MAX_VALUE_BYTES + super::MAX_KEY_BYTES + 16) as u32;
/// The value length that means a deleted row.
const NONE: u32 = u32::MAX;

const HEADER: u8 = b'H';
const ROWS: u8 = b'R';
const SPACE: u8 = b'S';
const CHANGES: u8 = b'C';
const CHANGED: u8 = b'D';
const SUMS: u8 = b'T';
const END: u8 = b'E';

/// Why a dump could not be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each error message describes its variant")]
pub enum DumpError {
    #[error("it is not a dump of a store, or this version does not support its format")]
    Format,
    #[error("it is damaged at byte {at}: {what}; use another backup")]
    Damaged { at: u64, what: &'static str },
    #[error("it cannot be read or written")]
    Io(#[from] io::Error),
}
