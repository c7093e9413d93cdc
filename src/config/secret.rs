//! Settings of the master keys and the receipt key.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tollhouse_capability::secret::Keyring;
use tollhouse_money::receipt::ReceiptSigner;

use super::{error::SettingsError, layered::flags};

flags! {
/// Flags for secrets.
pub struct SecretFlags {
    /// Master key of secrets, 32 bytes in base64 or hex; if several, the current first [default: created on first start, in the file `master-key` of the data folder]
    pub master_key: Option<HiddenValue> = "TOLLHOUSE_MASTER_KEY" (hide_env_values = true),
    /// File with the master keys
    pub master_key_file: Option<PathBuf> = "TOLLHOUSE_MASTER_KEY_FILE",
    /// Old master keys, which only decrypt, comma-separated
    pub master_key_old: Option<HiddenValue> = "TOLLHOUSE_MASTER_KEY_OLD" (hide_env_values = true),
    /// Key that signs receipts, Ed25519 as PKCS#8 in PEM [default: created on first start, in the file `receipt-key.pem` of the data folder]
    pub receipt_key: Option<HiddenValue> = "TOLLHOUSE_RECEIPT_KEY" (hide_env_values = true),
    /// File with the receipt key
    pub receipt_key_file: Option<PathBuf> = "TOLLHOUSE_RECEIPT_KEY_FILE",
}
}

/// The host's keys, if they are set.
#[derive(Debug, Clone, Default)]
pub struct SecretSettings {
    /// The master key that encrypts, or several with that one first. Default: the file in the data folder.
    pub master_key: Option<HiddenValue>,
    /// Old master keys, which only decrypt.
    pub master_key_old: Option<HiddenValue>,
    /// The key that signs receipts. Default: the file in the data folder.
    pub receipt_key: Option<HiddenValue>,
}

impl SecretSettings {
    /// Checks the form of the keys that are set.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let [current, old, receipt_key] =
            [&self.master_key, &self.master_key_old, &self.receipt_key].map(|key| key.as_ref().map(HiddenValue::expose));
        Keyring::check(current, old).map_err(SettingsError::MasterKey)?;
        receipt_key.map_or(Ok(()), ReceiptSigner::check_pem).map_err(SettingsError::ReceiptKey)
    }
}

impl SecretFlags {
    pub(super) fn resolve(self) -> Result<SecretSettings, SettingsError> {
        Ok(SecretSettings {
            master_key: HiddenValue::given_or_in(self.master_key, self.master_key_file.as_deref())?,
            master_key_old: self.master_key_old,
            receipt_key: HiddenValue::given_or_in(self.receipt_key, self.receipt_key_file.as_deref())?,
        })
    }
}

/// A secret setting that is never displayed, and wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct HiddenValue(zeroize::Zeroizing<String>);

impl HiddenValue {
    /// Returns the secret text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the given value, or else the contents of `file` without the line break at the end.
    pub(super) fn given_or_in(given: Option<Self>, file: Option<&Path>) -> Result<Option<Self>, SettingsError> {
        match (given, file) {
            (None, Some(path)) => {
                let read = fs::read_to_string(path).map(zeroize::Zeroizing::new);
                let text = read.map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
                Ok(Some(Self::from(text.trim_end_matches(['\r', '\n']).to_owned())))
            }
            (given, _) => Ok(given),
        }
    }
}

impl From<String> for HiddenValue {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Debug for HiddenValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_value_overrides_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, "two\nlines \r\n\n").unwrap();
        let read = |given: Option<&str>, file| HiddenValue::given_or_in(given.map(|text| text.to_owned().into()), file).unwrap();
        assert_eq!(read(Some("given"), Some(&*file)).unwrap().expose(), "given");
        assert_eq!(read(None, Some(&*file)).unwrap().expose(), "two\nlines ");
        assert!(read(None, None).is_none());
        let missing = HiddenValue::given_or_in(None, Some(&folder.path().join("missing")));
        assert!(matches!(missing, Err(SettingsError::Read { .. })));
    }
}
