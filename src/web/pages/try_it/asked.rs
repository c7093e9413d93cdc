//! A requested call, shared by all steps.

use axum::http::HeaderMap;
use tollhouse_base::clock::Timestamp;

use super::tool::Tool;
use crate::{forms::Fields, visitor::Visitor};

/// A requested call.
pub(super) struct Asked<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) tool: &'a Tool,
    /// JSON on a single line.
    pub(super) input: &'a str,
    pub(super) fields: &'a Fields,
    pub(super) headers: &'a HeaderMap,
    /// When this step began.
    pub(super) began: Timestamp,
}

impl Asked<'_> {
    /// Returns how the input was typed.
    pub(super) fn state(&self) -> &'static str {
        if self.fields.get("as") == Some("json") { "json" } else { "form" }
    }
}
