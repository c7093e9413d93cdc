//! Reads a dump. Pages are returned as they are read, and are verified only once the last one has been returned.

use std::io::Read;

use bytes::Buf as _;
use sha2::{Digest as _, Sha256};

use super::{CHANGED, CHANGES, DumpError, END, HEADER, MARK, MAX, NONE, ROWS, SPACE, SUMS};
use crate::{CopyPage, MAX_KEY_BYTES, RowSums, Space, Write};

/// Maximum bytes of a block beyond one row.
const SLACK: u32 = 1024 * 1024;

/// A dump that is being read.
pub struct DumpReader<R> {
    from: R,
    /// Number of bytes read so far.
    at: u64,
    all: Sha256,
    header: serde_json::Value,
    part: Sha256,
    count: u64,
    /// Space and key of the previous row.
    last: Option<(Space, Vec<u8>)>,
    /// The space whose rows have not ended yet.
    open: Option<Space>,
    changes: Changes,
    /// Totals of the rows. Not used if there were changes.
    found: RowSums,
    ended: bool,
}

/// Whether the section of changes has begun or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changes {
    None,
    Open,
    Ended,
}

impl<R: Read> DumpReader<R> {
    /// Begins reading with the header.
    pub fn begin(mut from: R) -> Result<Self, DumpError> {
        let mut mark = [0; MARK.len()];
        from.read_exact(&mut mark).map_err(|_| DumpError::Format)?;
        if mark != *MARK {
            return Err(DumpError::Format);
        }
        let mut dump = Self {
            from,
            at: MARK.len() as u64,
            all: Sha256::new_with_prefix(MARK),
            header: serde_json::Value::Null,
            part: Sha256::new(),
            count: 0,
            last: None,
            open: None,
            changes: Changes::None,
            found: RowSums::default(),
            ended: false,
        };
        let (kind, header) = dump.block()?;
        match serde_json::from_slice(&header) {
            Ok(header) if kind == HEADER => dump.header = header,
            _ => return Err(dump.damaged("its header is malformed")),
        }
        Ok(dump)
    }

    /// Returns the header that the writer set. It is verified once the last page has been returned.
    pub fn header(&self) -> &serde_json::Value {
        &self.header
    }

    /// Returns the next page, or `None` after the last one. Nothing may follow the last page.
    /// Do not rely on the pages returned before an error.
    pub fn next_page(&mut self) -> Result<Option<CopyPage>, DumpError> {
        if self.ended {
            return Ok(None);
        }
        loop {
            let (kind, holds) = self.block()?;
            match kind {
                ROWS if self.changes == Changes::None => return self.rows(&holds).map(Some),
                CHANGES if self.open.is_none() && self.changes != Changes::Ended => return self.changed(&holds).map(Some),
                SPACE if self.open.is_some() => {
                    let space = self.open.take().map_or(NO_SPACE, |space| space as u8);
                    self.ends_part(&[&[space][..], &self.count.to_be_bytes()].concat(), &holds)?;
                }
                CHANGED if self.changes == Changes::Open => {
                    self.changes = Changes::Ended;
                    self.ends_part(&self.count.to_be_bytes(), &holds)?;
                }
                SUMS if self.open.is_none() && self.changes != Changes::Open => return self.end(&holds).map(Some),
                _ => return Err(self.damaged("a block in the wrong place")),
            }
        }
    }

    fn rows(&mut self, holds: &[u8]) -> Result<CopyPage, DumpError> {
        let Some((space, mut rest)) = space_of(holds) else { return Err(self.damaged("rows of an unknown space")) };
        if self.open.is_some_and(|open| open != space) {
            return Err(self.damaged("a space without an end"));
        }
        self.open = Some(space);
        self.part.update(holds);
        let mut rows = Vec::new();
        while !rest.is_empty() {
            let Some((key, Some(value))) = pair(&mut rest) else { return Err(self.damaged("a malformed row")) };
            if self.last.as_ref().is_some_and(|(last_space, last_key)| (*last_space, &last_key[..]) >= (space, key)) {
                return Err(self.damaged("a row out of order"));
            }
            self.last = Some((space, key.to_vec()));
            self.found.add(space, key, value);
            self.count += 1;
            rows.push(Write::put(space, key, value));
        }
        Ok(CopyPage::Rows(rows))
    }

