//! Verifies random receipts.

use std::sync::LazyLock;

use super::*;
use crate::receipt::canonical;

/// The key set of a key that nobody has anymore.
const KEYS: &str = include_str!("../../../../../tests/fuzz/receipt-keys.json");

/// Receipts signed by that key.
static SIGNED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let receipts = [
        include_str!("../../../../../tests/fuzz/seeds/receipt/free"),
        include_str!("../../../../../tests/fuzz/seeds/receipt/credit"),
        include_str!("../../../../../tests/fuzz/seeds/receipt/paid"),
    ];
    receipts.map(|text| canonical(&serde_json::from_str(text).unwrap())).into()
});

#[test]
fn receipt_that_was_changed_does_not_verify_nor_does_one_by_other_keys() {
    tollhouse_fuzz::check("receipt", |bytes| {
        let mut documents = bytes.split(|byte| *byte == 0);
        let Some(Ok(receipt)) = documents.next().map(serde_json::from_slice::<Value>) else { return };
        if verify(&receipt, &serde_json::from_str(KEYS).unwrap()).is_ok() {
            assert!(SIGNED.contains(&canonical(&receipt)), "{receipt}");
        }
        let Some(Ok(keys)) = documents.next().map(serde_json::from_slice::<Value>) else { return };
        if let Ok(verified) = verify(&receipt, &keys) {
            assert!(keys.to_string().contains("\"x\":") && !verified.kid.is_empty());
            assert!(SIGNED.contains(&canonical(&receipt)), "{receipt}");
        }
    });
}
