mod pages;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tollhouse_api::RevenueTotals;
use tollhouse_base::{
    check_report::CheckReport,
    id::{BuilderId, ReceiptId},
};
use tollhouse_store::{
    Direction, Durability, KeyRange, KeyValues, Space, StoreError,
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
    test_wrappers::StoreWrapper,
    update,
};

use super::{fold::fold_some, *};

const DAY: u64 = DAY_MS;
const NOW: Timestamp = Timestamp(20_000 * DAY + 5_000);

impl Sale {
    fn row(&self, owner: &Owner, at: Timestamp, id: &str) -> Batch {
        SALES.put(&(of(owner.share()), SaleKey::Row(at, id.to_owned())), self)
    }
}

fn builder() -> Owner {
    Owner::Builder(BuilderId::generate())
}

fn slug(n: u64) -> Slug {
    format!("tool-{n}").parse().unwrap()
}

#[test]
fn the_fee_is_rounded_down_and_taken_from_builders_only() {
    let owner = builder();
    for (bps, price, fee) in
        [(500, 10_000, 500), (500, 1, 0), (500, 19, 0), (500, 20, 1), (0, 7, 0), (10_000, 7, 7), (333, 1_000_000, 33_300)]
    {
        assert_eq!(FeeBps(bps).of(MicroUsd(price), &owner), MicroUsd(fee), "{bps} of {price}");
    }
    assert_eq!(FeeBps(10_000).of(MicroUsd::MAX, &owner), MicroUsd::MAX);
    assert_eq!(FeeBps(500).of(MicroUsd(10_000), &Owner::Platform), MicroUsd::ZERO);
}

#[tokio::test]
async fn a_report_has_totals_endpoints_and_days_from_the_first_day_on() {
    let sales = Sales::new(Arc::new(MemoryStore::new()));
    let (owner, endpoint) = (builder(), EndpointId::generate());
    let sell = async |at: u64, slug: Slug, totals, id: &str| {
        let row = Sale { endpoint: endpoint.clone(), slug, totals }.row(&owner, Timestamp(at), id);
        sales.store.apply(row, Durability::Buffered).await.unwrap();
    };
    sell(NOW.0 - 2 * DAY, slug(1), SaleTotals::paid(MicroUsd(1_000_000), MicroUsd(50_000)), "a").await;
    sell(NOW.0 - DAY, slug(1), SaleTotals::paid(MicroUsd(10_001), MicroUsd(500)), "b").await;
    sales.fold_left(NOW).await.unwrap();
    sell(NOW.0, slug(1), SaleTotals::FAILED, "c").await;
    sell(NOW.0, slug(2), SaleTotals::FREE, "d").await;
    let report = serde_json::to_value(sales.report(&owner, Timestamp(NOW.0 - DAY), ReportDetail::Sums).await.unwrap()).unwrap();
    let zero =
        serde_json::json!({ "calls": 1, "paidCalls": 0, "failedCalls": 0, "grossUsd": 0, "refundedUsd": 0, "feesUsd": 0, "netUsd": 0 });
    let expected = serde_json::json!({
        "ok": true,
        "since": "2024-10-03T00:00:00.000Z",
        "totals": { "calls": 3, "paidCalls": 1, "failedCalls": 1, "grossUsd": 0.010_001, "refundedUsd": 0, "feesUsd": 0.000_5, "netUsd": 0.009_501 },
        "byEndpoint": [
            { "endpointSlug": "tool-1", "calls": 2, "paidCalls": 1, "failedCalls": 1, "grossUsd": 0.010_001, "refundedUsd": 0, "feesUsd": 0.000_5, "netUsd": 0.009_501 },
            { "endpointSlug": "tool-2", "calls": 1, "paidCalls": 0, "failedCalls": 0, "grossUsd": 0, "refundedUsd": 0, "feesUsd": 0, "netUsd": 0 },
        ],
        "byDay": [
            { "day": "2024-10-03", "calls": 1, "paidCalls": 1, "failedCalls": 0, "grossUsd": 0.010_001, "refundedUsd": 0, "feesUsd": 0.000_5, "netUsd": 0.009_501 },
            { "day": "2024-10-04", "calls": 2, "paidCalls": 0, "failedCalls": 1, "grossUsd": 0, "refundedUsd": 0, "feesUsd": 0, "netUsd": 0 },
        ],
    });
    assert_eq!(report, expected);
    let daily = serde_json::to_value(sales.report(&owner, Timestamp(NOW.0 - DAY), ReportDetail::Daily).await.unwrap()).unwrap();
    let of_each: Vec<_> = daily["byEndpoint"].as_array().unwrap().iter().map(|line| (&line["callsByDay"], &line["failedByDay"])).collect();
    let none = serde_json::json!({});
    assert_eq!(
        of_each,
        [
            (&serde_json::json!({ "2024-10-03": 1, "2024-10-04": 1 }), &serde_json::json!({ "2024-10-04": 1 })),
            (&serde_json::json!({ "2024-10-04": 1 }), &none),
        ]
    );
    assert_eq!((&daily["totals"], &daily["byDay"]), (&report["totals"], &report["byDay"]));
    let other = serde_json::to_value(sales.report(&builder(), NOW, ReportDetail::Sums).await.unwrap()).unwrap();
    assert_eq!((&other["totals"]["calls"], &other["byDay"]), (&zero["paidCalls"], &serde_json::json!([])));
}

