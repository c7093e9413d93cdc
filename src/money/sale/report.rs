//! Revenue reports of owners and of the host: totals, by tool, by day.
//!
//! An index lists sellers: the owners with sales in an interval of days. The host's report uses it to skip all others.
//! The commit of a sale also lists its seller, unless this host knows that it is listed.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tollhouse_api::{DayRevenue, EndpointRevenue, HostDayRevenue, HostRevenue, Revenue, RevenueTotals, True};
use tollhouse_base::{boxed, check_report::CheckReport, clock::Timestamp};
use tollhouse_store::{Batch, Direction, RawRow, SaleKey, Store, StoreError, Table, TerminatedText, postcard_values, schema};
use tollhouse_tool::{MicroUsd, Owner, Slug};

use super::{SALES, SaleTotals, Sales, begin, day, day_of, of};

/// Number of owners read concurrently for the host's report. It is low so that calls can read meanwhile.
const AT_ONCE: usize = 2;

pub(super) const PAGE: usize = 1_000;

/// Number of rows read at first from days whose rows are not folded yet. A host usually has fewer; if it has more, the number
/// is doubled until it is enough.
pub(super) const TAIL: usize = 8_000;

/// The level of detail per tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportDetail {
    /// Totals only.
    Sums,
    /// Totals and calls by day.
    Daily,
}

#[derive(Default)]
struct OwnerSums {
    totals: SaleTotals,
    endpoints: BTreeMap<Slug, EndpointSums>,
    days: BTreeMap<u32, SaleTotals>,
}

#[derive(Default)]
struct EndpointSums {
    totals: SaleTotals,
    /// Calls and failures per day, if requested.
    days: BTreeMap<u32, [u64; 2]>,
}

impl OwnerSums {
    /// Adds an owner's rows from day `first` on, on a blocking thread, because there may be many.
    async fn with(self, first: u32, rows: Vec<RawRow>, detail: ReportDetail) -> Result<Self, StoreError> {
        let added = tokio::task::spawn_blocking(move || self.added(first, rows, detail)).await;
        added.unwrap_or_else(|_| Err(StoreError::Away("the sales could not be added up".to_owned())))
    }

    fn added(mut self, first: u32, rows: Vec<RawRow>, detail: ReportDetail) -> Result<Self, StoreError> {
        let sums = &mut self;
        for row in rows {
            let row = SALES.read(row)?;
            let (sale, day) = (row.value, day_of(&row.key.1));
            if day < first {
                continue;
            }
            sums.totals += sale.totals;
            let endpoint = sums.endpoints.entry(sale.slug).or_default();
            endpoint.totals += sale.totals;
            if detail == ReportDetail::Daily && sale.totals.calls > 0 {
                let [calls, failed] = endpoint.days.entry(day).or_default();
                (*calls, *failed) = (*calls + sale.totals.calls, *failed + sale.totals.failed_calls);
            }
            *sums.days.entry(day).or_default() += sale.totals;
        }
        Ok(self)
    }

    fn by_endpoint(self, detail: ReportDetail) -> Vec<EndpointRevenue> {
        let line = |(endpoint_slug, EndpointSums { totals, days })| {
            let daily = (detail == ReportDetail::Daily).then(|| (daily(&days, 0), daily(&days, 1)));
            let (calls_by_day, failed_by_day) = daily.unzip();
            EndpointRevenue { endpoint_slug, totals: totals.into(), calls_by_day, failed_by_day }
        };
        self.endpoints.into_iter().map(line).collect()
    }
}

/// Returns one of the two counts by day, for days on which it is not zero.
fn daily(days: &BTreeMap<u32, [u64; 2]>, which: usize) -> BTreeMap<String, u64> {
    days.iter().filter(|(_, counts)| counts[which] > 0).map(|(day, counts)| (label(*day), counts[which])).collect()
}

impl From<SaleTotals> for RevenueTotals {
    fn from(totals: SaleTotals) -> Self {
        Self {
            calls: totals.calls,
            paid_calls: totals.paid_calls,
            failed_calls: totals.failed_calls,
            gross_usd: MicroUsd(totals.gross),
            refunded_usd: MicroUsd(totals.refunded),
            fees_usd: MicroUsd(totals.fees_after_refunds()),
            net_usd: MicroUsd(totals.net_after_refunds()),
        }
    }
}

impl Sales {
    /// Returns the sales of `owner` from the UTC day of `since` on.
    #[boxed]
    pub async fn report(&self, owner: &Owner, since: Timestamp, detail: ReportDetail) -> Result<Revenue, StoreError> {
        let first = day(since);
        let sums = self.sums(owner.share(), first, detail).await?;
        let by_day = sums.days.iter().map(|(day, totals)| day_revenue(*day, *totals)).collect();
        Ok(Revenue { ok: True, since: begin(first), totals: sums.totals.into(), by_day, by_endpoint: sums.by_endpoint(detail) })
    }

