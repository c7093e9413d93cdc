//! Reads of a long history touch only the requested rows, and none of the older ones.

use tollhouse_base::id::{BuilderId, EndpointId};
use tollhouse_store::{sweep_cursor::TURN, test_wrappers::CountingStore};

use super::*;
use crate::{
    ledger::{Cause, Dollars, Posting},
    payout::{PayoutError, PayoutSettingsDraft, PayoutStatus, Payouts},
    sale::{ReportDetail, Sale, SaleTotals, UnpaidSale},
};

const DAY: u64 = 24 * 3_600_000;
/// Number of new receipts.
const NEW: u64 = 20;

/// Returns earnings that wait to be paid out, with their posting.
fn waits(builder: &BuilderId, receipt: &ReceiptId, net: u64, at: Timestamp) -> Batch {
    let posting = Posting::new(Cause::Sold(receipt.clone()), at);
    let posting = posting.dollars(Dollars::Own, Dollars::Builder(builder.clone()), MicroUsd(net));
    UnpaidSale { net, at_ms: at.0 }.stored(&Owner::Builder(builder.clone()), receipt).and(posting.stored())
}

/// Counts the rows that each operation reads after a history of `days` days with `each` receipts, folded and paid out.
async fn reads(days: u64, each: u64) -> Vec<(&'static str, usize)> {
    let store = CountingStore::of(MemoryStore::new());
    let any: Arc<dyn Store> = Arc::clone(&store) as _;
    let (clock, folder) = (Clock::fixed(NOW), tempfile::tempdir().unwrap());
    let events = Arc::new(Events::new(Arc::clone(&any), clock.clone(), EventSettings::default()));
    let (sales, signer) = (Sales::new(Arc::clone(&any)), Arc::new(ReceiptSigner::open(folder.path()).unwrap()));
    let payouts = Payouts::new(Arc::clone(&any), clock.clone(), events, signer, config().assets().collect());
    let (builder, endpoint) = (BuilderId::generate(), EndpointId::generate());
    let owner = Owner::Builder(builder.clone());
    let to = PayoutSettingsDraft { address: PAY_TO.to_owned(), network: None, asset: None, minimum_usd: Some(MicroUsd(1)) };
    payouts.set(&builder, &to, None).await.unwrap();
    let sells = async |at: Timestamp, receipts: u64| {
        let mut rows = Batch::new();
        for _ in 0..receipts {
            let receipt = ReceiptId::of_time(at);
            let sale = Sale { endpoint: endpoint.clone(), slug: "a-tool".parse().unwrap(), totals: SaleTotals::paid(PRICE, MicroUsd(500)) };
            rows.append(sales.row(&sale, &owner, at, receipt.as_str()));
            rows.append(waits(&builder, &receipt, PRICE.0 - 500, at));
        }
        rows.commit(&*any, Durability::Buffered).await.unwrap();
    };
    for day in 0..days {
        sells(Timestamp(NOW.0 - (40 + day) * DAY), each).await;
    }
    sales.fold_left(NOW).await.unwrap();
    payouts.pay_out(&builder).await.unwrap().unwrap();
    sells(NOW, NEW).await;

    let mut listed = vec![];
    store.rows();
    let report = sales.report(&owner, Timestamp(NOW.0 - 30 * DAY), ReportDetail::Sums).await.unwrap();
    assert_eq!(report.totals.paid_calls, NEW);
    listed.push(("revenue of 30 days", store.rows()));
    let report = sales.host_report(Timestamp(NOW.0 - 30 * DAY)).await.unwrap();
    assert_eq!(report.totals.paid_calls, NEW);
    listed.push(("revenue of the host", store.rows()));
    payouts.waits(&builder).await.unwrap();
    listed.push(("what waits", store.rows()));
    let packet = payouts.pay_out(&builder).await.unwrap().unwrap();
    assert_eq!(packet.receipt_count, NEW);
    listed.push(("a payout", store.rows()));
    payouts.resume().await.unwrap();
    listed.push(("payouts that were cut off", store.rows()));
    sales.fold_left(NOW).await.unwrap();
    listed.push(("a fold", store.rows()));
    sales.fold_left(NOW).await.unwrap();
    listed.push(("a fold of nothing", store.rows()));
    listed
}

#[tokio::test]
async fn reads_do_not_grow_with_folded_and_paid_out_sales() {
    let (short, long) = (reads(5, 10).await, reads(200, 30).await);
    assert_eq!(short, long);
    let max = long.iter().max_by_key(|(_, rows)| rows).unwrap();
    assert!(max.1 < 10 * NEW as usize, "{long:?}");
}

/// Counts the rows that admins' requests and a start read, with this many paid builders.
async fn reads_of_payouts(builders: u64) -> Vec<(&'static str, usize)> {
    let store = CountingStore::of(MemoryStore::new());
    let any: Arc<dyn Store> = Arc::clone(&store) as _;
    let (clock, folder) = (Clock::fixed(NOW), tempfile::tempdir().unwrap());
    let events = Arc::new(Events::new(Arc::clone(&any), clock.clone(), EventSettings::default()));
    let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
    let payouts = Payouts::new(Arc::clone(&any), clock, events, signer, config().assets().collect());
    for _ in 0..builders {
        let builder = BuilderId::generate();
        let to = PayoutSettingsDraft { address: PAY_TO.to_owned(), network: None, asset: None, minimum_usd: Some(MicroUsd(1)) };
        payouts.set(&builder, &to, None).await.unwrap();
        waits(&builder, &ReceiptId::generate(), 1_000, NOW).commit(&*any, Durability::Buffered).await.unwrap();
        payouts.pay_out(&builder).await.unwrap().unwrap();
    }
    let mut listed = vec![];
    store.rows();
    payouts.resume().await.unwrap();
    listed.push(("a start", store.rows()));
    assert_eq!(payouts.counts().await.unwrap().created, builders);
    listed.push(("how many there are", store.rows()));
    assert!(payouts.list_all(Some(PayoutStatus::Approved), 50, None).await.unwrap().0.is_empty());
    listed.push(("those of a state", store.rows()));
    listed
}

