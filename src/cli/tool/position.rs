//! Places of problems in a folder: file, line and column, in the form that editors can open.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::base::line;

/// A place in a file, counted from 1. Columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FilePosition {
    pub(crate) file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<u32>,
}

/// A problem of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    #[serde(flatten)]
    pub(crate) position: FilePosition,
    /// The check that found it: `tool`, `bundle`, `host`, `types` or `cases`.
    pub(crate) by: &'static str,
    pub(crate) message: String,
    /// Further files and folders whose change may fix the problem, relative to the tool's folder.
    #[serde(skip)]
    pub(crate) continues: Vec<PathBuf>,
}

impl FilePosition {
    pub(crate) fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, column: None }
    }

    pub(crate) fn at(file: impl Into<String>, line: u32, column: u32) -> Self {
        Self { file: file.into(), line: Some(line), column: Some(column) }
    }

    /// Returns the place of a byte in a file's text.
    pub(crate) fn of_byte(file: impl Into<String>, text: &str, byte: usize) -> Self {
        let (line, column) = position(text, byte);
        Self::at(file, line, column)
    }

    /// Converts a place whose column counts `units` for each character, by the text of its file. A line that does not exist stays
    /// unchanged.
    pub(super) fn counted(mut self, text: &str, units: fn(char) -> usize) -> Self {
        let row = self.line.and_then(|line| text.split('\n').nth(usize::try_from(line).ok()?.checked_sub(1)?));
        if let (Some(row), Some(column)) = (row, &mut self.column) {
            let (reported, mut at) = (usize::try_from(*column).unwrap_or(usize::MAX), 1);
            let before = row.chars().map(units).take_while(|width| {
                at += width;
                at <= reported
            });
            let more: usize = before.map(|width| width - 1).sum();
            *column = column.saturating_sub(u32::try_from(more).unwrap_or_default());
        }
        self
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(&self.file))?;
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, ":{line}:{column}"),
            (Some(line), None) => write!(f, ":{line}"),
            (None, _) => Ok(()),
        }
    }
}

impl Problem {
    pub(crate) fn new(by: &'static str, position: FilePosition, message: impl Into<String>) -> Self {
        Self { position, by, message: message.into(), continues: vec![] }
    }

    #[must_use]
    pub(super) fn trailing(self, hangs_on: Vec<PathBuf>) -> Self {
        Self { continues: hangs_on, ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.position, line(&self.message))
    }
}

/// Returns line and column of a byte, from 1.
pub(crate) fn position(text: &str, byte: usize) -> (u32, u32) {
    let mut end = byte.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let started = before.rfind('\n').map_or(0, |at| at + 1);
    let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
    (number(before.matches('\n').count()), number(before[started..].chars().count()))
}

/// Returns the byte range of the value at a JSON Pointer. If there is no such value, returns the range of the nearest one
/// that exists.
pub(crate) fn find(text: &str, pointer: &str) -> (usize, usize) {
    let Ok(mut json) = serde_json::from_str::<&RawValue>(text) else { return (0, text.len()) };
    for step in pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")) {
        match child(json, &step) {
            Some(child) => json = child,
            None => break,
        }
    }
    span(text, json)
}

/// Returns the byte range of the value of a top-level member, or `None` if there is none.
pub(crate) fn find_exactly(text: &str, member: &str) -> Option<(usize, usize)> {
    Some(span(text, child(serde_json::from_str(text).ok()?, member)?))
}

/// Returns a member or an item. Of several members with one name, the last counts.
fn child<'t>(json: &'t RawValue, name: &str) -> Option<&'t RawValue> {
    match serde_json::from_str::<BTreeMap<String, &RawValue>>(json.get()) {
        Ok(members) => members.get(name).copied(),
        Err(_) => serde_json::from_str::<Vec<&RawValue>>(json.get()).ok()?.get(name.parse::<usize>().ok()?).copied(),
    }
}

/// Returns the byte range of a value that was parsed from `text`.
fn span(text: &str, json: &RawValue) -> (usize, usize) {
    let start = json.get().as_ptr().addr() - text.as_ptr().addr();
    (start, start + json.get().len())
}

#[cfg(test)]
mod tests;
