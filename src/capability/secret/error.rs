//! Errors of setting, finding and decrypting secrets.

use tollhouse_store::StoreError;
use tollhouse_tool::Slug;

use super::master::KeyError;

/// Why a secret could not be set, found or decrypted.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("the tool has no secret `{0}`")]
    Unknown(String),
    #[error("no tool is named `{0}`")]
    Deleted(Slug),
    /// Its key is missing, or the record is not in the place that it was encrypted for.
    #[error("a secret of the tool cannot be decrypted: restore the master key that encrypted it, or set the secret again")]
    Unopened,
    #[error("no random bytes are available")]
    Random,
    #[error(
        "the master key is set in `TOLLHOUSE_MASTER_KEY`: put a new key there and the current one in `TOLLHOUSE_MASTER_KEY_OLD`, restart the host, \
         then rotate"
    )]
    GivenKey,
    #[error(
        "the hosts of a store share one master key. First add a new key to `TOLLHOUSE_MASTER_KEY_OLD` of each host. Then put the new key into \
         `TOLLHOUSE_MASTER_KEY` and the previous one into `TOLLHOUSE_MASTER_KEY_OLD` of each host. Then rotate"
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
