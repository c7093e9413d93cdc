//! Errors of setting, finding and decrypting secrets.

use tollhouse_store::StoreError;
use tollhouse_tool::Slug;

use super::master::KeyError;

/// Why a secret could not be set, found or decrypted.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("the endpoint has no secret `{0}`")]
    Unknown(String),
    #[error("no tool is named `{0}`")]
    Deleted(Slug),
    /// Its key is missing, or the record is not in the place that it was encrypted for.
    #[error("a secret of the endpoint cannot be opened: restore the master key it was sealed with, or set it again")]
    Unopened,
    #[error("no random bytes are available")]
    Random,
    #[error(
        "the master key is given in `TOLLHOUSE_MASTER_KEY`: start with a new one there and this one in `TOLLHOUSE_MASTER_KEY_OLD`, then rotate"
    )]
    GivenKey,
    #[error(
        "the hosts of a store have one master key: give each a new one in `TOLLHOUSE_MASTER_KEY_OLD`, then that in `TOLLHOUSE_MASTER_KEY` and the \
         one before in `TOLLHOUSE_MASTER_KEY_OLD`, then rotate"
    )]
    SharedKey,
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SecretError {
    pub(super) fn field(pointer: &'static str, message: String) -> Self {
        Self::Field { pointer, message }
    }
}
