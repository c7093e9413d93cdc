//! What an endpoint is to its workers.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_protocol::{Bundle, Language, Schemas, Source};
use tollhouse_tool::{Endpoint, Slug};

/// How the places of handlers' sources begin, in stacks: `tool:/SLUG/VERSION:LINE:COLUMN`.
pub const SPECIFIER: &str = "tool:/";

pub(super) fn bundle(slug: &Slug, version: &str, source: Option<(&str, Language)>, schemas: Schemas) -> Bundle {
    let short = version.trim_start_matches("sha256:").get(..12).unwrap_or(version);
    let source = source.map(|(text, language)| Source { text: Bytes::copy_from_slice(text.as_bytes()), language });
    Bundle { version: version.to_owned(), specifier: format!("{SPECIFIER}{slug}/{short}"), source, schemas }
}

/// What the sandbox loads for `endpoint`: the code of `bundle`, if there is any, and `schemas`. The same bundle where that
/// is what it has, so that its workers go on.
pub(super) fn with_schemas(bundle: Option<Arc<Bundle>>, endpoint: &Endpoint, schemas: Schemas) -> Option<Arc<Bundle>> {
    match bundle {
        Some(bundle) if bundle.schemas == schemas => Some(bundle),
        Some(bundle) if bundle.source.is_some() => Some(Arc::new(Bundle { schemas, ..Bundle::clone(&bundle) })),
        Some(_) | None if schemas.is_empty() => None,
        Some(_) | None => Some(Arc::new(self::bundle(&endpoint.slug, &endpoint.version, None, schemas))),
    }
}
