//! Consistency check of endpoints and their versions, for a store without concurrent writes.

use tollhouse_base::{boxed, check_report::CheckReport};
use tollhouse_objects::ObjectLayout;
use tollhouse_store::{Store, StoreError, TerminatedText};
use tollhouse_tool::Runtime;

use super::{
    entry::{CARDS, Card, ENDPOINTS},
    retired,
    scan::VERSION_OWNERS,
    source::{VERSIONS, check_versions},
};

/// Rows per page. Small, because sources may be large.
const PAGE: usize = 64;

/// Checks each version against its hash, endpoints against versions, and the indexes of both.
///
/// # Errors
///
/// The error of the store. An unreadable row is reported as an inconsistency.
#[boxed]
pub async fn check_catalogue(store: &dyn Store, objects: &ObjectLayout, flaws: &mut CheckReport) -> Result<(), StoreError> {
    check_versions(store, objects, PAGE, flaws).await?;
    let mut rows = ENDPOINTS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        flaws.unless(row.value.slug.as_str() == row.key, || format!("the tool `{}` is stored as `{}`", row.value.slug, row.key));
        let is_so = CARDS.get(store, &row.key).await? == Some(Card::of(&row.value));
        flaws.unless(is_so, || format!("the list entry of the tool `{}` differs from its record", row.key));
        if row.value.handler_type.runtime() == Runtime::ManagedBuiltin {
            continue;
        }
        let (running, slug) = (&row.value.version, &row.key);
        let there = VERSIONS.found(store, running).await?.is_some();
        flaws.unless(there, || format!("the tool `{slug}` runs version {running}, which is missing"));
    }
    let mut rows = CARDS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = ENDPOINTS.found(store, &row.key).await?.is_some();
        flaws.unless(there, || format!("the tool `{}` is listed, but its record is missing", row.key));
    }
    let mut rows = VERSION_OWNERS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = VERSIONS.found(store, &row.key).await?.is_some();
        flaws.unless(there, || format!("version {} has an owner, but its record is missing", row.key));
    }
    let mut rows = retired::RETIRED_OF.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let (TerminatedText(owner), slug) = row.key;
        let retired = retired::RETIRED_SLUGS.get(store, &slug).await?;
        flaws.unless(retired.is_some(), || format!("the slug `{slug}` is listed as a former one of {owner}, but is not retired"));
    }
    Ok(())
}
