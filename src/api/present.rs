//! Fields that can be absent, and `null`.

use serde::{Deserialize, Deserializer};

/// Deserializes a field that is present: `null` becomes `Some(None)`.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
