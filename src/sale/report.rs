//! What an owner earned: totals, by endpoint, by day.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ROLL_UP, Sale, Sales, Totals, begin, day, day_of, prefix};
use crate::{
    clock::Timestamp,
    store::{Direction, KeyRange, Space, StoreError},
    tool::{MicroUsd, Owner, Slug},
};

/// Revenue of whole UTC days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The start of the first day counted.
    pub since: Timestamp,
    pub totals: Line,
    /// In order of their slugs.
    pub by_endpoint: Vec<EndpointLine>,
    /// Days with calls, oldest first.
    pub by_day: Vec<DayLine>,
}

/// One line of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Runs, succeeded and failed.
    pub calls: u64,
    pub paid_calls: u64,
    pub failed_calls: u64,
    pub gross_usd: MicroUsd,
    pub fees_usd: MicroUsd,
    pub net_usd: MicroUsd,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointLine {
    pub endpoint_slug: Slug,
    #[serde(flatten)]
    pub line: Line,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DayLine {
    /// Such as `2026-11-21`.
    pub day: String,
    #[serde(flatten)]
    pub line: Line,
}

impl From<Totals> for Line {
    fn from(totals: Totals) -> Self {
        Self {
            calls: totals.calls,
            paid_calls: totals.paid_calls,
            failed_calls: totals.failed_calls,
            gross_usd: MicroUsd(totals.gross),
            fees_usd: MicroUsd(totals.fees),
            net_usd: MicroUsd(totals.net),
        }
    }
}

impl Sales {
    /// The sales of `owner` from the UTC day of `since` on.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn report(&self, owner: &Owner, since: Timestamp) -> Result<Report, StoreError> {
        let (share, first) = (owner.share(), day(since));
        let mut range = KeyRange::prefix(&prefix(share, &[]));
        range.start = std::ops::Bound::Included([&prefix(share, &[ROLL_UP])[..], &first.to_be_bytes()].concat());
        // One scan, however much there is: rows are folded meanwhile, and two scans could see one twice or never.
        let pairs = self.store.scan(Space::Sales, range, usize::MAX, Direction::Forward).await?;
        let skip = prefix(share, &[]).len();
        let (mut totals, mut endpoints, mut days) = (Totals::default(), BTreeMap::<Slug, Totals>::new(), BTreeMap::<u32, Totals>::new());
        for (key, bytes) in &pairs {
            let read = Sale::decode(bytes).zip(day_of(&key[skip..]));
            let (sale, day) = read.ok_or_else(|| StoreError::Away("the sales do not read".to_owned()))?;
            if day < first {
                continue;
            }
            totals += sale.totals;
            *endpoints.entry(sale.slug).or_default() += sale.totals;
            *days.entry(day).or_default() += sale.totals;
        }
        let by_endpoint = endpoints.into_iter().map(|(endpoint_slug, totals)| EndpointLine { endpoint_slug, line: totals.into() });
        let by_day = days.into_iter().map(|(day, totals)| DayLine { day: label(day), line: totals.into() });
        Ok(Report { since: begin(first), totals: totals.into(), by_endpoint: by_endpoint.collect(), by_day: by_day.collect() })
    }
}

fn label(day: u32) -> String {
    begin(day).to_string().chars().take_while(|letter| *letter != 'T').collect()
}
