//! Damage: what is wrong, where, and which rows it may affect.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use tollhouse_base::plural::plural_range;

use crate::{Space, schema::TABLES};

/// Maximum number of rows that a message lists. It gives the number of the others.
const NAMED: usize = 10;

/// Data on disk that is missing or has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalDamage {
    /// The damaged file.
    pub file: PathBuf,
    /// The offset in the file, in bytes.
    pub offset: Option<u64>,
    /// The kind of damage.
    pub what: String,
    /// Numbers of the first and last frame known to be affected.
    pub sequences: Option<(u64, u64)>,
    /// Table and key of the rows in the damaged bytes, as far as they can be read.
    pub rows: Vec<String>,
    /// Whether more rows may be affected than are listed.
    pub more_rows: bool,
}

impl JournalDamage {
    pub(crate) fn new(file: &Path, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), offset: None, what: what.into(), sequences: None, rows: vec![], more_rows: false }
    }

    pub(super) fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    pub(super) fn of(self, from: u64, to: u64) -> Self {
        Self { sequences: Some((from, to.max(from))), ..self }
    }

    pub(super) fn with_rows(self, keys: &[(u8, Vec<u8>)], all: bool) -> Self {
        Self { rows: keys.iter().map(|(space, key)| name(*space, key)).collect(), more_rows: !all, ..self }
    }
}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.what)?;
        if let Some((from, to)) = self.sequences {
            write!(f, "; {}", plural_range("frame", from, to))?;
        }
        if !self.rows.is_empty() {
            write!(f, "; rows: {}", self.rows[..self.rows.len().min(NAMED)].join(", "))?;
        }
        match self.rows.len().checked_sub(NAMED) {
            Some(more) if more > 0 => write!(f, " and {more} more")?,
            Some(_) | None => {}
        }
        if self.more_rows { f.write_str("; later rows are unknown") } else { Ok(()) }
    }
}

impl std::error::Error for JournalDamage {}

/// Names a row by its table and key, for people.
pub(crate) fn name(space: u8, key: &[u8]) -> String {
    let Some(of_it) = Space::of_number(space) else { return "an entry of the change log".to_owned() };
    let mut tables: Vec<_> = TABLES.iter().filter(|plan| plan.space == of_it && key.starts_with(plan.prefix.as_bytes())).collect();
    tables.sort_by_key(|plan| plan.prefix.len());
    let table = tables.last().map_or_else(|| format!("{of_it:?}"), |plan| plan.name.to_owned());
    format!("{table} `{}`", key.escape_ascii())
}

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("{0}")]
    Damaged(Box<JournalDamage>),
    #[error("`{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl JournalError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }
}

impl From<JournalDamage> for JournalError {
    fn from(damage: JournalDamage) -> Self {
        Self::Damaged(Box::new(damage))
    }
}
