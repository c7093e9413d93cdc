//! Writes a dump.

use std::io::Write as Out;

use sha2::{Digest as _, Sha256};

use super::{CHANGED, CHANGES, DumpError, END, HEADER, MARK, NONE, ROWS, SPACE, SUMS};
use crate::{CopyPage, RowSums, Space, Write};

/// Approximate size of a block, in bytes.
const BLOCK: usize = 256 * 1024;

/// A dump that is being written.
pub struct DumpWriter<W> {
    to: W,
    all: Sha256,
    /// The space of the rows written last.
    space: Option<Space>,
    part: Sha256,
    count: u64,
    /// Whether the section of changes has begun.
    changes: bool,
    block: Vec<u8>,
}

impl<W: Out> DumpWriter<W> {
    /// Begins a dump with the given header.
    pub fn begin(mut to: W, header: &serde_json::Value) -> Result<Self, DumpError> {
        to.write_all(MARK)?;
        let all = Sha256::new_with_prefix(MARK);
        let mut dump = Self { to, all, space: None, part: Sha256::new(), count: 0, changes: false, block: Vec::new() };
        dump.block(HEADER, header.to_string().as_bytes())?;
        Ok(dump)
    }

    /// Adds the next page. The last page ends the dump.
    pub fn page(&mut self, page: &CopyPage) -> Result<(), DumpError> {
        match page {
            CopyPage::Rows(rows) => rows.iter().try_for_each(|row| self.row(row)),
            CopyPage::Changes(changes) => changes.iter().try_for_each(|change| self.change(change)),
            CopyPage::End(sums) => self.end(sums),
        }
    }

    fn row(&mut self, row: &Write) -> Result<(), DumpError> {
        if self.space != Some(row.space) {
            self.end_part()?;
            self.space = Some(row.space);
        }
        if self.block.is_empty() {
            self.block.push(row.space as u8);
        }
        self.put(row)
    }

    fn change(&mut self, change: &Write) -> Result<(), DumpError> {
        if !self.changes {
            self.end_part()?;
            self.changes = true;
        }
        self.block.push(change.space as u8);
        self.put(change)
    }

    /// Appends a key and a value to the current block.
    fn put(&mut self, Write { key, value, .. }: &Write) -> Result<(), DumpError> {
        let key_bytes = u16::try_from(key.len()).unwrap_or(u16::MAX);
        let value_bytes = value.as_ref().map_or(NONE, |value| u32::try_from(value.len()).unwrap_or(NONE));
        self.block.extend_from_slice(&key_bytes.to_be_bytes());
        self.block.extend_from_slice(&value_bytes.to_be_bytes());
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value.as_deref().unwrap_or_default());
        self.count += 1;
        if self.block.len() < BLOCK { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), DumpError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        self.part.update(&block);
        self.block(if self.changes { CHANGES } else { ROWS }, &block)?;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    /// Writes the count and hash that end a space or the changes.
    fn end_part(&mut self) -> Result<(), DumpError> {
        self.flush()?;
        let (count, digest) = (self.count.to_be_bytes(), std::mem::take(&mut self.part).finalize());
        self.count = 0;
        if self.changes {
            self.block(CHANGED, &[&count[..], &digest[..]].concat())
        } else if let Some(space) = self.space.take() {
            self.block(SPACE, &[&[space as u8][..], &count, &digest[..]].concat())
        } else {
            Ok(())
        }
    }

    fn end(&mut self, sums: &RowSums) -> Result<(), DumpError> {
        self.end_part()?;
        self.block(SUMS, &sums.to_bytes())?;
        let digest = self.all.clone().finalize();
        self.block(END, &digest)?;
        Ok(self.to.flush()?)
    }

    fn block(&mut self, kind: u8, holds: &[u8]) -> Result<(), DumpError> {
        let length = u32::try_from(holds.len()).map_err(|_| DumpError::Damaged { at: 0, what: "a block is too long" })?;
        let head = [&[kind][..], &length.to_be_bytes()].concat();
        for bytes in [&head, holds] {
            self.all.update(bytes);
            self.to.write_all(bytes)?;
        }
        Ok(())
    }
}