#[tokio::test]
async fn sales_are_folded_automatically_once_started() {
    let sales = Sales::new(Arc::new(MemoryStore::new()));
    sales.start();
    let owner = builder();
    let sale = Sale { endpoint: EndpointId::generate(), slug: slug(1), totals: SaleTotals::FREE };
    // Twice, because rows after the first fold belong to another one.
    for round in ["a", "b"] {
        let rows = (0..3).map(|n| sale.row(&owner, NOW, &format!("{round}{n}"))).fold(Batch::new(), Batch::and);
        tokio::time::sleep(Duration::from_millis(50)).await;
        rows.commit(&*sales.store, Durability::Buffered).await.unwrap();
        sales.sold(&owner);
        let folded = async {
            while SALES.count(&*sales.store, &SALES.all(), 10).await.unwrap() > 1 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), folded).await.unwrap();
    }
}

/// A store as one replica sees it, which blocks after each scan until it is released.
struct DelayedStore {
    inner: Arc<MemoryStore>,
    scanned: Semaphore,
    permits: Semaphore,
}

#[async_trait]
impl StoreWrapper for DelayedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn on_scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        let found = self.inner.scan(space, range, limit, direction).await;
        self.scanned.add_permits(1);
        self.permits.acquire().await.unwrap().forget();
        found
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.inner.apply(batch, durability).await
    }
}

#[tokio::test]
async fn two_replicas_fold_each_row_once() {
    let inner = Arc::new(MemoryStore::new());
    let (owner, endpoint) = (builder(), EndpointId::generate());
    let sell = async |at: u64, id: &str| {
        let sale = Sale { endpoint: endpoint.clone(), slug: slug(1), totals: SaleTotals::paid(MicroUsd(10_000), MicroUsd(500)) };
        inner.apply(sale.row(&owner, Timestamp(at), id), Durability::Buffered).await.unwrap();
    };
    let replica = || {
        let store = Arc::new(DelayedStore { inner: Arc::clone(&inner), scanned: Semaphore::new(0), permits: Semaphore::new(0) });
        let (folding, share) = (Arc::clone(&store), owner.share().to_owned());
        let folds = tokio::spawn(async move { update(&*folding, Durability::Buffered, |tx| fold_some(tx, &share)).await });
        (store, folds)
    };
    sell(NOW.0, "b").await;
    let (first, folds) = replica();
    first.scanned.acquire().await.unwrap().forget();
    // From a clock that is behind: its key precedes those that the first replica deletes.
    sell(NOW.0 - 1, "a").await;
    let (second, folds_too) = replica();
    second.scanned.acquire().await.unwrap().forget();
    first.permits.add_permits(10);
    assert!(!folds.await.unwrap().unwrap().is_empty());
    second.permits.add_permits(10);
    assert!(!folds_too.await.unwrap().unwrap().is_empty());
    let report = Sales::new(inner.clone()).report(&owner, NOW, ReportDetail::Sums).await.unwrap();
    assert_eq!((report.totals.calls, report.totals.gross_usd), (2, MicroUsd(20_000)));
}

#[test]
fn sale_that_earns_the_builder_nothing_does_not_wait_for_a_payout() {
    let (id, waits) = (ReceiptId::generate(), |net| UnpaidSale { net, at_ms: NOW.0 });
    assert!(waits(0).stored(&builder(), &id).changes_nothing());
    assert!(waits(1).stored(&Owner::Platform, &id).changes_nothing());
    assert!(!waits(1).stored(&builder(), &id).changes_nothing());
}

