//! The key that signs receipts, stored in its own file, and former public keys.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use ed25519_dalek::{
    SigningKey, VerifyingKey,
    pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, KeypairBytes, spki::der::pem::LineEnding},
};
use serde::Serialize;
use serde_json::{Value, json};
use tollhouse_base::{boxed, clock::Timestamp, fsync_dir};
use tollhouse_store::{Store, StoreError};
use zeroize::Zeroizing;

use super::{
    OfferFormat, OfferReceipt, Receipt, ReceiptDraft, UnsignedReceipt, canonical,
    eip712::TypedSigner,
    free::FREE_RECEIPTS,
    jws,
    offer::{self, Offer, Payload},
    record::RECEIPTS,
};
use crate::{Settlement, SettlementKind};

/// The key file: PKCS#8 in PEM, readable only by its owner.
const KEY_FILE: &str = "receipt-key.pem";
/// A JWK set of former public keys.
const RETIRED_FILE: &str = "receipt-keys-retired.json";
/// `typ` of a record's signature.
pub(super) const RECEIPT_TYPE: &str = "tollhouse-receipt+jws";

/// `typ` of a payout's signature.
const PAYOUT_TYPE: &str = "tollhouse-payout+jws";

/// Signs receipts: those of paid calls while their commit is built, also in retries; those of free calls each time they are
/// sent. There are more signatures than receipts.
pub struct ReceiptSigner {
    key: SigningKey,
    kid: String,
    retired: Vec<VerifyingKey>,
    /// Signs offers and receipts of challenges and settlements, if they are typed data.
    typed: Option<TypedSigner>,
}

