//! Whether endpoints have the versions they name, and each version is what its name says: of a store that nobody writes to.

use super::{
    entry::{CARDS, Card, ENDPOINTS},
    open::CATALOGUED,
    publish,
    scan::VERSION_OWNERS,
    version,
};
use crate::{
    base::flaws::Flaws,
    store::{Ended, Store, StoreError},
    tool::Runtime,
};

/// Rows that are read at once: sources may be large.
const PAGE: usize = 64;

/// Holds each version against the hash that it is found by, endpoints against versions, and the indexes of both.
///
/// # Errors
///
/// The store's. A row that does not read is told as a flaw.
pub async fn check_catalogue(store: &dyn Store, flaws: &mut Flaws) -> Result<(), StoreError> {
    let mut range = version::VERSIONS.all();
    while let Some(page) = version::VERSIONS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let is = row.value.hash();
            flaws.unless(is == row.key, || format!("version {} is not what it was: its hash is {is}", row.key));
        }
    }
    // A store that no host has opened since cards are written has none.
    let has_cards = CATALOGUED.get(store, &()).await?.is_some();
    let mut range = ENDPOINTS.all();
    while let Some(page) = ENDPOINTS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            flaws.unless(row.value.slug.as_str() == row.key, || format!("endpoint `{}` is found as `{}`", row.value.slug, row.key));
            if has_cards {
                let is_so = CARDS.get(store, &row.key).await? == Some(Card::of(&row.value));
                flaws.unless(is_so, || format!("endpoint `{}` is listed otherwise than its record says", row.key));
            }
            if row.value.handler_type.runtime() == Runtime::ManagedBuiltin {
                continue;
            }
            let (running, slug) = (&row.value.version, &row.key);
            let there = version::VERSIONS.found(store, running).await?.is_some();
            flaws.unless(there, || format!("endpoint `{slug}` runs version {running}, which is not there"));
        }
    }
    let mut range = CARDS.all();
    while let Some(page) = CARDS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let there = ENDPOINTS.found(store, &row.key).await?.is_some();
            flaws.unless(there, || format!("endpoint `{}` is listed, and is not there", row.key));
        }
    }
    let mut range = VERSION_OWNERS.all();
    while let Some(page) = VERSION_OWNERS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let there = version::VERSIONS.found(store, &row.key).await?.is_some();
            flaws.unless(there, || format!("version {} has an owner, and is not there", row.key));
        }
    }
    let mut range = publish::RETIRED_OF.all();
    while let Some(page) = publish::RETIRED_OF.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let (Ended(owner), slug) = row.key;
            let retired = publish::RETIRED_SLUGS.get(store, &slug).await?;
            flaws.unless(retired.is_some(), || format!("slug `{slug}` is listed as one that {owner} had, and is not retired"));
        }
    }
    Ok(())
}
