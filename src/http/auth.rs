//! Extractors that authenticate the caller, check that it can manage the subject of the path, and parse the query.
//!
//! Credentials are checked first, then the subject of the path, then the query. For the tools of others, a builder gets
//! only 403.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::request::Parts,
};
use serde::{Deserialize, de::DeserializeOwned};
use tollhouse_account::builder::{Builder, Builders};
use tollhouse_base::id::{BuilderId, EndpointId};
use tollhouse_catalog::{Deleted, Shown};
use tollhouse_front::{Caller, Code, Fault, names, not_suspended};
use tollhouse_tool::Owner;

use super::{
    page::{PathParams, QueryParams},
    route::{Asker, Nothing},
    row::Whose,
    services::Http,
};

/// Authenticates a request, and rejects suspended builders.
async fn admitted(parts: &Parts, http: &Http) -> Result<Caller, Fault> {
    http.shared.callers.identify(&parts.headers, &parts.extensions).await?.admitted()
}

async fn query<Q: DeserializeOwned>(parts: &mut Parts, http: &Http) -> Result<Q, Fault> {
    let QueryParams(asked) = QueryParams::from_request_parts(parts, http).await?;
    Ok(asked)
}

/// Rejects callers other than admins.
pub(super) async fn only_admins(parts: &Parts, http: &Http) -> Result<(), Fault> {
    match admitted(parts, http).await? {
        Caller::Admin => Ok(()),
        Caller::Builder(_) => Err(Fault::new(Code::NotOwner, "this is for admins")),
    }
}

/// Any caller, without authentication.
pub(super) struct Everyone;

impl Asker for Everyone {
    const WHOSE: Whose = Whose::Everyone;
    type Query = Nothing;
}

impl FromRequestParts<Http> for Everyone {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        query::<Nothing>(parts, http).await.map(|Nothing {}| Self)
    }
}

/// The admin or a builder.
pub(super) struct Anyone<Q = Nothing>(pub(super) Caller, pub(super) Q);

impl<Q: DeserializeOwned> Asker for Anyone<Q> {
    const WHOSE: Whose = Whose::Builders;
    type Query = Q;
}

impl<Q: DeserializeOwned> FromRequestParts<Http> for Anyone<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let caller = admitted(parts, http).await?;
        Ok(Self(caller, query(parts, http).await?))
    }
}

/// The admin. A builder's key returns 403.
pub(super) struct Admin<Q = Nothing>(pub(super) Q);

impl<Q: DeserializeOwned> Asker for Admin<Q> {
    const WHOSE: Whose = Whose::Admins;
    type Query = Q;
}

impl<Q: DeserializeOwned> FromRequestParts<Http> for Admin<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        only_admins(parts, http).await?;
        query(parts, http).await.map(Self)
    }
}

/// The tool that `{slug}` in the path names, and a caller who can manage it.
pub(super) struct Managed<Q = Nothing> {
    pub(super) caller: Caller,
    pub(super) shown: Arc<Shown>,
    pub(super) asked: Q,
}

impl<Q: DeserializeOwned> Asker for Managed<Q> {
    const WHOSE: Whose = Whose::Owner;
    type Query = Q;
}