/// Why there is no key to sign with.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum KeyError {
    #[error("the key file `{}` can be read by other users (mode {mode:o}); set it to 600, or remove it to get a new key", path.display())]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the file `{}` is malformed; restore it from a backup", .0.display())]
    Malformed(PathBuf),
    #[error("the receipt key is invalid: it must be an Ed25519 key as PKCS#8 in PEM")]
    Invalid,
    #[error("no random bytes are available for a new key: {0}")]
    Random(getrandom::Error),
    #[error("cannot read or write `{}`", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl ReceiptSigner {
    /// Reads the key in the data folder, or creates one on the first start.
    ///
    /// # Errors
    ///
    /// [`KeyError::Exposed`] if group or others can read the key, because it may then be compromised.
    pub fn open(folder: &Path) -> Result<Self, KeyError> {
        let path = folder.join(KEY_FILE);
        let key = match read_key(&path) {
            Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                create(&path, pem(&new_key()?).as_bytes())?;
                // Another process may have been faster. Its key is used.
                read_key(&path)?
            }
            read => read?,
        };
        Ok(Self::new(key, read_retired(&folder.join(RETIRED_FILE))?))
    }

    /// Checks the form of a key in PEM.
    ///
    /// # Errors
    ///
    /// [`KeyError::Invalid`].
    pub fn check_pem(pem: &str) -> Result<(), KeyError> {
        signing_key(pem).map(drop)
    }

    /// Uses a key in PEM, with the former public keys in the data folder.
    pub fn from_pem(pem: &str, folder: &Path) -> Result<Self, KeyError> {
        Ok(Self::new(signing_key(pem)?, read_retired(&folder.join(RETIRED_FILE))?))
    }

    /// Returns whether the key with this id is a former key.
    pub fn is_retired(&self, kid: &str) -> bool {
        self.retired.iter().any(|key| jws::thumbprint(key) == kid)
    }

    /// Returns whether the key is missing although the store has receipts, which a new key could not verify.
    #[boxed]
    pub async fn is_missing(folder: &Path, store: &dyn Store) -> Result<bool, StoreError> {
        if folder.join(KEY_FILE).exists() {
            return Ok(false);
        }
        let some = [RECEIPTS.count(store, &RECEIPTS.all(), 1).await?, FREE_RECEIPTS.count(store, &FREE_RECEIPTS.all(), 1).await?];
        Ok(some.contains(&1))
    }

    /// Retires the key in the data folder and creates a new one. Receipts signed by the old one can still be verified.
    pub fn rotate(folder: &Path) -> Result<Self, KeyError> {
        let before = Self::open(folder)?;
        // First add the old key to the former ones, then replace it: a crash in between loses neither.
        replace(&folder.join(RETIRED_FILE), before.jwks().to_string().as_bytes())?;
        replace(&folder.join(KEY_FILE), pem(&new_key()?).as_bytes())?;
        Self::open(folder)
    }

    fn new(key: SigningKey, mut retired: Vec<VerifyingKey>) -> Self {
        let public = key.verifying_key();
        retired.retain(|other| *other != public);
        Self { kid: jws::thumbprint(&public), key, retired, typed: None }
    }

    /// Sets the format of offers and receipts in challenges and settlements.
    #[must_use]
    pub fn with_format(self, format: OfferFormat) -> Self {
        let typed = (format == OfferFormat::Eip712).then(|| TypedSigner::of(self.key.as_bytes()));
        Self { typed, ..self }
    }

    /// Describes the key and format of offers and receipts in challenges and settlements.
    pub fn offers_by(&self) -> Value {
        match &self.typed {
            Some(typed) => json!({ "format": "eip712", "address": typed.address().to_checksum(None) }),
            None => json!({ "format": OfferReceipt::FORMAT, "kid": self.did_url() }),
        }
    }

    /// Signs offers for `resource`, one per entry of `accepts`.
    pub fn offers(&self, resource: &str, accepts: &[Value], valid_until: Timestamp) -> Vec<Value> {
        let signed = accepts.iter().enumerate().map(|(index, accepted)| {
            let offer = Offer::new(resource, accepted, valid_until.as_secs());
            let mut signed = match &self.typed {
                Some(typed) => typed.offer(&offer),
                None => json!({ "format": OfferReceipt::FORMAT, "signature": self.jws(self.did_url(), None, &json_of(&offer)) }),
            };
            signed["acceptIndex"] = json!(index);
            signed
        });
        signed.collect()
    }

    /// Returns the `extensions` of a payment's settle response, if they differ from those in its record.
    pub fn settle_extensions(&self, draft: &ReceiptDraft, settlement: &Settlement) -> Option<Value> {
        let typed = self.typed.as_ref().filter(|_| settlement.kind == SettlementKind::X402)?;
        Some(offer::extensions(&typed.receipt(&Payload::new(draft, settlement))))
    }

    /// Returns the key id: the RFC 7638 thumbprint.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Returns the JWK set for `/.well-known/jwks.json`: the current and former keys.
    pub fn jwks(&self) -> Value {
        let public = self.key.verifying_key();
        let keys = [&public].into_iter().chain(&self.retired).map(|key| {
            let mut jwk = jws::jwk(key);
            jwk["kid"] = json!(jws::thumbprint(key));
            jwk["alg"] = json!(jws::ALGORITHM);
            jwk["use"] = json!("sig");
            jwk
        });
        json!({ "keys": keys.collect::<Vec<_>>() })
    }

    /// Makes the signed receipt of a paid call. `simulated` marks play money.
    #[must_use]
    pub fn receipt(&self, draft: ReceiptDraft, settlement: &Settlement, simulated: bool) -> Receipt {
        self.sign(match settlement.kind {
            SettlementKind::Credit => UnsignedReceipt::credit(draft, &settlement.payer),
            SettlementKind::X402 => {
                let payload = json_of(&Payload::new(&draft, settlement));
                let signature = self.jws(self.did_url(), None, &payload);
                let offer_receipt = OfferReceipt { format: OfferReceipt::FORMAT.to_owned(), signature };
                UnsignedReceipt::x402(draft, settlement, simulated, offer_receipt)
            }
        })
    }

    /// Signs a record.
    #[must_use]
    pub fn sign(&self, record: UnsignedReceipt) -> Receipt {
        let signature = self.sign_json(&json_of(&record));
        Receipt { record, signature }
    }

    /// Returns a stored receipt for its reader, and signs it if it was stored unsigned.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] if the bytes are not a receipt.
    pub fn present(&self, stored: &[u8]) -> Result<Value, StoreError> {
        let unreadable = || StoreError::Away("a receipt cannot be read".to_owned());
        let mut receipt: Value = serde_json::from_slice(stored).map_err(|_| unreadable())?;
        if !receipt.as_object().ok_or_else(unreadable)?.contains_key("signature") {
            receipt["signature"] = json!(self.sign_json(&receipt));
        }
        Ok(receipt)
    }

    /// Signs a payout: a compact JWS (EdDSA) over its canonical JSON.
    pub fn sign_payout(&self, packet: &Value) -> String {
        self.jws(self.kid.clone(), Some(PAYOUT_TYPE), packet)
    }

    fn sign_json(&self, record: &Value) -> String {
        self.jws(self.kid.clone(), Some(RECEIPT_TYPE), record)
    }

    fn did_url(&self) -> String {
        jws::did_url(&self.key.verifying_key())
    }

    fn jws(&self, kid: String, typ: Option<&str>, payload: &Value) -> String {
        let header = jws::Header { alg: jws::ALGORITHM.to_owned(), kid: Some(kid), typ: typ.map(str::to_owned), crit: None };
        jws::sign(&self.key, &header, &canonical(payload))
    }
}

