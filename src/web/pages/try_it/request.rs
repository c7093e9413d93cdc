//! A requested call, shared by all steps.

use axum::http::HeaderMap;
use tollhouse_base::clock::Timestamp;

use super::tool::TriedTool;
use crate::{forms::Fields, visitor::Visitor};

/// A requested call.
pub(super) struct CallRequest<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) tool: &'a TriedTool,
    /// JSON on a single line.
    pub(super) input: &'a str,
    pub(super) fields: &'a Fields,
    pub(super) headers: &'a HeaderMap,
    /// When this step began.
    pub(super) started_at: Timestamp,
}

impl CallRequest<'_> {
    /// Returns how the input was typed.
    pub(super) fn state(&self) -> &'static str {
        if self.fields.get("as") == Some("json") { "json" } else { "form" }
    }
}
