//! Failures of ops, as a handler sees them: one function for each stable code.

use tollhouse_objects::PutError;
use tollhouse_protocol::OpFailure;
use tollhouse_store::StoreError;

/// The host's own storage is unavailable.
pub(super) const STORE_UNAVAILABLE: &str = "store_unavailable";

/// Returns whether the host failed, and not the handler or a server that it called.
pub(super) fn is_the_hosts(failure: &OpFailure) -> bool {
    failure.code == STORE_UNAVAILABLE
}

/// The call has no grant for the op. `field` is the line of `tool.json` that requests one.
pub(super) fn not_granted(what: &str, field: &str) -> OpFailure {
    OpFailure::new(
        "not_granted",
        format!("{what} is not granted: request it with {field} in `tool.json`; some requests need an admin's approval"),
    )
}

/// The call has no grant for the op yet. `name` is that of the capability, which the tool has requested.
pub(super) fn waits(what: &str, name: &str) -> OpFailure {
    OpFailure::new("not_granted", format!("{what} is not granted yet: `capabilities.{name}` waits for an admin"))
}

/// The tool was deleted while the call ran, so nothing can be stored for it.
pub(super) fn deleted() -> OpFailure {
    OpFailure::new("not_granted", "the tool was deleted while this call ran, so nothing can be stored for it")
}

/// The tool has no secret with this name.
pub(super) fn no_secret(name: &str) -> OpFailure {
    OpFailure::new(
        "not_granted",
        format!("the tool has no secret `{name}`; its builder can set it: `tollhouse secrets set {name}`, or locally in `.env.dev`"),
    )
}

pub(super) fn invalid_argument(message: impl Into<String>) -> OpFailure {
    OpFailure::new("invalid_argument", message)
}

pub(super) fn quota_exceeded(message: impl Into<String>) -> OpFailure {
    OpFailure::new("quota_exceeded", message)
}

/// The file with the body of the call cannot be read.
pub(super) fn body_unavailable() -> OpFailure {
    OpFailure::new(STORE_UNAVAILABLE, "the host cannot read the body of this call; nothing was charged")
}

/// The handler has ended the request.
pub(super) fn canceled() -> OpFailure {
    OpFailure::new("canceled", "the request was canceled")
}

/// The call has no response with this number.
pub(super) fn no_response() -> OpFailure {
    invalid_argument("the body of this response has ended")
}

/// The caller of this call cannot take a streamed answer.
pub(super) fn no_stream() -> OpFailure {
    OpFailure::new("not_granted", "the caller of this call takes no streamed answer")
}

/// The op used the `ctx` of a call that has ended.
pub(super) fn call_ended() -> OpFailure {
    OpFailure::new("call_ended", "the call that this `ctx` belongs to has ended; nothing was charged")
}

/// Other writes of the same keys came first at every attempt.
pub(super) fn contended() -> OpFailure {
    OpFailure::new("contended", "every attempt conflicted with other writes; retry")
}

/// An error of the host's store. Its details go only to the host's log.
pub(super) fn store(error: StoreError) -> OpFailure {
    tracing::warn!(error = %error, "an op could not use the store");
    match error {
        StoreError::Conflict | StoreError::Contended | StoreError::LockTimeout(_) | StoreError::Beyond { .. } => contended(),
        StoreError::Away(_) => OpFailure::new(STORE_UNAVAILABLE, "storage is unavailable, and nothing was written; retry"),
        StoreError::Unknown(_) => {
            OpFailure::new(STORE_UNAVAILABLE, "storage did not confirm the write, so it is unknown whether it happened")
        }
    }
}

/// An error of storing content in the object store.
pub(super) fn put(error: PutError) -> OpFailure {
    match error {
        PutError::Store(error) => store(error),
        PutError::Bucket(error) => objects(&error),
    }
}

/// Why an update of the store wrote nothing: the op was refused, or the store failed.
#[derive(Debug)]
pub(super) struct UpdateError(pub(super) OpFailure);

impl From<OpFailure> for UpdateError {
    fn from(failure: OpFailure) -> Self {
        Self(failure)
    }
}

impl From<StoreError> for UpdateError {
    fn from(error: StoreError) -> Self {
        Self(store(error))
    }
}

/// Other replicas may have made changes that this one does not know of.
pub(super) fn fenced() -> OpFailure {
    OpFailure::new(STORE_UNAVAILABLE, "storage is unavailable, and nothing was done; retry")
}

/// A stored record is malformed.
pub(super) fn damaged(what: &str) -> OpFailure {
    tracing::error!(record.kind = what, "a stored record cannot be decoded");
    OpFailure::new(STORE_UNAVAILABLE, "storage returned a record that cannot be decoded")
}

pub(super) fn objects(error: &dyn std::fmt::Display) -> OpFailure {
    tracing::warn!(error = %error, "an op could not use the object store");
    OpFailure::new(STORE_UNAVAILABLE, "file storage is unavailable; retry")
}

/// A server's response with `status` cannot be searched for secrets that the handler must not see.
pub(super) fn not_searchable(status: u16) -> OpFailure {
    OpFailure::new(
        "bad_response",
        format!("the answer (status {status}) cannot be searched for secrets with visibility `auth`, so it was dropped"),
    )
}

/// A server's response with `status` is not JSON.
pub(super) fn not_json(status: u16, reason: &str) -> OpFailure {
    OpFailure { status: Some(status), ..OpFailure::new("not_json", format!("the answer (status {status}) {reason}")) }
}
