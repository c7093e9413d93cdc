//! Who asks: the admin, a builder, or a stranger.
//!
//! A stranger learns nothing but 401, whatever is asked for: credentials are looked at before the subject is.

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

/// Who asks, proven by a credential.
#[derive(Debug, Clone)]
pub enum Caller {
    /// The operator's admin.
    Admin,
    /// A builder, by key or session.
    Builder(Builder),
}

/// Who asks, as it was found out on the way to the handler; `None` is a stranger.
#[derive(Debug, Clone)]
pub struct Known(pub Option<Caller>);

/// Those who have a credential.
#[derive(Debug)]
pub struct Callers {
    admin: AdminToken,
    builders: Arc<Builders>,
}

impl Callers {
    /// Those with the admin token, and the builders.
    #[must_use]
    pub fn new(admin: AdminToken, builders: Arc<Builders>) -> Self {
        Self { admin, builders }
    }

    /// Whose credential the request shows, be they suspended or not.
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

    /// The tool that is called, and as whom: as its owner where the request shows their credential. Owners also call what they
    /// have paused; what an admin holds back is called by nobody.
    pub async fn called(&self, calls: &Calls, headers: &HeaderMap, slug: &str) -> Result<(Arc<Live>, CalledBy), Fault> {
        // Before the path's subject.
        let caller = match names::shows_caller(headers) {
            true => Some(self.identify(headers, &Extensions::new()).await?.admitted()?.owner()),
            false => None,
        };
        let by = |owner: &Owner| if caller.as_ref() == Some(owner) { CalledBy::Owner } else { CalledBy::Anyone };
        Ok(calls.find(slug, by).await?)
    }
}

impl Caller {
    /// Whose endpoints this caller's uploads become.
    pub fn owner(&self) -> Owner {
        match self {
            Self::Admin => Owner::Platform,
            Self::Builder(builder) => Owner::Builder(builder.id.clone()),
        }
    }

    /// As whom the caller changes endpoints.
    pub fn by(&self) -> By {
        match self {
            Self::Admin => By::Admin,
            Self::Builder(_) => By::Builder,
        }
    }

    /// The caller, unless they are suspended.
    pub fn admitted(self) -> Result<Self, Fault> {
        match &self {
            Self::Builder(builder) => not_suspended(builder)?,
            Self::Admin => {}
        }
        Ok(self)
    }

    /// Whether the caller may manage what `owner` has.
    pub fn manages(&self, owner: &Owner) -> bool {
        match self {
            Self::Admin => true,
            Self::Builder(builder) => matches!(owner, Owner::Builder(id) if *id == builder.id),
        }
    }
}

/// Refuses what is a suspended builder's, whoever asks.
pub fn not_suspended(builder: &Builder) -> Result<(), Fault> {
    let Some(suspension) = &builder.suspended else { return Ok(()) };
    let why = suspension.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(Fault::new(Code::BuilderSuspended, format!("the builder has been suspended since {}{why}", suspension.since)))
}
