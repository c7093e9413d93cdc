//! Slugs of deleted endpoints: who may reuse them, and which endpoint had them last.

use serde::{Deserialize, Serialize};
use tollhouse_base::{boxed, id::EndpointId};
use tollhouse_protocol::Tier;
use tollhouse_store::{Batch, StoreError, Table, TerminatedText, schema};
use tollhouse_tool::{Endpoint, Owner, Slug};

use super::{Catalog, ChangedBy, PublishError};

/// Slug of a deleted endpoint → share of its owner.
pub(super) const RETIRED_SLUGS: Table<String, String> = schema::RETIRED_SLUGS.holding();
pub(super) const RETIRED_OF: Table<(TerminatedText<String>, String), ()> = schema::RETIRED_OF.holding();
/// The last endpoint that was deleted under a slug.
pub(super) const DELETED: Table<String, DeletedEndpoint> = schema::DELETED.holding();
tollhouse_store::json_values!(DeletedEndpoint);

/// Maximum reserved slugs of one builder's deleted endpoints.
pub(super) const MAX_RETIRED: usize = 1_000;

/// The last endpoint that was deleted under a slug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedEndpoint {
    pub id: EndpointId,
    pub owner: Owner,
}

impl Catalog {
    /// Returns the endpoint that was deleted under this slug within the last hour, if none has
    /// taken the slug since.
    #[boxed]
    pub async fn deleted(&self, slug: &str) -> Result<Option<DeletedEndpoint>, StoreError> {
        DELETED.get(&*self.store, &slug.to_owned()).await
    }

    /// Returns the rows that free `slug` from its previous owner, who must be the same. For a new
    /// slug, the owner must not have deleted too many endpoints.
    pub(super) async fn claim_slug(&self, slug: &Slug, owner: &Owner, by: ChangedBy) -> Result<Batch, PublishError> {
        let retired = RETIRED_SLUGS.get(&*self.store, &slug.to_string()).await?;
        let anothers = retired.as_ref().is_some_and(|had| had != owner.share());
        if self.all().get(slug.as_str()).is_some() || (anothers && by == ChangedBy::Builder) {
            return Err(PublishError::SlugTaken(slug.clone()));
        }
        let is_new = retired.is_none() && by == ChangedBy::Builder;
        if is_new && RETIRED_OF.count(&*self.store, &RETIRED_OF.under(&owner_key(owner)), MAX_RETIRED).await? >= MAX_RETIRED {
            return Err(PublishError::TooManyRetired(MAX_RETIRED));
        }
        let mut batch = Batch::new();
        batch.delete(&RETIRED_SLUGS, &slug.to_string()).delete(&RETIRED_OF, &(owner_key(owner), slug.to_string()));
        batch.delete(&DELETED, &slug.to_string());
        if let Some(had) = retired {
            // An admin may give it to another owner.
            batch.delete(&RETIRED_OF, &(TerminatedText(had), slug.to_string()));
        }
        Ok(batch)
    }
}

pub(super) fn owner_key(owner: &Owner) -> TerminatedText<String> {
    TerminatedText(owner.share().to_owned())
}

/// Returns who may reuse the slug of a deleted endpoint: its owner, unless that would undo an
/// admin's decision or end a review.
pub(super) fn slug_successor(endpoint: &Endpoint) -> &Owner {
    if endpoint.review.hold.is_some() || is_restricted(endpoint) { &Owner::Platform } else { &endpoint.owner }
}

/// Returns whether an admin's decision restricts the endpoint. Held content alone is no decision:
/// every upload of a builder can be held.
pub(super) fn is_restricted(endpoint: &Endpoint) -> bool {
    let decided = endpoint.review.taken_down.is_some() || endpoint.review.refused;
    let withheld = endpoint.withheld_capabilities.any() || !endpoint.withheld_hosts.is_empty();
    let capped = !endpoint.limit_caps.is_empty() || endpoint.tier_cap != Tier::default();
    decided || withheld || capped
}