    /// Returns the host's revenue from the UTC day of `since` on.
    #[boxed]
    pub async fn host_report(&self, since: Timestamp) -> Result<HostRevenue, StoreError> {
        let first = day(since);
        let (mut builders, mut own, mut days) = (SaleTotals::default(), OwnerSums::default(), BTreeMap::<u32, (SaleTotals, u64)>::new());
        let sellers = stream::iter(self.sellers(first).await?);
        let mut sums =
            sellers.map(async |share| Ok((self.sums(&share, first, ReportDetail::Sums).await?, share))).buffer_unordered(AT_ONCE);
        while let Some((sums, share)) = sums.try_next().await? {
            let is_own = share == Owner::Platform.share();
            for (day, totals) in &sums.days {
                let (all, revenue) = days.entry(*day).or_default();
                *all += *totals;
                *revenue += if is_own { totals.net_after_refunds() } else { totals.fees_after_refunds() };
            }
            if is_own {
                own = sums;
            } else {
                builders += sums.totals;
            }
        }
        let mut totals = builders;
        totals += own.totals;
        let by_day = days
            .into_iter()
            .map(|(day, (totals, revenue))| HostDayRevenue { revenue_usd: MicroUsd(revenue), day: day_revenue(day, totals) });
        Ok(HostRevenue {
            ok: True,
            since: begin(first),
            revenue_usd: MicroUsd(own.totals.net_after_refunds().saturating_add(builders.fees_after_refunds())),
            totals: totals.into(),
            builders: builders.into(),
            own: own.totals.into(),
            by_endpoint: own.by_endpoint(ReportDetail::Sums),
            by_day: by_day.collect(),
        })
    }

    /// Sums an owner's sales. Days without rows are read page by page, the others in one scan: rows are folded
    /// meanwhile, so two scans could see one twice or never. So each call from before the start is counted once.
    async fn sums(&self, share: &str, first: u32, detail: ReportDetail) -> Result<OwnerSums, StoreError> {
        let rows = SALES.under(&(of(share), SaleKey::ROW));
        let all = SALES.under(&of(share)).from(&(of(share), SaleKey::ROLL_UP, first));
        // Rows are sorted by day.
        let (mut folded, tail) = match SALES.first(&*self.store, &rows).await?.map(|(_, key)| day_of(&key).max(first)) {
            Some(day) => {
                let day = (of(share), SaleKey::ROLL_UP, day);
                (all.clone().before(&day), Some(all.from(&day)))
            }
            // Later rows are not part of the report.
            None => (all.before(&(of(share), SaleKey::ROW)), None),
        };
        let mut sums = OwnerSums::default();
        while !folded.is_empty() {
            let page = SALES.unread(&*self.store, &folded, PAGE, Direction::Forward).await?;
            let Some(last) = page.last().filter(|_| page.len() == PAGE) else {
                sums = sums.with(first, page, detail).await?;
                break;
            };
            folded = folded.after(&SALES.key(last)?);
            sums = sums.with(first, page, detail).await?;
        }
        let (Some(tail), mut max) = (tail, TAIL) else { return Ok(sums) };
        loop {
            let page = SALES.unread(&*self.store, &tail, max, Direction::Forward).await?;
            if page.len() < max {
                return sums.with(first, page, detail).await;
            }
            max *= 2;
        }
    }
}

fn day_revenue(day: u32, totals: SaleTotals) -> DayRevenue {
    DayRevenue { day: label(day), totals: totals.into() }
}

fn label(day: u32) -> String {
    begin(day).to_string().chars().take_while(|letter| *letter != 'T').collect()
}

/// The key is the interval and the owner.
pub(super) const SELLERS: Table<(u32, TerminatedText<String>), Seller> = schema::SELLERS.holding();

const INTERVAL_DAYS: u32 = 32;

/// Marks an owner with sales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seller;
postcard_values!(Seller);

pub(super) fn interval(day: u32) -> u32 {
    day / INTERVAL_DAYS
}

impl Sales {
    /// Returns the row that lists the seller of a sale, unless this host knows that it is listed.
    pub(super) fn seller(&self, share: &str, key: &SaleKey) -> Batch {
        let interval = interval(day_of(key));
        if self.listed.has(interval, share) { Batch::new() } else { SELLERS.put(&(interval, of(share)), &Seller) }
    }

    /// Remembers that an owner is listed in these intervals.
    pub(super) fn cache_seller(&self, share: &str, intervals: &BTreeSet<u32>) {
        intervals.iter().for_each(|interval| self.listed.insert(*interval, share));
    }

    /// Returns the owners who may have sales since the start of day `first`.
    pub(super) async fn sellers(&self, first: u32) -> Result<BTreeSet<String>, StoreError> {
        let (mut sellers, mut rest) = (BTreeSet::new(), SELLERS.all().from(&interval(first)));
        loop {
            let page = SELLERS.unread(&*self.store, &rest, PAGE, Direction::Forward).await?;
            for row in &page {
                sellers.insert(SELLERS.key(row)?.1.0);
            }
            let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(sellers) };
            rest = rest.after(&SELLERS.key(last)?);
        }
    }
}

/// Compares the list of sellers with the sales.
/// An unreadable row is reported as a flaw.
#[boxed]
pub async fn check_sellers(store: &dyn Store, flaws: &mut CheckReport) -> Result<(), StoreError> {
    let (mut rows, mut before) = (SALES.inspect(store, PAGE), None);
    while let Some(row) = rows.next(flaws).await? {
        let seller = (interval(day_of(&row.key.1)), row.key.0);
        if before.as_ref() != Some(&seller) {
            let listed = SELLERS.get(store, &seller).await?.is_some();
            flaws.unless(listed, || format!("{} sold something, but is not listed", seller.1.0));
            before = Some(seller);
        }
    }
    Ok(())
}
