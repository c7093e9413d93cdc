//! Checks that all sellers are listed, in a store without writers.

use tollhouse_base::check_report::CheckReport;
use tollhouse_store::{Store, StoreError};

use super::{
    SALES, day_of,
    sellers::{LISTED, SELLERS, stretch},
};

/// Number of rows read at once.
const PAGE: usize = 500;

/// Compares the list of sellers with the sales.
///
/// # Errors
///
/// Errors of the store. An unreadable row is reported as a flaw.
pub async fn check_sellers(store: &dyn Store, flaws: &mut CheckReport) -> Result<(), StoreError> {
    if LISTED.get(store, &()).await?.is_none() {
        return Ok(());
    }
    let (mut rows, mut before) = (SALES.inspect(store, PAGE), None);
    while let Some(row) = rows.next(flaws).await? {
        let seller = (stretch(day_of(&row.key.1)), row.key.0);
        if before.as_ref() != Some(&seller) {
            let listed = SELLERS.get(store, &seller).await?.is_some();
            flaws.unless(listed, || format!("{} sold something, and is not listed: the next round of folding does it", seller.1.0));
            before = Some(seller);
        }
    }
    Ok(())
}