/// Does not show the key.
impl std::fmt::Debug for ReceiptSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("kid", &self.kid).field("retired", &self.retired.len()).finish_non_exhaustive()
    }
}

fn json_of<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("a receipt has text keys")
}

fn new_key() -> Result<SigningKey, KeyError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(KeyError::Random)?;
    Ok(SigningKey::from_bytes(&secret))
}

/// Encodes the private key (RFC 8410), without the public key that version 2 of the format can contain.
fn pem(key: &SigningKey) -> Zeroizing<String> {
    let pair = KeypairBytes { secret_key: key.to_bytes(), public_key: None };
    pair.to_pkcs8_pem(LineEnding::LF).expect("32 bytes have a PKCS#8 form")
}

fn read_key(path: &Path) -> Result<SigningKey, KeyError> {
    let io = |source| KeyError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(io)?;
    let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    let text = Zeroizing::new(io::read_to_string(file).map_err(io)?);
    SigningKey::from_pkcs8_pem(&text).map_err(|_| KeyError::Malformed(path.to_owned()))
}

fn signing_key(pem: &str) -> Result<SigningKey, KeyError> {
    SigningKey::from_pkcs8_pem(pem.trim()).map_err(|_| KeyError::Invalid)
}

fn read_retired(path: &Path) -> Result<Vec<VerifyingKey>, KeyError> {
    let text = match fs::read_to_string(path) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|source| KeyError::Io { path: path.to_owned(), source })?,
    };
    let malformed = || KeyError::Malformed(path.to_owned());
    let set: Value = serde_json::from_str(&text).map_err(|_| malformed())?;
    set["keys"].as_array().ok_or_else(malformed)?.iter().map(|jwk| jws::from_jwk(jwk).ok_or_else(malformed)).collect()
}

/// Creates a file atomically. An existing file stays.
fn create(path: &Path, bytes: &[u8]) -> Result<(), KeyError> {
    write_temp(path, bytes, |draft| match fs::hard_link(draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    })
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), KeyError> {
    write_temp(path, bytes, |draft| fs::rename(draft, path))
}

