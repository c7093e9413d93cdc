//! Extractors that authenticate the caller, check that it can manage the subject of the path, and parse the query.
//!
//! Credentials are checked first, then the subject of the path, then the query. For the tools of others, a builder gets
//! only 403.

use std::sync::Arc;

use axum::extract::OptionalFromRequestParts;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tollhouse_account::builder::{Builder, Builders};
use tollhouse_base::{
    boxed,
    id::{BuilderId, EndpointId, PayoutId},
};
use tollhouse_catalog::{DeletedEndpoint, ShownEndpoint};
use tollhouse_front::{ApiError, Caller, Code, PathParams, QueryParams, header_names, not_suspended};
use tollhouse_money::payout::PayoutError;
use tollhouse_tool::Owner;

use crate::{Access, CallerExtractor, FromRequestParts, Http, Parts, route::NoQuery};

/// Authenticates a request, and rejects suspended builders.
async fn admitted(parts: &Parts, http: &Http) -> Result<Caller, ApiError> {
    http.shared.callers.identify(&parts.headers, &parts.extensions).await?.admitted()
}

async fn query<Q: DeserializeOwned>(parts: &mut Parts, http: &Http) -> Result<Q, ApiError> {
    let QueryParams(request) = QueryParams::from_request_parts(parts, http).await?;
    Ok(request)
}

/// Rejects callers other than admins.
pub(super) async fn only_admins(parts: &Parts, http: &Http) -> Result<(), ApiError> {
    match admitted(parts, http).await? {
        Caller::Admin => Ok(()),
        Caller::Builder(_) => Err(ApiError::new(Code::NotOwner, "only admins can do this")),
    }
}

/// Any caller, without authentication.
pub(super) struct Everyone;

impl CallerExtractor for Everyone {
    const ACCESS: Access = Access::Everyone;
    type Query = NoQuery;
}

impl FromRequestParts<Http> for Everyone {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        query::<NoQuery>(parts, http).await.map(|NoQuery {}| Self)
    }
}

/// Extracts the caller of a request, who must be the admin or a builder, and the query.
pub(super) struct AdminOrBuilder<Q = NoQuery>(pub(super) Caller, pub(super) Q);

impl<Q: DeserializeOwned> CallerExtractor for AdminOrBuilder<Q> {
    const ACCESS: Access = Access::Builders;
    type Query = Q;
}

impl<Q: DeserializeOwned> FromRequestParts<Http> for AdminOrBuilder<Q> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        let caller = admitted(parts, http).await?;
        Ok(Self(caller, query(parts, http).await?))
    }
}

/// The admin. A builder's key returns 403.
pub(super) struct Admin<Q = NoQuery>(pub(super) Q);

impl<Q: DeserializeOwned> CallerExtractor for Admin<Q> {
    const ACCESS: Access = Access::Admins;
    type Query = Q;
}

impl<Q: DeserializeOwned> FromRequestParts<Http> for Admin<Q> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        only_admins(parts, http).await?;
        query(parts, http).await.map(Self)
    }
}

/// The tool that `{slug}` in the path names, and a caller who can manage it.
pub(super) struct ManagedEndpoint<Q = NoQuery> {
    pub(super) caller: Caller,
    pub(super) shown: Arc<ShownEndpoint>,
    pub(super) requested: Q,
}

impl<Q: DeserializeOwned> CallerExtractor for ManagedEndpoint<Q> {
    const ACCESS: Access = Access::Owner;
    type Query = Q;
}

/// Returns `None` without a credential and for another builder's tool, so that they get the public view. A wrong
/// credential returns 401.
impl OptionalFromRequestParts<Http> for ManagedEndpoint {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Option<Self>, ApiError> {
        if !header_names::shows_caller(&parts.headers) {
            return Ok(None);
        }
        match <Self as FromRequestParts<Http>>::from_request_parts(parts, http).await {
            Ok(managed) => Ok(Some(managed)),
            Err(error) if error.code() == Code::NotOwner => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[derive(Deserialize)]
struct SlugPath {
    slug: String,
}

/// Returns the caller, and the tool in the path, which they can manage.
#[boxed]
async fn managed(parts: &mut Parts, http: &Http) -> Result<(Caller, Arc<ShownEndpoint>), ApiError> {
    let caller = admitted(parts, http).await?;
    let PathParams(SlugPath { slug }) = PathParams::from_request_parts(parts, http).await?;
    let shown = http.catalog.shown(&slug).await?.ok_or_else(|| ApiError::unknown_endpoint(&slug))?;
    if !caller.manages(&shown.endpoint.owner) {
        return Err(Code::NotOwner.into());
    }
    Ok((caller, shown))
}

impl<Q: DeserializeOwned> FromRequestParts<Http> for ManagedEndpoint<Q> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        let (caller, shown) = managed(parts, http).await?;
        Ok(Self { caller, shown, requested: query(parts, http).await? })
    }
}

/// The tool that `{slug}` in the path names, or one with that slug that was recently deleted, and a caller who can
/// manage it. A caller can repeat a deletion if the response was lost.
pub(super) enum Deletable {
    /// The tool exists.
    There(ManagedEndpoint),
    /// The tool was deleted.
    Gone { slug: String, id: EndpointId },
}

impl CallerExtractor for Deletable {
    const ACCESS: Access = Access::Owner;
    type Query = NoQuery;
}

impl FromRequestParts<Http> for Deletable {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        let unknown = match <ManagedEndpoint as FromRequestParts<Http>>::from_request_parts(parts, http).await {
            Err(fault) if fault.code() == Code::UnknownEndpoint => fault,
            managed => return managed.map(Self::There),
        };
        let caller = admitted(parts, http).await?;
        let PathParams(SlugPath { slug }) = PathParams::from_request_parts(parts, http).await?;
        let deleted = http.catalog.deleted(&slug).await?.filter(|deleted| caller.manages(&deleted.owner));
        let Some(DeletedEndpoint { id, .. }) = deleted else { return Err(unknown) };
        let NoQuery {} = query(parts, http).await?;
        Ok(Self::Gone { slug, id })
    }
}