/// Returns `None` without a credential and for another builder's tool, so that they get the public view. A wrong
/// credential returns 401.
impl OptionalFromRequestParts<Http> for Managed {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Option<Self>, Fault> {
        if !names::shows_caller(&parts.headers) {
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

impl<Q: DeserializeOwned> FromRequestParts<Http> for Managed<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let caller = admitted(parts, http).await?;
        let PathParams(SlugPath { slug }) = PathParams::from_request_parts(parts, http).await?;
        let shown = http.publishing.catalog.shown(&slug).await?.ok_or_else(|| Fault::unknown_endpoint(&slug))?;
        if !caller.manages(&shown.endpoint.owner) {
            return Err(Code::NotOwner.into());
        }
        Ok(Self { caller, shown, asked: query(parts, http).await? })
    }
}

/// The tool that `{slug}` in the path names, or one with that slug that was recently deleted, and a caller who can
/// manage it. A caller can repeat a deletion if the response was lost.
pub(super) enum Deletable {
    /// The tool exists.
    There(Managed),
    /// The tool was deleted.
    Gone {
        /// Its slug.
        slug: String,
        /// Its id.
        id: EndpointId,
    },
}

impl Asker for Deletable {
    const WHOSE: Whose = Whose::Owner;
    type Query = Nothing;
}

impl FromRequestParts<Http> for Deletable {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let unknown = match <Managed as FromRequestParts<Http>>::from_request_parts(parts, http).await {
            Err(fault) if fault.code() == Code::UnknownEndpoint => fault,
            managed => return managed.map(Self::There),
        };
        let caller = admitted(parts, http).await?;
        let PathParams(SlugPath { slug }) = PathParams::from_request_parts(parts, http).await?;
        let deleted = http.publishing.catalog.deleted(&slug).await?.filter(|deleted| caller.manages(&deleted.owner));
        let Some(Deleted { id, .. }) = deleted else { return Err(unknown) };
        let Nothing {} = query(parts, http).await?;
        Ok(Self::Gone { slug, id })
    }
}

impl<Q> Managed<Q> {
    /// Returns an error if the tool cannot change because its owner is suspended, whoever is asking.
    pub(super) async fn not_frozen(&self, builders: &Builders) -> Result<(), Fault> {
        match &self.shown.endpoint.owner {
            Owner::Builder(id) => builders.get(id).await?.as_ref().map_or(Ok(()), not_suspended),
            Owner::Platform => Ok(()),
        }
    }
}

/// The builder that a request is about, and the query. It is the caller, or the builder that the admin names with
/// `?builderId=`.
pub(super) struct ForBuilder<Q = BuilderParam>(pub(super) Builder, pub(super) Q);

/// Like [`ForBuilder`], for reading data about money: it also admits suspended builders.
pub(super) struct ForBuilderReadOnly<Q = BuilderParam>(pub(super) Builder, pub(super) Q);

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

impl<Q: OfBuilder> Asker for ForBuilder<Q> {
    const WHOSE: Whose = Whose::Themselves;
    type Query = Q;
}

impl<Q: OfBuilder> Asker for ForBuilderReadOnly<Q> {
    const WHOSE: Whose = Whose::Themselves;
    type Query = Q;
}

impl<Q: OfBuilder> FromRequestParts<Http> for ForBuilder<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let caller = admitted(parts, http).await?;
        let asked: Q = query(parts, http).await?;
        Ok(Self(named(caller, asked.builder_id(), &http.accounts.builders).await?, asked))
    }
}

impl<Q: OfBuilder> FromRequestParts<Http> for ForBuilderReadOnly<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let caller = http.shared.callers.identify(&parts.headers, &parts.extensions).await?;
        let asked: Q = query(parts, http).await?;
        Ok(Self(named(caller, asked.builder_id(), &http.accounts.builders).await?, asked))
    }
}

/// Returns the caller if it is a builder, or the builder that the admin names.
async fn named(caller: Caller, named: Option<&str>, builders: &Builders) -> Result<Builder, Fault> {
    match (caller, named) {
        (Caller::Builder(builder), None) => Ok(builder),
        (Caller::Builder(builder), Some(id)) if id == builder.id.as_str() => Ok(builder),
        (Caller::Builder(_), Some(_)) => Err(Code::NotOwner.into()),
        (Caller::Admin, None) => Err(Fault::bad_request("name the builder: `?builderId=bld_…`")),
        (Caller::Admin, Some(id)) => {
            let unknown = || Fault::from(Code::UnknownBuilder);
            let id: BuilderId = id.parse().map_err(|_| unknown())?;
            builders.get(&id).await?.ok_or_else(unknown)
        }
    }
}
