//! Reports of long histories are read page by page, and count each call once even if rows are folded between pages.

use std::sync::atomic::{AtomicUsize, Ordering};

use tollhouse_store::{SaleKey, test_wrappers::InterleavingStore};

use super::{
    super::report::{PAGE, TAIL},
    *,
};

/// Records the largest page of all scans, and yields before each.
struct ScanSizes {
    inner: Arc<MemoryStore>,
    max: AtomicUsize,
}

#[async_trait]
impl StoreWrapper for ScanSizes {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn on_scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        self.max.fetch_max(limit, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.inner.scan(space, range, limit, direction).await
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        tokio::task::yield_now().await;
        self.inner.apply(batch, durability).await
    }
}

fn scan_sizes() -> Arc<ScanSizes> {
    Arc::new(ScanSizes { inner: Arc::new(MemoryStore::new()), max: AtomicUsize::new(0) })
}

fn sale() -> Sale {
    Sale { endpoint: EndpointId::generate(), slug: slug(1), totals: SaleTotals::paid(MicroUsd(10_000), MicroUsd(500)) }
}

/// Adds roll-ups for `days` days before now.
async fn rolled_up(store: &dyn Store, owner: &Owner, days: u64) {
    let (sale, mut batch) = (sale(), Batch::new());
    for day in 1..=days {
        let key = SaleKey::RollUp(u32::try_from(NOW.0 / DAY - day).unwrap(), sale.endpoint.clone());
        batch.put(&SALES, &(of(owner.share()), key), &sale);
    }
    batch.commit(store, Durability::Buffered).await.unwrap();
}

async fn sells(store: &dyn Store, owner: &Owner, calls: std::ops::Range<u64>) {
    let (sale, mut batch) = (sale(), Batch::new());
    calls.for_each(|n| _ = batch.append(sale.row(owner, Timestamp(NOW.0 + n), &n.to_string())));
    batch.commit(store, Durability::Buffered).await.unwrap();
}

#[tokio::test]
async fn a_long_history_is_read_page_by_page() {
    let store = scan_sizes();
    let sales = Sales::new(Arc::clone(&store) as _);
    let owner = builder();
    let (days, rows) = (3 * PAGE as u64 + 7, 2 * TAIL as u64 + 7);
    rolled_up(&*store, &owner, days).await;
    let calls = async || sales.report(&owner, Timestamp(0), ReportDetail::Sums).await.unwrap().totals.calls;
    assert_eq!(calls().await, days);
    assert!(store.max.load(Ordering::SeqCst) <= TAIL);
    sells(&*store, &owner, 0..10).await;
    assert_eq!(calls().await, days + 10);
    assert!(store.max.load(Ordering::SeqCst) <= TAIL);
    // Rows that were not folded for long are read in one scan, however many there are.
    sells(&*store, &owner, 10..rows).await;
    assert_eq!(calls().await, days + rows);
    let half = sales.report(&owner, Timestamp(NOW.0 - DAY * 1_500), ReportDetail::Sums).await.unwrap();
    assert_eq!(half.totals.calls, 1_500 + rows);
    assert_eq!(sales.report(&builder(), Timestamp(0), ReportDetail::Sums).await.unwrap().totals.calls, 0);
}

#[tokio::test]
async fn a_call_that_is_folded_between_two_pages_is_counted_once() {
    for scan in 1..=6 {
        let memory = Arc::new(MemoryStore::new());
        let owner = builder();
        rolled_up(&*memory, &owner, PAGE as u64 + 7).await;
        sells(&*memory, &owner, 0..10).await;
        let (folds, share) = (Sales::new(Arc::clone(&memory) as _), owner.share().to_owned());
        let meanwhile = async move { folds.fold(&share).await.unwrap() };
        let sales = Sales::new(InterleavingStore::before_scan(scan, Arc::clone(&memory), meanwhile) as _);
        let report = sales.report(&owner, Timestamp(0), ReportDetail::Sums).await.unwrap();
        assert_eq!(report.totals.calls, PAGE as u64 + 17, "folded before scan {scan}");
    }
}

/// Sells and folds during reports. Earlier calls must be counted, and none twice.
#[tokio::test]
async fn a_report_during_sales_and_folds_is_neither_low_nor_high() {
    let store = scan_sizes();
    let owner = builder();
    rolled_up(&*store, &owner, 2 * PAGE as u64).await;
    let (reports, folds) = (Sales::new(Arc::clone(&store) as _), Sales::new(Arc::clone(&store) as _));
    let sold = AtomicUsize::new(0);
    let selling = async {
        for n in 0..200 {
            sells(&*store, &owner, n..n + 1).await;
            sold.fetch_add(1, Ordering::SeqCst);
            folds.fold(owner.share()).await.unwrap();
        }
    };
    let reporting = async {
        while sold.load(Ordering::SeqCst) < 200 {
            let before = sold.load(Ordering::SeqCst);
            let calls = reports.report(&owner, Timestamp(0), ReportDetail::Sums).await.unwrap().totals.calls as usize - 2 * PAGE;
            // A sale may be stored before `sold` counts it.
            assert!((before..=sold.load(Ordering::SeqCst) + 1).contains(&calls), "{calls} of {before} and more");
        }
    };
    tokio::join!(selling, reporting);
}
