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
        "the master key is set in `TOLLHOUSE_MASTER_KEY_FILE` or `TOLLHOUSE_MASTER_KEY`. Set it to `NEW,OLD` there, restart the host, then rotate"
    )]
    GivenKey,
    /// Like [`Self::GivenKey`], for hosts that must all decrypt with the new key before the first one encrypts with it.
    #[error(
        "the master key is set in `TOLLHOUSE_MASTER_KEY_FILE` or `TOLLHOUSE_MASTER_KEY`. Set it to `OLD,NEW` on every host, and restart them. \
         Then set it to `NEW,OLD` on every host, restart them, and rotate"
    )]
    GivenSharedKey,
    #[error(
        "the hosts of a store share one master key. Copy it to `TOLLHOUSE_MASTER_KEY_FILE` of every host first. Set that to `OLD,NEW` on every \
         host, and restart them. Then set it to `NEW,OLD` on every host, restart them, and rotate"
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
