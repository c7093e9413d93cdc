//! `?tools=`: limits a connection to some of the tools.

use std::{collections::BTreeSet, sync::Arc};

use axum::http::request::Parts;
use serde::Deserialize;
use tollhouse_base::deserialize_error;

use super::tool_entry::SEARCH;

const MAX_NAMES: usize = 100;
/// Maximum query of the URL, in bytes. It has room for that many of the longest names.
const MAX_QUERY_BYTES: usize = 16 << 10;

/// The tool names that the query allows. `None` allows all tools.
#[derive(Debug, Clone)]
pub(super) struct ToolFilter(pub(super) Option<Arc<BTreeSet<String>>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    /// Separated by commas.
    tools: Option<String>,
}

impl ToolFilter {
    /// Parses the query.
    ///
    /// # Errors
    ///
    /// Too many names, or an unknown parameter, in words.
    pub(super) fn by(query: Option<&str>) -> Result<Self, String> {
        let Some(query) = query else { return Ok(Self::NOT) };
        if query.len() > MAX_QUERY_BYTES {
            return Err(format!("the query of the URL has {} bytes, and the maximum is {MAX_QUERY_BYTES}", query.len()));
        }
        let Query { tools } = deserialize_error::query(query).map_err(|misfit| misfit.message)?;
        let Some(names) = tools else { return Ok(Self(None)) };
        let names: BTreeSet<_> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.len() > MAX_NAMES {
            return Err(format!("`tools` has {} names, and the maximum is {MAX_NAMES}; `{}` searches all tools", names.len(), SEARCH));
        }
        Ok(Self(Some(Arc::new(names))))
    }

    pub(super) const NOT: Self = Self(None);

    /// Returns the filter of a request, as the transport has parsed it.
    pub(super) fn of(parts: &Parts) -> Self {
        parts.extensions.get().cloned().unwrap_or(Self::NOT)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_allows_only_its_tools() {
        let filter = ToolFilter::by(Some("tools=a,%20b,")).unwrap();
        assert!(filter.has("a") && filter.has("b") && !filter.has("c"));
        assert!(ToolFilter::by(Some("")).unwrap().has("c"));
        assert!(!ToolFilter::by(Some("tools=")).unwrap().has("c"));
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        for query in ["tool=a", "x=1&tools=a", "tools=a&tools=b"] {
            let refused = ToolFilter::by(Some(query)).unwrap_err();
            assert!(refused.contains("`tool"), "{query}: {refused}");
        }
    }
}