impl<Q> ManagedEndpoint<Q> {
    /// Returns an error if the tool cannot change because its owner is suspended, even if an admin asks.
    pub(super) async fn not_frozen(&self, builders: &Builders) -> Result<(), ApiError> {
        match &self.shown.endpoint.owner {
            Owner::Builder(id) => builders.get(id).await?.as_ref().map_or(Ok(()), not_suspended),
            Owner::Platform => Ok(()),
        }
    }
}

/// The builder that a request is about, and the query. It is the caller, or the builder that the admin names with
/// `?builderId=`. With `SUSPENDED_TOO`, also admits suspended builders.
pub(super) struct ForBuilder<Q = BuilderParam, const SUSPENDED_TOO: bool = false>(pub(super) Builder, pub(super) Q);

/// [`ForBuilder`] for reading data about money.
pub(super) type ForBuilderReadOnly<Q = BuilderParam> = ForBuilder<Q, true>;

/// A query that can name a builder.
pub(super) trait OfBuilder: DeserializeOwned + Send + Sync {
    fn builder_id(&self) -> Option<&str>;
}

/// A query that can only name a builder.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BuilderParam {
    builder_id: Option<String>,
}

impl OfBuilder for BuilderParam {
    fn builder_id(&self) -> Option<&str> {
        self.builder_id.as_deref()
    }
}

impl<Q: OfBuilder, const SUSPENDED_TOO: bool> CallerExtractor for ForBuilder<Q, SUSPENDED_TOO> {
    const ACCESS: Access = Access::Themselves;
    type Query = Q;
}

impl<Q: OfBuilder, const SUSPENDED_TOO: bool> FromRequestParts<Http> for ForBuilder<Q, SUSPENDED_TOO> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        let caller = http.shared.callers.identify(&parts.headers, &parts.extensions).await?;
        let caller = if SUSPENDED_TOO { caller } else { caller.admitted()? };
        let request: Q = query(parts, http).await?;
        Ok(Self(named(caller, request.builder_id(), &http.builders).await?, request))
    }
}

/// The payout that `{id}` in the path names, the builder to whom it must belong, and the query. The builder is the caller, or the one
/// that the admin names with `?builderId=`. Without that, the admin reads any payout. Also admits suspended builders.
pub(super) struct OfPayout<Q = BuilderParam> {
    pub(super) builder: BuilderId,
    pub(super) id: PayoutId,
    pub(super) requested: Q,
}

impl<Q: OfBuilder> CallerExtractor for OfPayout<Q> {
    const ACCESS: Access = Access::Themselves;
    type Query = Q;
}

impl<Q: OfBuilder> FromRequestParts<Http> for OfPayout<Q> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        let caller = http.shared.callers.identify(&parts.headers, &parts.extensions).await?;
        let requested: Q = query(parts, http).await?;
        let PathParams(id): PathParams = PathParams::from_request_parts(parts, http).await?;
        let id = payout_id(&id)?;
        let builder = match (caller, requested.builder_id()) {
            (Caller::Admin, None) => http.payouts.builder_of(&id).await?,
            (caller, builder) => named(caller, builder, &http.builders).await?.id,
        };
        Ok(Self { builder, id, requested })
    }
}

/// Parses the id of a payout. No payout has a malformed one.
pub(super) fn payout_id(id: &str) -> Result<PayoutId, PayoutError> {
    id.parse().map_err(|_| PayoutError::Unknown)
}

/// Returns the error for an admin's request without this parameter, which must name the subject.
pub(super) fn missing(subject: &str, parameter: &'static str, value: &str) -> ApiError {
    let fault = ApiError::bad_request(format!("the {subject} is missing")).with("parameter", json!(parameter));
    fault.hint(format!("Send `?{parameter}={value}`"))
}

/// Returns the caller if it is a builder, or the builder that the admin names.
async fn named(caller: Caller, named: Option<&str>, builders: &Builders) -> Result<Builder, ApiError> {
    match (caller, named) {
        (Caller::Builder(builder), None) => Ok(builder),
        (Caller::Builder(builder), Some(id)) if id == builder.id.as_str() => Ok(builder),
        (Caller::Builder(_), Some(_)) => Err(Code::NotOwner.into()),
        (Caller::Admin, None) => Err(missing("builder", "builderId", "bld_…")),
        (Caller::Admin, Some(id)) => {
            let unknown = || ApiError::from(Code::UnknownBuilder);
            let id: BuilderId = id.parse().map_err(|_| unknown())?;
            builders.get(&id).await?.ok_or_else(unknown)
        }
    }
}
