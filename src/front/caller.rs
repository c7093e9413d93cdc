//! Callers: the admin, a builder, or an anonymous caller.
//!
//! Credentials are checked before the subject of a request is looked up. So an anonymous caller gets only 401, whatever
//! the request is for.

use std::sync::Arc;
use tollhouse_base::boxed;

use axum::http::{Extensions, HeaderMap};
use tollhouse_account::{
    builder::{Builder, Builders},
    token::Token,
};
use tollhouse_call::{CalledBy, Calls};
use tollhouse_catalog::{ChangedBy, LiveEndpoint};
use tollhouse_store::StoreError;
use tollhouse_tool::Owner;

use super::{api_error::ApiError, auth_failures::CredentialCheck, error_codes::Code, header_names};

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
pub struct KnownCaller(pub Option<Caller>);

/// Checks the credentials of callers.
#[derive(Debug)]
pub struct Authenticator {
    admin: Token,
    builders: Arc<Builders>,
}

impl Authenticator {
    /// Returns a check for the admin token and for builder keys.
    #[must_use]
    pub fn new(admin: Token, builders: Arc<Builders>) -> Self {
        Self { admin, builders }
    }

    /// Returns whether this is the admin token.
    pub fn is_admin(&self, token: &[u8]) -> bool {
        self.admin.matches(token)
    }

    /// Authenticates a request by its credential. The builder may be suspended. A wrong credential is counted against
    /// the caller's address.
    #[boxed]
    pub async fn identify(&self, headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, ApiError> {
        if let Some(KnownCaller(known)) = extensions.get() {
            return known.clone().ok_or_else(|| Code::Unauthorized.into());
        }
        if !headers.contains_key(&header_names::ADMIN_TOKEN) && !headers.contains_key(&header_names::BUILDER_KEY) {
            return Err(Code::Unauthorized.into());
        }
        let check = CredentialCheck::begin(extensions).await?;
        self.holder(headers).await?.ok_or_else(|| {
            check.fail();
            Code::Unauthorized.into()
        })
    }

    /// Returns the holder of the credential in these headers, or `None` if it is wrong. Nothing is counted.
    pub(super) async fn holder(&self, headers: &HeaderMap) -> Result<Option<Caller>, StoreError> {
        let (token, key) = (headers.get(&header_names::ADMIN_TOKEN), headers.get(&header_names::BUILDER_KEY));
        Ok(match (token, key.and_then(|key| key.to_str().ok())) {
            (Some(token), _) => self.is_admin(token.as_bytes()).then_some(Caller::Admin),
            (None, Some(key)) => self.builders.by_key(key).await?.map(Caller::Builder),
            (None, None) => None,
        })
    }

    /// Returns a number that changes with every key and every decision about a builder. Read it before
    /// [`Authenticator::holder`].
    pub(super) fn revision(&self) -> u64 {
        self.builders.revision()
    }

    /// Finds the called tool, and whether its owner is calling: the request then shows the owner's credential. Owners
    /// can also call tools that they have paused. Nobody can call a tool that an admin holds back.
    #[boxed]
    pub async fn called(
        &self,
        calls: &Calls,
        headers: &HeaderMap,
        extensions: &Extensions,
        slug: &str,
    ) -> Result<(Arc<LiveEndpoint>, CalledBy), ApiError> {
        // Check the credential before looking up the tool.
        let caller = match header_names::shows_caller(headers) {
            true => Some(self.identify(headers, extensions).await?.admitted()?.owner()),
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
    pub fn by(&self) -> ChangedBy {
        match self {
            Self::Admin => ChangedBy::Admin,
            Self::Builder(_) => ChangedBy::Builder,
        }
    }

    /// Returns the caller, or an error if they are suspended.
    pub fn admitted(self) -> Result<Self, ApiError> {
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

/// Returns an error if the builder is suspended, even if an admin asks.
pub fn not_suspended(builder: &Builder) -> Result<(), ApiError> {
    let Some(suspension) = &builder.suspended else { return Ok(()) };
    let cause = suspension.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(ApiError::new(Code::BuilderSuspended, format!("the builder has been suspended since {}{cause}", suspension.since)))
}

#[cfg(test)]
mod tests;
