//! The master keys of secrets.

use serde::Deserialize;

use super::layered::flags;

flags! {
/// Of secrets.
pub struct SecretFlags {
    /// Master key of secrets, 32 bytes in base64 or hex, or several with the current one first [default: made on first start, in the file `master-key` of the data folder]
    #[arg(long, env = "TOLLHOUSE_MASTER_KEY", hide_env_values = true)]
    pub master_key: Option<Hidden>,
    /// Master keys that only open what is sealed under them still, comma-separated
    #[arg(long, env = "TOLLHOUSE_MASTER_KEY_OLD", hide_env_values = true)]
    pub master_key_old: Option<Hidden>,
}
}

/// The master keys of secrets, where they are given.
#[derive(Debug, Clone, Default)]
pub struct SecretSettings {
    /// The one that seals, or several with it first. Default: the file in the data folder.
    pub master_key: Option<Hidden>,
    /// Those that only open what is sealed under them still.
    pub master_key_old: Option<Hidden>,
}

impl SecretFlags {
    pub(super) fn resolve(self) -> SecretSettings {
        SecretSettings { master_key: self.master_key, master_key_old: self.master_key_old }
    }
}

/// A setting that is shown to nobody, and wiped from memory in the end.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Hidden(zeroize::Zeroizing<String>);

impl Hidden {
    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden")
    }
}
