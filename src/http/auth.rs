//! What handlers ask of their caller: that it is an admin, that it may manage what the path names, whose business it is; and what
//! the query says.
//!
//! Credentials are looked at before the path's subject is, and that before the query. A builder learns of what is another's nothing
//! but 403.

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

/// Whose credential a request shows: nobody who is suspended.
async fn admitted(parts: &Parts, http: &Http) -> Result<Caller, Fault> {
    http.shared.callers.identify(&parts.headers, &parts.extensions).await?.admitted()
}

async fn query<Q: DeserializeOwned>(parts: &mut Parts, http: &Http) -> Result<Q, Fault> {
    let QueryParams(asked) = QueryParams::from_request_parts(parts, http).await?;
    Ok(asked)
}

/// Lets nobody but admins go on.
pub(super) async fn only_admins(parts: &Parts, http: &Http) -> Result<(), Fault> {
    match admitted(parts, http).await? {
        Caller::Admin => Ok(()),
        Caller::Builder(_) => Err(Fault::new(Code::NotOwner, "this is for admins")),
    }
}

/// Whoever asks.
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

/// The admin, or a builder.
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

/// A request with the admin token. A builder's key is 403 here.
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

/// The endpoint that `{slug}` in the path names, and a caller who may manage it.
pub(super) struct Managed<Q = Nothing> {
    pub(super) caller: Caller,
    pub(super) shown: Arc<Shown>,
    pub(super) asked: Q,
}

impl<Q: DeserializeOwned> Asker for Managed<Q> {
    const WHOSE: Whose = Whose::Owner;
    type Query = Q;
}

/// Without a credential: the stranger's view. With a wrong one: 401. A builder sees another's endpoint as a stranger does.
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

/// The endpoint that `{slug}` in the path names, or that was deleted under it a short while ago, and a caller who may manage it: a request
/// to delete it may come again, since its answer was lost.
pub(super) enum Deletable {
    /// It is there.
    There(Managed),
    /// It is gone.
    Gone {
        /// What it was called by.
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
    /// Refuses what stays as it is while the owner is suspended, whoever asks.
    pub(super) async fn not_frozen(&self, builders: &Builders) -> Result<(), Fault> {
        match &self.shown.endpoint.owner {
            Owner::Builder(id) => builders.get(id).await?.as_ref().map_or(Ok(()), not_suspended),
            Owner::Platform => Ok(()),
        }
    }
}

/// The builder whose business is asked about: who shows the key, or whom the admin names by `?builderId=`; and what else the
/// query asks.
pub(super) struct ForBuilder<Q = BuilderParam>(pub(super) Builder, pub(super) Q);

/// The same for what is only read of their money: a suspended builder reads it too.
pub(super) struct ForBuilderReadOnly<Q = BuilderParam>(pub(super) Builder, pub(super) Q);

/// A query that may name a builder.
pub(super) trait OfBuilder: DeserializeOwned + Send + Sync {
    fn builder_id(&self) -> Option<&str>;
}

/// One that asks nothing else.
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

/// The caller who is a builder, or the builder whom the admin names.
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
