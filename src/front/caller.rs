//! Callers: the admin, a builder, or an anonymous caller.
//!
//! Credentials are checked before the subject of a request is looked up. So an anonymous caller gets only 401, whatever
//! the request is for.

use std::sync::Arc;

use axum::http::{Extensions, HeaderMap};
use tollhouse_account::{
    admin::AdminToken,
    builder::{Builder, Builders},
};
use tollhouse_call::{CalledBy, Calls};
use tollhouse_catalog::{By, Live};
use tollhouse_tool::Owner;

use super::{fault::Fault, faults::Code, names};

/// An authenticated caller.
#[derive(Debug, Clone)]
pub enum Caller {
    /// The operator's admin.
    Admin,
    /// A builder, by key or session.
    Builder(Builder),
}

/// The caller, if an earlier layer authenticated the request. `None` means anonymous.
#[derive(Debug, Clone)]
pub struct Known(pub Option<Caller>);

/// Checks the credentials of callers.
#[derive(Debug)]
pub struct Callers {
    admin: AdminToken,
    builders: Arc<Builders>,
}

impl Callers {
    /// Returns a check for the admin token and for builder keys.
    #[must_use]
    pub fn new(admin: AdminToken, builders: Arc<Builders>) -> Self {
        Self { admin, builders }
    }

    /// Authenticates a request by its credential. The builder may be suspended.
    pub async fn identify(&self, headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, Fault> {
        if let Some(Known(known)) = extensions.get() {
            return known.clone().ok_or_else(|| Code::Unauthorized.into());
        }
        if let Some(token) = headers.get(&names::ADMIN_TOKEN) {
            return if self.admin.matches(token.as_bytes()) { Ok(Caller::Admin) } else { Err(Code::Unauthorized.into()) };
        }
        let key = headers.get(&names::BUILDER_KEY).and_then(|value| value.to_str().ok()).ok_or(Code::Unauthorized)?;
        let builder = self.builders.by_key(key).await?.ok_or(Code::Unauthorized)?;
        Ok(Caller::Builder(builder))
    }

    /// Finds the called tool, and whether its owner is calling: the request then shows the owner's credential. Owners
    /// can also call tools that they have paused. Nobody can call a tool that an admin holds back.
    pub async fn called(&self, calls: &Calls, headers: &HeaderMap, slug: &str) -> Result<(Arc<Live>, CalledBy), Fault> {
        // Check the credential before looking up the tool.
        let caller = match names::shows_caller(headers) {
            true => Some(self.identify(headers, &Extensions::new()).await?.admitted()?.owner()),
            false => None,
        };
        let by = |owner: &Owner| if caller.as_ref() == Some(owner) { CalledBy::Owner } else { CalledBy::Anyone };
        Ok(calls.find(slug, by).await?)
    }
}

impl Caller {
    /// Returns the owner of tools that this caller publishes.
    pub fn owner(&self) -> Owner {
        match self {
            Self::Admin => Owner::Platform,
            Self::Builder(builder) => Owner::Builder(builder.id.clone()),
        }
    }

    /// Returns the role in which the caller changes tools.
    pub fn by(&self) -> By {
        match self {
            Self::Admin => By::Admin,
            Self::Builder(_) => By::Builder,
        }
    }

    /// Returns the caller, or an error if they are suspended.
    pub fn admitted(self) -> Result<Self, Fault> {
        match &self {
            Self::Builder(builder) => not_suspended(builder)?,
            Self::Admin => {}
        }
        Ok(self)
    }

    /// Returns whether the caller can manage the resources of `owner`.
    pub fn manages(&self, owner: &Owner) -> bool {
        match self {
            Self::Admin => true,
            Self::Builder(builder) => matches!(owner, Owner::Builder(id) if *id == builder.id),
        }
    }
}

/// Returns an error if the builder is suspended, whoever is asking.
pub fn not_suspended(builder: &Builder) -> Result<(), Fault> {
    let Some(suspension) = &builder.suspended else { return Ok(()) };
    let why = suspension.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(Fault::new(Code::BuilderSuspended, format!("the builder has been suspended since {}{why}", suspension.since)))
}
