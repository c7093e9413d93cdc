//! Pages of endpoints, by slug.

use std::sync::Arc;

use super::{Catalog, Live};
use crate::tool::{Endpoint, Slug};

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
}
