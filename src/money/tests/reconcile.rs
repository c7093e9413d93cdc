//! Compares transfers on the chain with the ledger's receipts.

use tollhouse_api::{Reconciliation, True};

use super::{
    node::{Chain, Node, TRANSACTION, TRANSFER, log, word},
    *,
};
use crate::facilitator::{chain::node, chain_view::TokenTransfer, kind::remote::HttpFacilitator};

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

/// Returns the fields of a receipt that names [`TRANSACTION`].
fn receipt_of(id: &ReceiptId, amount: u64) -> Value {
    let (asset, network) = (ASSETS[0].address, ASSETS[0].network.caip2);
    let amount = amount.to_string();
    json!({ "receiptId": id, "simulated": false, "amount": amount, "asset": asset, "network": network, "transaction": TRANSACTION })
}

/// A facilitator that named one transaction for two payments was paid once.
#[tokio::test]
async fn transaction_with_more_receipts_than_transfers_is_listed_with_them() {
    let fixture = Fixture::new().await;
    let receipts = [ReceiptId::generate(), ReceiptId::generate()];
    let compared = async |transfers: &[_], receipts: &[ReceiptId]| {
        let mut page = page();
        let receipts: Vec<_> = receipts.iter().map(|id| serde_json::from_value(receipt_of(id, PRICE.0)).unwrap()).collect();
        let matched = fixture.payments.match_transfers(&mut page, ASSETS[0].network, transfers, &receipts).await.unwrap();
        assert_eq!(matched.len(), receipts.len());
        page
    };
    let once = compared(&[transfer(0)], &receipts).await;
    let [doubled] = &once.doubled[..] else { panic!("{once:?}") };
    let mut named = receipts.clone().map(|receipt| receipt.to_string());
    named.sort_unstable();
    assert_eq!((doubled.transaction.as_str(), doubled.transfers, &doubled.receipt_ids[..]), (TRANSACTION, 1, &named[..]));
    assert!(once.unknown.is_empty() && once.missing.is_empty());
    // One transaction can move money for several payments.
    let twice = compared(&[transfer(0), transfer(1)], &receipts).await;
    assert!(twice.doubled.is_empty() && twice.unknown.is_empty(), "{twice:?}");
    let unknown = compared(&[transfer(0)], &[]).await;
    assert!(unknown.doubled.is_empty() && unknown.unknown.len() == 1, "{unknown:?}");
}

/// Compares receipts for these amounts with a transaction in block 100,000 that made these transfers.
async fn reconciled(receipts: &[u64], transfers: &[u64], heavy_block: Option<u64>) -> Reconciliation {
    let from = word(&Payer::new(1).address());
    let mut logs = vec![];
    for (index, amount) in (0..).zip(transfers) {
        let mut log = log(index, &[TRANSFER, &from, &word(PAY_TO)], &format!("0x{amount:064x}"));
        log["blockNumber"] = json!("0x186a0");
        logs.push(log);
    }
    let instead = heavy_block.is_none().then(|| ("eth_getLogs", json!(logs)));
    let chain = Chain { instead, heavy_block, ..Chain::at(NOW).spending(100_000, logs) };
    let node = Node::of(chain).await;
    let reader = Arc::new(node::Node::new(&node.url, ASSETS[0].network).unwrap());
    let access = FacilitatorAccess::default();
    let facilitator = HttpFacilitator::new("http://127.0.0.1:1/", &access, Some(reader), Clock::fixed(NOW)).unwrap();
    let fixture = Fixture::new().await;
    for amount in receipts {
        let id = ReceiptId::of_time(NOW);
        fixture.write(Space::Receipts, id.to_string().into_bytes(), receipt_of(&id, *amount).to_string().into_bytes()).await;
    }
    let range = BlockRange { first: 99_900, last: 100_050 };
    let (page, next) = fixture.settling_with(facilitator).reconcile(None, range).await.unwrap();
    assert_eq!((page.receipts, page.to_block, next), (receipts.len() as u64, range.last, None));
    page
}

/// Returns the amounts of unknown transfers and of missing receipts, the number of doubled transactions, and whether
/// everything agrees.
async fn compared(receipts: &[u64], transfers: &[u64]) -> (Vec<String>, Vec<String>, usize, bool) {
    let page = reconciled(receipts, transfers, None).await;
    assert_eq!(page.transfers, transfers.len() as u64);
    let unknown = page.unknown.into_iter().map(|transfer| transfer.amount).collect();
    let missing = page.missing.into_iter().map(|receipt| receipt.amount).collect();
    (unknown, missing, page.doubled.len(), page.agrees)
}

/// Receipts and transfers of one transaction; transfers without a receipt, receipts without a transfer, and the number of
/// amounts with too few transfers.
type Case<'a> = (&'a [u64], &'a [u64], &'a [u64], &'a [u64], usize);

#[tokio::test]
async fn transfers_are_matched_with_receipts_by_their_amount() {
    let amounts = |amounts: &[u64]| amounts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let cases: [Case<'_>; 8] = [
        (&[10], &[10], &[], &[], 0),
        (&[10], &[1], &[1], &[10], 0),
        (&[10], &[10, 10], &[10], &[], 0),
        (&[10], &[10, 1], &[1], &[], 0),
        (&[10, 10], &[10], &[], &[], 1),
        (&[10, 20], &[10], &[], &[20], 0),
        (&[10, 20], &[30], &[30], &[10, 20], 0),
        (&[10, 10], &[10, 1], &[1], &[], 1),
    ];
    for (receipts, transfers, unknown, missing, doubled) in cases {
        let agrees = unknown.is_empty() && missing.is_empty() && doubled == 0;
        let found = compared(receipts, transfers).await;
        assert_eq!(found, (amounts(unknown), amounts(missing), doubled, agrees), "{receipts:?} {transfers:?}");
    }
}

/// Regression test: anybody could send 450 transfers of zero in one transaction, and no range with it was compared.
#[tokio::test]
async fn transfers_of_zero_are_ignored() {
    let transfers: Vec<u64> = [&[0; 1_000][..], &[10]].concat();
    let page = reconciled(&[10], &transfers, None).await;
    assert_eq!((page.transfers, page.agrees, page.truncated), (1, true, false), "{page:?}");
}

#[tokio::test]
async fn block_with_too_many_transfers_is_skipped_and_reported() {
    let page = reconciled(&[10], &[10], Some(99_990)).await;
    assert_eq!((page.transfers, page.truncated, page.agrees), (1, true, false), "{page:?}");
    assert!(page.unknown.is_empty() && page.missing.is_empty() && page.doubled.is_empty(), "{page:?}");
}
