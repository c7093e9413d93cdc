//! Keys of a host, from its settings or its data folder. All hosts of a store must have the same.

use std::{path::Path, sync::Arc, time::Duration};

use tollhouse_account::{first_key::FirstKeys, token::Token};
use tollhouse_capability::secret::{self, Keyring, Secrets};
use tollhouse_config::{HiddenValue, SecretSettings};
use tollhouse_money::receipt::{self, ReceiptSigner};
use tollhouse_replica::{ADMIN_TOKEN, MASTER_KEY, RECEIPT_KEY, Replica};
use tollhouse_store::{Store, StoreError};

/// Number of times, and the interval, at which hosts that start together check the admin token of
/// the first one.
const TOKEN_ATTEMPTS: u32 = 20;
const TOKEN_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Why a host's keys are unusable. Each message is one sentence, with the cause as its source.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("the receipt key cannot be read")]
    Receipt(#[source] receipt::KeyError),
    #[error("the master key of the secrets cannot be read")]
    Master(#[source] secret::KeyError),
    #[error("the keys in the store could not be read")]
    Store(#[from] StoreError),
    #[error("this host has the {what} `{own_key}`, but the hosts of its store have `{stored_key}`: set theirs in {how}")]
    Other { what: &'static str, how: &'static str, own_key: String, stored_key: String },
}

/// Returns the keys that a host already has: for signing receipts, and for encrypting secrets.
pub(super) fn known(keys: &SecretSettings, data: &Path) -> Result<(Option<ReceiptSigner>, Option<Keyring>), KeysError> {
    let signs = keys.receipt_key.is_some() || data.join("receipt-key.pem").exists();
    let seals = keys.master_key.is_some() || data.join("master-key").exists();
    Ok((signs.then(|| known_signer(keys, data)).transpose()?, seals.then(|| ring(keys, data)).transpose()?))
}

/// Returns the existing key that signs receipts.
fn known_signer(keys: &SecretSettings, data: &Path) -> Result<ReceiptSigner, KeysError> {
    let signer = match &keys.receipt_key {
        Some(key) => ReceiptSigner::from_pem(key.expose(), data),
        None => ReceiptSigner::open(data),
    };
    signer.map_err(KeysError::Receipt)
}

/// Returns the key that signs receipts. Creates it if needed.
pub(super) async fn signer(keys: &SecretSettings, data: &Path, store: &dyn Store) -> Result<ReceiptSigner, KeysError> {
    if keys.receipt_key.is_none() && ReceiptSigner::is_missing(data, store).await? {
        tracing::error!(
            file = %data.join("receipt-key.pem").display(),
            "the key that signed the stored receipts is missing, so a new one was created: older receipts no longer verify with the keys \
             that this host publishes; restore the file from your own copy, because backups do not contain it"
        );
    }
    known_signer(keys, data)
}

/// Returns the master keys of secrets.
pub(super) fn ring(keys: &SecretSettings, data: &Path) -> Result<Keyring, KeysError> {
    let text = |key: &Option<HiddenValue>| key.as_ref().map(|key| key.expose().to_owned());
    Keyring::open(text(&keys.master_key).as_deref(), text(&keys.master_key_old).as_deref(), &data.join("master-key"))
        .map_err(KeysError::Master)
}

/// Returns the source from which first keys of builders are derived.
pub(super) fn first_keys(secrets: &Arc<Secrets>) -> FirstKeys {
    let secrets = Arc::clone(secrets);
    FirstKeys::from(Box::new(move || secrets.derived("first keys of builders")))
}

/// Makes this host's admin token that of the store. The host must hold its lease.
///
/// # Errors
///
/// Another host has set another token, possibly at the same moment. The lease is released then.
pub(super) async fn agree_on_token(replica: &Replica, ours: String) -> Result<(), KeysError> {
    match replica.announce(ADMIN_TOKEN, &ours).await? {
        None => Ok(()),
        Some(theirs) => {
            replica.leave().await;
            Err(other_token(ours, theirs))
        }
    }
}

/// Returns the admin token of the other hosts if it does not become ours in time. Hosts that start
/// together may have another token than the last one had, which the first of them has yet to set.
async fn another_token(replica: &Replica, ours: &str) -> Result<Option<String>, StoreError> {
    let mut request = 0;
    loop {
        let theirs = replica.agreed(ADMIN_TOKEN, ours).await?;
        if theirs == ours {
            return Ok(None);
        }
        if request == TOKEN_ATTEMPTS {
            return Ok(Some(theirs));
        }
        request += 1;
        tokio::time::sleep(TOKEN_RETRY_INTERVAL).await;
    }
}

fn other_token(ours: String, theirs: String) -> KeysError {
    let how = "TOLLHOUSE_ADMIN_TOKEN_FILE, TOLLHOUSE_ADMIN_TOKEN, or `admin-token` in the data folder; you can replace it once all hosts are stopped";
    KeysError::Other { what: "admin token", how, own_key: ours, stored_key: theirs }
}

/// Refuses keys with which this host could not read what others of its store write, or with which
/// clients could not verify its receipts. Also refuses a different admin token while other hosts
/// serve the store. Otherwise this host's token becomes [the store's](agree_on_token) once it has
/// its lease.
pub(super) async fn agree_with_replicas(replica: &Replica, admin: &Token, signer: &ReceiptSigner, ring: &Keyring) -> Result<(), KeysError> {
    let ours = admin.id();
    let theirs = replica.agreed(ADMIN_TOKEN, &ours).await?;
    if theirs != ours
        && replica.has_others().await?
        && let Some(theirs) = another_token(replica, &ours).await?
    {
        return Err(other_token(ours, theirs));
    }
    let theirs = replica.agreed(RECEIPT_KEY, signer.kid()).await?;
    if signer.is_retired(&theirs) {
        replica.agree_on(RECEIPT_KEY, signer.kid()).await?;
    } else if theirs != signer.kid() {
        let how = "TOLLHOUSE_RECEIPT_KEY_FILE, TOLLHOUSE_RECEIPT_KEY, or `receipt-key.pem` in the data folder";
        return Err(KeysError::Other { what: "receipt key", how, own_key: signer.kid().to_owned(), stored_key: theirs });
    }
    let ours = ring.current().id();
    let theirs = replica.agreed(MASTER_KEY, ours).await?;
    if ring.has(&theirs) {
        return Ok(());
    }
    let how = "TOLLHOUSE_MASTER_KEY_FILE, TOLLHOUSE_MASTER_KEY, or `master-key` in the data folder";
    Err(KeysError::Other { what: "master key", how, own_key: ours.to_owned(), stored_key: theirs })
}
