//! Pages of endpoints, sorted by slug.

use std::{collections::HashMap, sync::Arc};

use tollhouse_base::id::BuilderId;
use tollhouse_store::StoreError;
use tollhouse_tool::{EndpointState, Owner, Slug};

use super::{Catalog, Entry, ShownEndpoint};

/// Endpoints of one page.
#[derive(Debug)]
pub struct EndpointPage {
    /// In the requested order.
    pub endpoints: Vec<Arc<ShownEndpoint>>,
    /// Whether there are more.
    pub more: bool,
}

impl Catalog {
    /// Returns the first `limit` endpoints after `after`, optionally of an owner, and with a state.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn page(
        &self,
        owner: Option<&Owner>,
        state: Option<EndpointState>,
        after: Option<&Slug>,
        limit: usize,
    ) -> Result<EndpointPage, StoreError> {
        let all = self.all();
        let after = after.map_or("", Slug::as_str);
        match (owner, state) {
            (Some(owner), state) => {
                let requested = all.of_owner(owner, after).filter(|entry| state.is_none_or(|state| state == entry.state()));
                self.page_of(requested, limit).await
            }
            (None, Some(state)) => self.page_of(all.state_of(state, after), limit).await,
            (None, None) => self.page_of(all.after(after), limit).await,
        }
    }

    /// Returns the first `limit` of these entries.
    pub(super) async fn page_of(
        &self,
        requested: impl Iterator<Item = &Arc<Entry>> + Send,
        limit: usize,
    ) -> Result<EndpointPage, StoreError> {
        let mut endpoints = Vec::new();
        let take = |shown| {
            let has_room = endpoints.len() < limit;
            if has_room {
                endpoints.push(shown);
            }
            has_room
        };
        let filled = self.fill(requested, take).await?;
        Ok(EndpointPage { endpoints, more: filled.more })
    }

    /// Returns the number of endpoints of each builder, in any state.
    #[must_use]
    pub fn owned_by<'b>(&self, builders: impl Iterator<Item = &'b BuilderId>) -> HashMap<&'b BuilderId, u64> {
        let all = self.all();
        builders.map(|id| (id, all.owned(&Owner::Builder(id.clone())) as u64)).collect()
    }
}
