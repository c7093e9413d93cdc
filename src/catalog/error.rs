//! Errors of publishing and changing endpoints.

use tollhouse_pool::PoolError;
use tollhouse_protocol::{LoadError, Side, StopReason};
use tollhouse_store::StoreError;
use tollhouse_tool::{ForeignHandler, SchemaError, Slug, finding::Finding};

/// Why an endpoint was not published or changed.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// A field is invalid.
    #[error("{message}")]
    Field { pointer: String, message: String },
    #[error("the slug `{0}` is taken")]
    SlugTaken(Slug),
    #[error("no tool is named `{0}`")]
    Unknown(String),
    /// `If-Match` has a different revision.
    #[error("the tool has changed since you read it; its current revision is {0}")]
    Changed(u64),
    #[error("the handler does not load: {0}")]
    Load(#[source] LoadError),
    #[error("the handler could not be checked")]
    Pool(#[source] PoolError),
    #[error("builders must attest to their uploads; send `safetyAttestation.accepted` as `true`")]
    AttestationRequired,
    /// The findings, without the matched text.
    #[error("the upload has content that this host does not publish")]
    Blocked(Vec<Finding>),
    #[error("the tool has no such version")]
    UnknownVersion,
    #[error("the tool is under review; it resumes when an admin approves it")]
    UnderReview,
    #[error("an admin has taken the tool down")]
    TakenDown,
    #[error("the builder is suspended until an admin restores them")]
    OwnerSuspended,
    #[error("this builder has reached the maximum number of tools on this host, {0}")]
    TooMany(u64),
    #[error("this host has reached its maximum number of tools, {0}")]
    Full(usize),
    #[error("you have reached the maximum number of reserved slugs of deleted tools, {0}; reuse one of them")]
    TooManyRetired(usize),
    #[error("you have reached the limit on concurrent uploads and changes, {0}; retry when one of them is done")]
    Crowded(usize),
    #[error("the tool has nothing that needs this decision")]
    NothingToDecide,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bucket with the source is unavailable.
    #[error("the source cannot be read: {0}")]
    Source(String),
    /// The source is missing in the bucket.
    #[error("the source is missing or damaged: {0}")]
    Lost(String),
    #[error("a stored record is unreadable: {0}")]
    Corrupt(String),
    #[error("a built-in tool is invalid: {0}")]
    Shipped(String),
}

/// Why a tool could not be prepared for calls.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FindError {
    /// The store or the bucket is unavailable, or the record is unreadable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The source is missing or damaged in the object storage of this host.
    #[error("the source of the tool `{0}` cannot be read on this host")]
    SourceLost(Slug),
}

impl FindError {
    pub(super) fn of(error: PublishError, slug: &Slug) -> Self {
        match error {
            PublishError::Store(error) => Self::Store(error),
            PublishError::Lost(_) => Self::SourceLost(slug.clone()),
            other => Self::Store(StoreError::away(other)),
        }
    }
}

impl PublishError {
    pub(super) fn field(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Field { pointer: pointer.into(), message: message.into() }
    }

    pub(super) fn schema(side: Side, error: SchemaError) -> Self {
        Self::Field { pointer: format!("/{side}{}", error.pointer), message: error.message }
    }
}

impl From<ForeignHandler> for PublishError {
    fn from(error: ForeignHandler) -> Self {
        Self::Corrupt(error.to_string())
    }
}

impl From<PoolError> for PublishError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Load(error) => Self::Load(error),
            PoolError::Schema(fault) => Self::schema(fault.side, SchemaError { pointer: fault.pointer, message: fault.message }),
            PoolError::Stopped(StopReason::SchemaTime { side, .. }) | PoolError::Stopped(StopReason::SchemaMemory { side, .. }) => {
                Self::schema(side, SchemaError { pointer: String::new(), message: error.to_string() })
            }
            other => Self::Pool(other),
        }
    }
}