    fn changed(&mut self, holds: &[u8]) -> Result<CopyPage, DumpError> {
        self.changes = Changes::Open;
        self.part.update(holds);
        let (mut rest, mut changes) = (holds, Vec::new());
        while !rest.is_empty() {
            let change = space_of(rest).and_then(|(space, behind)| {
                rest = behind;
                let (key, value) = pair(&mut rest)?;
                Some(Write { space, key: key.to_vec(), value: value.map(<[u8]>::to_vec) })
            });
            let Some(change) = change else { return Err(self.damaged("a malformed change")) };
            self.count += 1;
            changes.push(change);
        }
        Ok(CopyPage::Changes(changes))
    }

    /// Compares the count and hash at the end of a section with what was read.
    fn ends_part(&mut self, of: &[u8], end: &[u8]) -> Result<(), DumpError> {
        let digest = std::mem::take(&mut self.part).finalize();
        self.count = 0;
        if end == [of, &digest[..]].concat() { Ok(()) } else { Err(self.damaged("a section does not match the hash at its end")) }
    }

    fn end(&mut self, holds: &[u8]) -> Result<CopyPage, DumpError> {
        let Some(sums) = RowSums::of_bytes(holds) else { return Err(self.damaged("its totals are malformed")) };
        if self.changes == Changes::None && sums != self.found {
            return Err(self.damaged("its rows do not match its totals"));
        }
        let digest = self.all.clone().finalize();
        let (kind, end) = self.block()?;
        if kind != END || end != digest[..] {
            return Err(self.damaged("it does not match the hash at its end"));
        }
        if self.from.read(&mut [0])? != 0 {
            return Err(self.damaged("it continues after its end"));
        }
        self.ended = true;
        Ok(CopyPage::End(Box::new(sums)))
    }

    fn block(&mut self) -> Result<(u8, Vec<u8>), DumpError> {
        let mut head = [0; 5];
        self.from.read_exact(&mut head).map_err(|error| self.short(error))?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length);
        if length > MAX + SLACK {
            return Err(self.damaged("a block that is too long"));
        }
        // Reads at most to the end of the file, even if a damaged length says more.
        let mut holds = Vec::new();
        let read = Read::take(&mut self.from, length.into()).read_to_end(&mut holds)?;
        if read != length as usize {
            return Err(self.damaged("it ends too early"));
        }
        self.all.update(head);
        self.all.update(&holds);
        self.at += head.len() as u64 + u64::from(length);
        Ok((kind, holds))
    }

    fn short(&self, error: std::io::Error) -> DumpError {
        if error.kind() == std::io::ErrorKind::UnexpectedEof { self.damaged("it ends too early") } else { DumpError::Io(error) }
    }

    fn damaged(&self, what: &'static str) -> DumpError {
        DumpError::Damaged { at: self.at, what }
    }
}

/// Marks that there is no space.
const NO_SPACE: u8 = u8::MAX;

fn space_of(bytes: &[u8]) -> Option<(Space, &[u8])> {
    let (number, rest) = bytes.split_first()?;
    Some((Space::of_number(*number)?, rest))
}

/// Splits the next key and value off `rest`, or returns `None` if they are malformed.
fn pair<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let (key_bytes, value_bytes) = (usize::from(rest.try_get_u16().ok()?), rest.try_get_u32().ok()?);
    let key = rest.split_off(..key_bytes).filter(|_| key_bytes <= MAX_KEY_BYTES)?;
    let value = if value_bytes == NONE { None } else { Some(rest.split_off(..value_bytes as usize)?) };
    Some((key, value))
}
