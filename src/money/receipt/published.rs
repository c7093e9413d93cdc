//! The public keys for verifying receipts, of all hosts that share a store.

use std::sync::Arc;
use tollhouse_base::boxed;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, Table, json_values, schema};

use super::ReceiptSigner;

const KEYS: Table<String, PublicKey> = schema::RECEIPT_KEYS.holding();

const MAX: usize = 1_000;

/// A public key, as a JWK.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PublicKey(Value);
json_values!(PublicKey);

/// The keys of all hosts of a store.
pub struct PublishedKeys {
    store: Arc<dyn Store>,
    signer: Arc<ReceiptSigner>,
}

impl PublishedKeys {
    /// Publishes the keys of this host to all hosts of the store.
    #[boxed]
    pub async fn open(store: Arc<dyn Store>, signer: Arc<ReceiptSigner>) -> Result<Self, StoreError> {
        if store.is_shared() {
            let mut batch = Batch::new();
            for jwk in listed(&signer.jwks()) {
                batch.put(&KEYS, &kid(jwk), &PublicKey(jwk.clone()));
            }
            batch.commit(&*store, Durability::Durable).await?;
        }
        Ok(Self { store, signer })
    }

    /// Returns the JWK set for verifying receipts, with this host's key first. While the store is unavailable, only
    /// this host's keys.
    #[boxed]
    pub async fn jwks(&self) -> Value {
        let mut jwks = self.signer.jwks();
        if !self.store.is_shared() {
            return jwks;
        }
        match KEYS.readable(&*self.store, &KEYS.all(), MAX, Direction::Forward).await {
            Ok(stored) => {
                let own: Vec<_> = listed(&jwks).iter().map(kid).collect();
                let others = stored.into_iter().filter(|(kid, _)| !own.contains(kid));
                let others: Vec<_> = others.filter_map(|(_, key)| Some(key?.0)).collect();
                jwks["keys"] = json!([listed(&jwks), &others].concat());
            }
            Err(error) => tracing::warn!(%error, "the receipt keys of other hosts could not be read and are not listed"),
        }
        jwks
    }
}

fn listed(jwks: &Value) -> &[Value] {
    jwks["keys"].as_array().map_or(&[], Vec::as_slice)
}

fn kid(jwk: &Value) -> String {
    jwk["kid"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_base::clock::Clock;
    use tollhouse_store::memory::MemoryStore;

    fn signer() -> Arc<ReceiptSigner> {
        Arc::new(ReceiptSigner::open(tempfile::tempdir().unwrap().path()).unwrap())
    }

    #[tokio::test]
    async fn hosts_of_one_store_report_the_keys_of_all_of_them_and_one_alone_its_own() {
        let (shared, alone) = (Arc::new(MemoryStore::shared(Clock::default())), Arc::new(MemoryStore::new()));
        let (one, other) = (signer(), signer());
        let first = PublishedKeys::open(Arc::clone(&shared) as _, Arc::clone(&one)).await.unwrap();
        PublishedKeys::open(shared, Arc::clone(&other)).await.unwrap();
        let describe = |jwks: &Value| listed(jwks).iter().map(kid).collect::<Vec<_>>();
        assert_eq!(describe(&first.jwks().await), [one.kid(), other.kid()]);
        let lonely = PublishedKeys::open(Arc::clone(&alone) as _, Arc::clone(&one)).await.unwrap();
        assert_eq!((describe(&lonely.jwks().await), alone.sizes().spaces.len()), (vec![one.kid().to_owned()], 0));
    }
}
