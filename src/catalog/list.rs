//! Pages of endpoints, by slug.

use std::{collections::HashMap, sync::Arc};

use super::{Catalog, Live};
use crate::{
    base::id::BuilderId,
    tool::{Endpoint, Owner, Slug},
};

/// Endpoints that are looked at before others have a turn on the thread: about a tenth of a millisecond.
const SLICE: usize = 500;

/// Endpoints of one page.
#[derive(Debug)]
pub struct Page {
    /// By slug.
    pub endpoints: Vec<Arc<Live>>,
    /// Whether there are more.
    pub more: bool,
}

impl Catalog {
    /// The first `limit` endpoints behind `after` that are `wanted`, of the catalogue as it is now.
    pub async fn page(&self, wanted: impl Fn(&Endpoint) -> bool + Send, after: Option<&Slug>, limit: usize) -> Page {
        let all = self.all();
        let after = after.map_or("", Slug::as_str);
        let mut page = Page { endpoints: Vec::new(), more: false };
        for (number, live) in all.after(after).enumerate() {
            if number % SLICE == SLICE - 1 {
                tokio::task::yield_now().await;
            }
            if !wanted(&live.endpoint) {
                continue;
            }
            if page.endpoints.len() == limit {
                page.more = true;
                break;
            }
            page.endpoints.push(Arc::clone(live));
        }
        page
    }

    /// How many endpoints each of these builders has, in whatever state.
    pub async fn owned_by<'b>(&self, builders: impl Iterator<Item = &'b BuilderId> + Send) -> HashMap<&'b BuilderId, u64> {
        let mut owned: HashMap<_, _> = builders.map(|id| (id, 0)).collect();
        for (number, live) in self.all().after("").enumerate() {
            if number % SLICE == SLICE - 1 {
                tokio::task::yield_now().await;
            }
            if let Owner::Builder(id) = &live.endpoint.owner
                && let Some(count) = owned.get_mut(id)
            {
                *count += 1;
            }
        }
        owned
    }
}
