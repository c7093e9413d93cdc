//! Whether those who settle can be reached, asked before a host starts.

use tollhouse_config::MoneySettings;
use tollhouse_money::{FacilitatorAccess, Reached};

use super::sites;

/// Asks who settles on each network of the settings, all at once: the network, and what was found.
pub async fn reach(money: &MoneySettings) -> Vec<(&'static str, Reached)> {
    let strangers = FacilitatorAccess::default();
    let asked = sites(money, &strangers).into_iter().map(|site| async move { (site.network.caip2, site.reach().await) });
    futures_util::future::join_all(asked).await
}