#[tokio::test]
async fn unrequested_payouts_are_not_read() {
    let (few, many) = (reads_of_payouts(2).await, reads_of_payouts(60).await);
    assert_eq!(few, many);
    assert!(many.iter().all(|(_, rows)| *rows <= 5), "{many:?}");
}

#[tokio::test]
async fn payout_below_the_minimum_sums_no_earnings() {
    let store = CountingStore::of(MemoryStore::new());
    let any: Arc<dyn Store> = Arc::clone(&store) as _;
    let (clock, folder) = (Clock::fixed(NOW), tempfile::tempdir().unwrap());
    let events = Arc::new(Events::new(Arc::clone(&any), clock.clone(), EventSettings::default()));
    let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
    let payouts = Payouts::new(Arc::clone(&any), clock, events, signer, config().assets().collect());
    let builder = BuilderId::generate();
    let to = PayoutSettingsDraft { address: PAY_TO.to_owned(), network: None, asset: None, minimum_usd: Some(MicroUsd(3_000)) };
    payouts.set(&builder, &to, None).await.unwrap();
    store.rows();
    assert!(payouts.pay_out(&builder).await.unwrap().is_none(), "nothing was earned");
    for sold in 0..2_999 {
        waits(&builder, &ReceiptId::generate(), 1, NOW).commit(&*any, Durability::Buffered).await.unwrap();
        if sold % 1_000 == 998 {
            store.rows();
            let refused = payouts.pay_out(&builder).await.unwrap_err();
            assert!(matches!(refused, PayoutError::BelowMinimum { amount, .. } if amount.0 == sold + 1), "{refused}");
            assert!(store.rows() <= 4, "the newest payout, the settings, the first row and the account");
        }
    }
    waits(&builder, &ReceiptId::generate(), 1, NOW).commit(&*any, Durability::Buffered).await.unwrap();
    assert_eq!(payouts.pay_out(&builder).await.unwrap().unwrap().receipt_count, 3_000);
}

#[tokio::test]
async fn host_report_reads_no_rows_of_idle_sellers() {
    let store = CountingStore::of(MemoryStore::new());
    let sales = Sales::new(Arc::clone(&store) as _);
    let endpoint = EndpointId::generate();
    let sells = async |owner: &Owner, at: Timestamp| {
        let sale = Sale { endpoint: endpoint.clone(), slug: "a-tool".parse().unwrap(), totals: SaleTotals::paid(PRICE, MicroUsd(500)) };
        sales.row(&sale, owner, at, ReceiptId::generate().as_str()).commit(&*store, Durability::Buffered).await.unwrap();
    };
    let (long_ago, since) = (Timestamp(NOW.0 - 40 * DAY), Timestamp(NOW.0 - 30 * DAY));
    let owners: Vec<_> = (0..50).map(|_| Owner::Builder(BuilderId::generate())).collect();
    for owner in &owners {
        sells(owner, long_ago).await;
    }
    sells(&owners[7], NOW).await;
    sales.fold_left(NOW).await.unwrap();
    // This sale is from an old day and not folded yet. The rows before it may be newer.
    sells(&owners[7], long_ago).await;
    sells(&owners[8], NOW).await;
    store.rows();
    assert_eq!(sales.host_report(since).await.unwrap().totals.paid_calls, 2);
    // The report reads the two listed sellers since then. For each, it reads the first row that is not folded, and the
    // seller's rows. For one of them, it also reads an empty page of the days before.
    assert_eq!(store.rows(), 2 + (1 + 2) + (1 + 1 + 1));
}

#[tokio::test]
async fn sales_left_by_a_crash_are_folded_without_reading_more_of_owners_without_sales() {
    let store = CountingStore::of(MemoryStore::new());
    let sales = Sales::new(Arc::clone(&store) as _);
    let mut owners: Vec<_> = (0..TURN + 20).map(|_| Owner::Builder(BuilderId::generate())).collect();
    owners.sort_by_key(|owner| owner.share().to_owned());
    let endpoint = EndpointId::generate();
    let sells = async |owner: &Owner| {
        let sale = Sale { endpoint: endpoint.clone(), slug: "a-tool".parse().unwrap(), totals: SaleTotals::paid(PRICE, MicroUsd(500)) };
        sales.row(&sale, owner, NOW, ReceiptId::generate().as_str()).commit(&*store, Durability::Buffered).await.unwrap();
    };
    for owner in &owners {
        sells(owner).await;
    }
    for _ in 0..2 {
        sales.fold_left(NOW).await.unwrap();
    }
    // The last one that the sweep reaches, since it goes backward.
    sells(&owners[0]).await;
    store.rows();
    sales.fold_left(NOW).await.unwrap();
    assert!(store.rows() <= TURN + 1);
    let counted = async || sales.report(&owners[0], NOW, ReportDetail::Sums).await.unwrap().totals.paid_calls;
    assert_eq!(counted().await, 2, "it is counted all the same");
    assert_eq!(store.rows(), 1 + 2, "the first unfolded one, the roll-up, and later ones");
    sales.fold_left(NOW).await.unwrap();
    store.rows();
    assert_eq!(counted().await, 2);
    assert_eq!(store.rows(), 1 + 1, "that all is folded, and the roll-up");
}