fn write_temp(path: &Path, bytes: &[u8], put: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), KeyError> {
    let draft = path.with_extension(format!("{}.tmp", ulid::Ulid::generate()));
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        put(&draft)?;
        fsync_dir::sync_entry(path)
    };
    let outcome = written();
    match fs::remove_file(&draft) {
        Ok(()) => {}
        // The draft was renamed or never created.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(KeyError::Io { path: draft, source }),
    }
    outcome.map_err(|source| KeyError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::{super::StoredReceipt, *};
    use tollhouse_store::{Durability, memory::MemoryStore};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn key_is_created_once_and_then_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let first = ReceiptSigner::open(folder.path()).unwrap();
        let again = ReceiptSigner::open(folder.path()).unwrap();
        assert_eq!(first.jwks(), again.jwks());
        assert_eq!(fs::metadata(folder.path().join(KEY_FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left lying about");
    }

    #[tokio::test]
    async fn a_missing_key_is_lost_where_the_store_holds_receipts() {
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::default();
        assert!(!ReceiptSigner::is_missing(folder.path(), &store).await.unwrap(), "the first start makes one");
        let id = "rcpt_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        store.apply(RECEIPTS.put(&id, &StoredReceipt { json: b"{}".to_vec() }), Durability::Durable).await.unwrap();
        assert!(ReceiptSigner::is_missing(folder.path(), &store).await.unwrap());
        ReceiptSigner::open(folder.path()).unwrap();
        assert!(!ReceiptSigner::is_missing(folder.path(), &store).await.unwrap());
    }

    #[test]
    fn a_key_file_of_any_version_holds_the_key_alone_in_pkcs8() {
        let file =
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\n-----END PRIVATE KEY-----\n";
        assert_eq!(*pem(&SigningKey::from_bytes(&[7; 32])), file);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_FILE);
        create(&path, file.as_bytes()).unwrap();
        assert_eq!(read_key(&path).unwrap().to_bytes(), [7; 32]);
    }

    #[test]
    fn many_first_starts_agree_on_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let folder = folder.path().to_owned();
                std::thread::spawn(move || ReceiptSigner::open(&folder).unwrap().kid().to_owned())
            })
            .collect();
        let kids: std::collections::BTreeSet<_> = starts.into_iter().map(|start| start.join().unwrap()).collect();
        assert_eq!(kids.len(), 1);
    }

    #[test]
    fn exposed_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        ReceiptSigner::open(folder.path()).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o644] {
            set_mode(&folder.path().join(KEY_FILE), mode);
            let refused = ReceiptSigner::open(folder.path()).unwrap_err();
            assert!(matches!(refused, KeyError::Exposed { mode: found, .. } if found == mode), "{refused:?}");
        }
        set_mode(&folder.path().join(KEY_FILE), 0o400);
        ReceiptSigner::open(folder.path()).unwrap();
    }

    #[test]
    fn damaged_key_is_refused_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_FILE);
        ReceiptSigner::open(folder.path()).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        for bad in [
            String::new(),
            "-----BEGIN PRIVATE KEY-----".to_owned(),
            good.replacen("MC4C", "MC4D", 1),
            good.replace("-----END PRIVATE KEY-----", ""),
        ] {
            fs::write(&path, &bad).unwrap();
            assert!(matches!(ReceiptSigner::open(folder.path()), Err(KeyError::Malformed(_))), "{bad}");
            assert_eq!(fs::read_to_string(&path).unwrap(), bad);
        }
    }

    #[test]
    fn retired_keys_that_cannot_be_read_are_not_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(RETIRED_FILE)).unwrap();
        assert!(matches!(ReceiptSigner::open(folder.path()), Err(KeyError::Io { .. })));
    }

    #[test]
    fn rotation_keeps_the_public_keys() {
        let folder = tempfile::tempdir().unwrap();
        let mut kids = vec![ReceiptSigner::open(folder.path()).unwrap().kid().to_owned()];
        for _ in 0..3 {
            kids.insert(0, ReceiptSigner::rotate(folder.path()).unwrap().kid().to_owned());
        }
        let jwks = ReceiptSigner::open(folder.path()).unwrap().jwks();
        let named: Vec<_> = jwks["keys"].as_array().unwrap().iter().map(|jwk| jwk["kid"].as_str().unwrap().to_owned()).collect();
        assert_eq!(named, kids, "newest first, each once");
        assert_eq!(jwks["keys"][0].as_object().unwrap().len(), 6, "no private member");
    }

    #[test]
    fn given_key_replaces_the_folders_and_verifies_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let before = ReceiptSigner::open(folder.path()).unwrap();
        ReceiptSigner::rotate(folder.path()).unwrap();
        let given = ReceiptSigner::from_pem(&pem(&SigningKey::from_bytes(&[7; 32])), folder.path()).unwrap();
        assert_eq!(given.kid(), jws::thumbprint(&SigningKey::from_bytes(&[7; 32]).verifying_key()));
        assert!(given.is_retired(before.kid()) && !given.is_retired(given.kid()));
        assert!(matches!(ReceiptSigner::from_pem("no key", folder.path()), Err(KeyError::Invalid)));
    }

    #[test]
    fn offers_are_signed_in_the_requested_format() {
        let accepts = [json!({ "scheme": "exact", "network": "eip155:84532", "asset": "0x1", "payTo": "0x2", "amount": "7" })];
        for (format, name, by) in [(OfferFormat::Jws, "jws", "kid"), (OfferFormat::Eip712, "eip712", "address")] {
            let folder = tempfile::tempdir().unwrap();
            let signer = ReceiptSigner::open(folder.path()).unwrap().with_format(format);
            assert!(signer.offers_by()["format"] == name && signer.offers_by()[by].is_string(), "{}", signer.offers_by());
            let offers = signer.offers("https://tools.example/tools/a", &accepts, Timestamp(0));
            assert_eq!((offers.len(), &offers[0]["format"], &offers[0]["acceptIndex"]), (1, &json!(name), &json!(0)));
        }
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let signer = ReceiptSigner::open(folder.path()).unwrap();
        let shown = format!("{signer:?}");
        assert!(shown.contains(signer.kid()) && !shown.contains("key:") && shown.len() < 120, "{shown}");
    }
}
