//! The bundle of an endpoint for its workers.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_protocol::{Bundle, Language, Schemas, Source};
use tollhouse_tool::{Endpoint, Slug};

/// Prefix of source locations in stacks: `tool:/SLUG/VERSION:LINE:COLUMN`.
pub const SPECIFIER: &str = "tool:/";

pub(super) fn bundle(slug: &Slug, version: &str, source: Option<(&str, Language)>, schemas: Schemas) -> Bundle {
    let short = version.trim_start_matches("sha256:").get(..12).unwrap_or(version);
    let source = source.map(|(text, language)| Source { text: Bytes::copy_from_slice(text.as_bytes()), language });
    Bundle { version: version.to_owned(), specifier: format!("{SPECIFIER}{slug}/{short}"), source, schemas }
}

/// Returns the bundle for `endpoint`, with the code of `bundle` if any, and `schemas`. If nothing
/// differs, returns the same bundle, so that its workers are kept.
pub(super) fn with_schemas(bundle: Option<Arc<Bundle>>, endpoint: &Endpoint, schemas: Schemas) -> Option<Arc<Bundle>> {
    match bundle {
        Some(bundle) if bundle.schemas == schemas => Some(bundle),
        Some(bundle) if bundle.source.is_some() => Some(Arc::new(Bundle { schemas, ..Bundle::clone(&bundle) })),
        Some(_) | None if schemas.is_empty() => None,
        Some(_) | None => Some(Arc::new(self::bundle(&endpoint.slug, &endpoint.version, None, schemas))),
    }
}
