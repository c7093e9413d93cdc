//! Reachability check of facilitators, before a host starts.

use tollhouse_config::MoneySettings;
use tollhouse_money::{FacilitatorAccess, ReachReport};

use super::sites;

/// Contacts the facilitators of all networks at the same time. Returns each network with the
/// result.
pub async fn reach(money: &MoneySettings) -> Vec<(&'static str, ReachReport)> {
    let strangers = FacilitatorAccess::default();
    let request = sites(money, &strangers).into_iter().map(|site| async move { (site.network.caip2, site.reach().await) });
    futures_util::future::join_all(request).await
}
