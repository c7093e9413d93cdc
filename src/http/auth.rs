//! What handlers ask of their caller: that it is an admin, that it may manage what the path names, whose business it is.
//!
//! Credentials are looked at before the path's subject is. A builder learns of what is another's nothing but 403.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::request::Parts,
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    page::{Asked, At},
    services::Http,
};
use crate::{
    account::builder::{Builder, Builders},
    base::id::BuilderId,
    catalog::Live,
    front::{Caller, Code, Fault, names, not_suspended},
    tool::Owner,
};

impl FromRequestParts<Http> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        http.shared.callers.identify(&parts.headers, &parts.extensions).await?.admitted()
    }
}

/// A request with the admin token. A builder's key is 403 here.
pub(super) struct Admin;

impl FromRequestParts<Http> for Admin {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        match Caller::from_request_parts(parts, http).await? {
            Caller::Admin => Ok(Self),
            Caller::Builder(_) => Err(Fault::new(Code::NotOwner, "this is for admins")),
        }
    }
}

/// The endpoint that `{slug}` in the path names, and a caller who may manage it.
pub(super) struct Managed {
    pub(super) caller: Caller,
    pub(super) live: Arc<Live>,
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

impl FromRequestParts<Http> for Managed {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let caller = Caller::from_request_parts(parts, http).await?;
        let At(SlugPath { slug }) = At::from_request_parts(parts, http).await?;
        let live = http.publishing.catalog.find(&slug).ok_or_else(|| Fault::unknown_endpoint(&slug))?;
        if caller.manages(&live.endpoint.owner) { Ok(Self { caller, live }) } else { Err(Code::NotOwner.into()) }
    }
}

impl Managed {
    /// Refuses what stays as it is while the owner is suspended, whoever asks.
    pub(super) async fn not_frozen(&self, builders: &Builders) -> Result<(), Fault> {
        match &self.live.endpoint.owner {
            Owner::Builder(id) => builders.get(id).await?.as_ref().map_or(Ok(()), not_suspended),
            Owner::Platform => Ok(()),
        }
    }
}

/// The builder whose business is asked about: who shows the key, or whom the admin names by `?builderId=`; and what else the
/// query asks.
pub(super) struct Business<Q = Named>(pub(super) Builder, pub(super) Q);

/// The same for what is only read of their money: a suspended builder reads it too.
pub(super) struct Books<Q = Named>(pub(super) Builder, pub(super) Q);

/// A query that may name a builder.
pub(super) trait OfBuilder: DeserializeOwned + Send + Sync {
    fn builder_id(&self) -> Option<&str>;
}

/// One that asks nothing else.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Named {
    builder_id: Option<String>,
}

impl OfBuilder for Named {
    fn builder_id(&self) -> Option<&str> {
        self.builder_id.as_deref()
    }
}

impl<Q: OfBuilder> FromRequestParts<Http> for Business<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let caller = Caller::from_request_parts(parts, http).await?;
        let Asked(asked) = Asked::<Q>::from_request_parts(parts, http).await?;
        Ok(Self(named(caller, asked.builder_id(), &http.accounts.builders).await?, asked))
    }
}

impl<Q: OfBuilder> FromRequestParts<Http> for Books<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        let caller = http.shared.callers.identify(&parts.headers, &parts.extensions).await?;
        let Asked(asked) = Asked::<Q>::from_request_parts(parts, http).await?;
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