/// Makes random calls of three owners, folds that fail before, after and during their commits, and reports in between.
/// Each report must equal the sales so far.
#[tokio::test]
async fn every_report_equals_the_sales() {
    for seed in 1..=40_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let sales = Sales::new(Arc::clone(&store) as _);
        let owners = [builder(), builder(), Owner::Platform];
        let endpoints: Vec<_> = (0..3).map(|_| EndpointId::generate()).collect();
        let mut sold: Vec<(usize, u64, u64, SaleTotals)> = vec![];
        for step in 0..300_u64 {
            match random.u64(..10) {
                0 => {
                    let fault = *random.choice(&[None, Some(Fault::Before), Some(Fault::After), Some(Fault::Lost)]).unwrap();
                    if let Some(fault) = fault {
                        store.fail_nth(1 + random.u64(..2), fault);
                    }
                    _ = sales.fold(owners[random.usize(..3)].share()).await;
                    store.heal();
                }
                1 => sales.fold_left(NOW).await.unwrap(),
                _ => {
                    let (who, which, ago) = (random.usize(..3), random.u64(..3), random.u64(..4));
                    let price = MicroUsd(random.u64(..100_000));
                    let totals = match random.u64(..3) {
                        0 => SaleTotals::FAILED,
                        1 => SaleTotals::FREE,
                        _ => SaleTotals::paid(price, FeeBps(500).of(price, &owners[who])),
                    };
                    let sale = Sale { endpoint: endpoints[which as usize].clone(), slug: slug(which), totals };
                    let row = sale.row(&owners[who], Timestamp(NOW.0 - ago * DAY), &step.to_string());
                    store.inner().apply(row, Durability::Buffered).await.unwrap();
                    sold.push((who, which, ago, totals));
                }
            }
            if step % 7 == 0 {
                for (who, owner) in owners.iter().enumerate() {
                    let within = random.u64(..4);
                    let report = sales.report(owner, Timestamp(NOW.0 - within * DAY), ReportDetail::Sums).await.unwrap();
                    let sum = |requested: &dyn Fn(u64, u64) -> bool| {
                        let mut sum = SaleTotals::default();
                        for (_, which, ago, totals) in sold.iter().filter(|sale| sale.0 == who && sale.2 <= within) {
                            if requested(*which, *ago) {
                                sum += *totals;
                            }
                        }
                        RevenueTotals::from(sum)
                    };
                    assert_eq!(report.totals, sum(&|_, _| true), "seed {seed}, step {step}");
                    for line in &report.by_endpoint {
                        assert_eq!(line.totals, sum(&|which, _| slug(which) == line.endpoint_slug), "seed {seed}, step {step}");
                    }
                    let calls: u64 = report.by_day.iter().map(|day| day.totals.calls).sum();
                    let net: u64 = report.by_day.iter().map(|day| day.totals.net_usd.0).sum();
                    assert_eq!((calls, net), (report.totals.calls, report.totals.net_usd.0), "seed {seed}, step {step}");
                }
            }
        }
        sales.fold_left(NOW).await.unwrap();
        let remaining = SALES.count(&*store, &SALES.all(), 10_000).await.unwrap();
        assert!(remaining <= 3 * 3 * 4, "seed {seed}: {remaining} roll-ups and rows");
    }
}

/// Two hosts and three owners: sales and failing folds in any order. The host's report must equal all sales.
#[tokio::test]
async fn host_report_equals_all_sales() {
    for seed in 1..=60_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let hosts = [Sales::new(Arc::clone(&store) as _), Sales::new(Arc::clone(&store) as _)];
        let owners = [builder(), builder(), Owner::Platform];
        let endpoint = EndpointId::generate();
        let mut sold: Vec<(u64, SaleTotals)> = vec![];
        for step in 0..120_u64 {
            let (sales, owner) = (&hosts[random.usize(..2)], &owners[random.usize(..3)]);
            let ago = *random.choice(&[0, 1, 30, 33, 70, 100]).unwrap();
            let (at, price) = (Timestamp(NOW.0 - ago * DAY), MicroUsd(random.u64(..100_000)));
            let sale = Sale { endpoint: endpoint.clone(), slug: slug(1), totals: SaleTotals::paid(price, FeeBps(500).of(price, owner)) };
            match random.u64(..10) {
                3 => {
                    let fault = *random.choice(&[None, Some(Fault::Before), Some(Fault::After), Some(Fault::Lost)]).unwrap();
                    if let Some(fault) = fault {
                        store.fail_nth(1 + random.u64(..2), fault);
                    }
                    _ = sales.fold(owner.share()).await;
                    store.heal();
                }
                _ => {
                    let row = sales.row(&sale, owner, at, &step.to_string());
                    store.inner().apply(row, Durability::Buffered).await.unwrap();
                    sold.push((ago, sale.totals));
                }
            }
            let within = *random.choice(&[0, 1, 30, 40, 100]).unwrap();
            let mut sum = SaleTotals::default();
            sold.iter().filter(|(ago, _)| *ago <= within).for_each(|(_, totals)| sum += *totals);
            let report = hosts[random.usize(..2)].host_report(Timestamp(NOW.0 - within * DAY)).await.unwrap();
            assert_eq!(report.totals, RevenueTotals::from(sum), "seed {seed}, step {step}");
        }
    }
}

#[tokio::test]
async fn unlisted_seller_is_reported() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let sales = Sales::new(Arc::clone(&store));
    let (sale, owner) = (Sale { endpoint: EndpointId::generate(), slug: slug(1), totals: SaleTotals::FREE }, builder());
    sales.row(&sale, &owner, NOW, "a").commit(&*store, Durability::Buffered).await.unwrap();
    sale.row(&builder(), NOW, "b").commit(&*store, Durability::Buffered).await.unwrap();
    let mut flaws = CheckReport::default();
    check_sellers(&*store, &mut flaws).await.unwrap();
    assert_eq!((flaws.count, flaws.checked_count), (1, 2), "{:?}", flaws.listed);
    assert_eq!(sales.host_report(NOW).await.unwrap().totals.calls, 1);
}
