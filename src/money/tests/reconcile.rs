//! Compares transfers on the chain with the ledger's receipts.

use std::collections::HashMap;

use tollhouse_api::{Reconciliation, True};

use super::*;
use crate::facilitator::chain_view::TokenTransfer;

const TRANSACTION: &str = "0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn page() -> Reconciliation {
    Reconciliation {
        ok: True,
        network: ASSETS[0].network.caip2.into(),
        from_block: 1,
        to_block: 2,
        transfers: 0,
        receipts: 0,
        unknown: Vec::new(),
        missing: Vec::new(),
        doubled: Vec::new(),
        truncated: false,
        agrees: true,
        next_cursor: None,
    }
}

fn transfer(log: u64) -> (&'static Asset, TokenTransfer) {
    let transfer = TokenTransfer {
        transaction: TRANSACTION.to_owned(),
        block: 1,
        log,
        from: Payer::new(1).address(),
        amount: alloy_primitives::U256::from(PRICE.0),
    };
    (&ASSETS[0], transfer)
}

/// A facilitator that named one transaction for two payments was paid once.
#[tokio::test]
async fn transaction_with_more_receipts_than_transfers_is_listed_with_them() {
    let fixture = Fixture::new().await;
    let receipts = [ReceiptId::generate(), ReceiptId::generate()];
    let linked = HashMap::from([(TRANSACTION.to_owned(), receipts.to_vec())]);
    let compared = async |transfers: &[_], linked: &HashMap<_, _>| {
        let mut page = page();
        fixture.payments.hold_transfers(&mut page, ASSETS[0].network, transfers, linked).await.unwrap();
        page
    };
    let once = compared(&[transfer(0)], &linked).await;
    let [doubled] = &once.doubled[..] else { panic!("{once:?}") };
    let mut named = receipts.map(|receipt| receipt.to_string());
    named.sort_unstable();
    assert_eq!((doubled.transaction.as_str(), doubled.transfers, &doubled.receipt_ids[..]), (TRANSACTION, 1, &named[..]));
    assert!(once.unknown.is_empty() && once.missing.is_empty());
    // One transaction can move money for several payments.
    let twice = compared(&[transfer(0), transfer(1)], &linked).await;
    assert!(twice.doubled.is_empty() && twice.unknown.is_empty(), "{twice:?}");
    let unknown = compared(&[transfer(0)], &HashMap::new()).await;
    assert!(unknown.doubled.is_empty() && unknown.unknown.len() == 1, "{unknown:?}");
}
