//! Who asks: the admin, a builder, or a stranger.
//!
//! A stranger learns nothing but 401, whatever is behind the path: credentials are looked at before
//! the path's subject is. A builder learns of what is another's nothing but 403.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{Extensions, HeaderMap, request::Parts},
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    names,
    page::{Asked, At},
};
use crate::{
    account::builder::Builder,
    app::App,
    base::id::BuilderId,
    call::CalledBy,
    catalog::{By, Live},
    front::{Code, Fault},
    tool::Owner,
};

/// Who asks, proven by a credential.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    Admin,
    Builder(Builder),
}

impl Caller {
    /// Whose endpoints this caller's uploads become.
    pub(super) fn owner(&self) -> Owner {
        match self {
            Self::Admin => Owner::Platform,
            Self::Builder(builder) => Owner::Builder(builder.id.clone()),
        }
    }

    /// As whom the caller changes endpoints.
    pub(super) fn by(&self) -> By {
        match self {
            Self::Admin => By::Admin,
            Self::Builder(_) => By::Builder,
        }
    }

    /// Whose credential the request shows, be they suspended or not.
    pub(super) async fn identify(headers: &HeaderMap, extensions: &Extensions, app: &App) -> Result<Self, Fault> {
        if let Some(Known(known)) = extensions.get() {
            return known.clone().ok_or_else(|| Fault::from(Code::Unauthorized));
        }
        if let Some(token) = headers.get(&names::ADMIN_TOKEN) {
            return if app.admin.matches(token.as_bytes()) { Ok(Self::Admin) } else { Err(Code::Unauthorized.into()) };
        }
        let key = headers.get(&names::BUILDER_KEY).and_then(|value| value.to_str().ok()).ok_or(Code::Unauthorized)?;
        let builder = app.builders.by_key(key).await?.ok_or(Code::Unauthorized)?;
        Ok(Self::Builder(builder))
    }

    /// The caller, unless they are suspended.
    fn admitted(self) -> Result<Self, Fault> {
        match &self {
            Self::Builder(builder) => not_suspended(builder)?,
            Self::Admin => {}
        }
        Ok(self)
    }

    /// Whether the caller may manage what `owner` has.
    fn manages(&self, owner: &Owner) -> bool {
        match self {
            Self::Admin => true,
            Self::Builder(builder) => matches!(owner, Owner::Builder(id) if *id == builder.id),
        }
    }
}

/// Who asks, as it was found out on the way to the handler; `None` is a stranger.
#[derive(Debug, Clone)]
pub(super) struct Known(pub(super) Option<Caller>);

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Fault> {
        Self::identify(&parts.headers, &parts.extensions, app).await?.admitted()
    }
}

/// Refuses what is a suspended builder's, whoever asks.
pub(super) fn not_suspended(builder: &Builder) -> Result<(), Fault> {
    let Some(suspension) = &builder.suspended else { return Ok(()) };
    let why = suspension.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(Fault::new(Code::BuilderSuspended, format!("the builder has been suspended since {}{why}", suspension.since)))
}

/// The tool that is called, and as whom: as its owner where the request shows their credential. Owners also call what they
/// have paused; what an admin holds back is called by nobody.
pub(crate) async fn called(app: &App, headers: &HeaderMap, slug: &str) -> Result<(Arc<Live>, CalledBy), Fault> {
    // Before the path's subject.
    let caller = match names::shows_caller(headers) {
        true => Some(Caller::identify(headers, &Extensions::new(), app).await?.admitted()?.owner()),
        false => None,
    };
    let by = |owner: &Owner| if caller.as_ref() == Some(owner) { CalledBy::Owner } else { CalledBy::Anyone };
    Ok(app.calls.find(slug, by)?)
}

/// A request with the admin token. A builder's key is 403 here.
pub(super) struct Admin;

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Fault> {
        match Caller::from_request_parts(parts, app).await? {
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
impl OptionalFromRequestParts<Arc<App>> for Managed {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Option<Self>, Fault> {
        if !names::shows_caller(&parts.headers) {
            return Ok(None);
        }
        match <Self as FromRequestParts<Arc<App>>>::from_request_parts(parts, app).await {
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

impl FromRequestParts<Arc<App>> for Managed {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Fault> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let At(SlugPath { slug }) = At::from_request_parts(parts, app).await?;
        let live = app.catalog.find(&slug).ok_or_else(|| Fault::unknown_endpoint(&slug))?;
        if caller.manages(&live.endpoint.owner) { Ok(Self { caller, live }) } else { Err(Code::NotOwner.into()) }
    }
}

impl Managed {
    /// Refuses what stays as it is while the owner is suspended, whoever asks.
    pub(super) async fn not_frozen(&self, app: &App) -> Result<(), Fault> {
        match &self.live.endpoint.owner {
            Owner::Builder(id) => app.builders.get(id).await?.as_ref().map_or(Ok(()), not_suspended),
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

impl<Q: OfBuilder> FromRequestParts<Arc<App>> for Business<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Fault> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let Asked(asked) = Asked::<Q>::from_request_parts(parts, app).await?;
        Ok(Self(named(caller, asked.builder_id(), app).await?, asked))
    }
}

impl<Q: OfBuilder> FromRequestParts<Arc<App>> for Books<Q> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Fault> {
        let caller = Caller::identify(&parts.headers, &parts.extensions, app).await?;
        let Asked(asked) = Asked::<Q>::from_request_parts(parts, app).await?;
        Ok(Self(named(caller, asked.builder_id(), app).await?, asked))
    }
}

/// The caller who is a builder, or the builder whom the admin names.
async fn named(caller: Caller, named: Option<&str>, app: &App) -> Result<Builder, Fault> {
    match (caller, named) {
        (Caller::Builder(builder), None) => Ok(builder),
        (Caller::Builder(builder), Some(id)) if id == builder.id.as_str() => Ok(builder),
        (Caller::Builder(_), Some(_)) => Err(Code::NotOwner.into()),
        (Caller::Admin, None) => Err(Fault::bad_request("name the builder: `?builderId=bld_…`")),
        (Caller::Admin, Some(id)) => {
            let unknown = || Fault::from(Code::UnknownBuilder);
            let id: BuilderId = id.parse().map_err(|_| unknown())?;
            app.builders.get(&id).await?.ok_or_else(unknown)
        }
    }
}
