//! Converts sled's errors into store errors.

use crate::StoreError;

#[expect(clippy::needless_pass_by_value, reason = "fits `map_err`")]
pub(super) fn sled_error(error: ::sled::Error) -> StoreError {
    StoreError::Away(error.to_string())
}
