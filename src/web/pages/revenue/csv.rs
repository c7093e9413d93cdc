//! `/dashboard/revenue.csv`: the report as CSV, from the same answer as the page.

use std::fmt::Write as _;

use tollhouse_api::{Revenue, RevenueTotals};

use super::report::{SUMS, Sum, parse, path};
use crate::{Body, HeaderValue, PageResult, RawQuery, Response, SignedIn, header, set_security_headers};

/// Returns the report by day, or by tool with `by=tool`.
pub(crate) async fn csv(SignedIn(visitor): SignedIn, RawQuery(raw): RawQuery) -> PageResult {
    let query = parse(raw.as_deref());
    let report = visitor.get::<Revenue>(&path(&query)).await?;
    let (text, file) = if query.get("by") == "tool" {
        let rows = report.by_endpoint.iter().map(|line| (line.endpoint_slug.as_str(), &line.totals));
        (visitor.render(|| lines("endpointSlug", rows)).await?, "attachment; filename=\"revenue-by-tool.csv\"")
    } else {
        let rows = report.by_day.iter().map(|line| (&*line.day, &line.totals));
        (visitor.render(|| lines("day", rows)).await?, "attachment; filename=\"revenue-by-day.csv\"")
    };
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    set_security_headers(headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(file));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Returns a header and one line for each entry. Slugs, days and numbers contain nothing that a
/// spreadsheet would interpret.
fn lines<'a>(name: &str, rows: impl Iterator<Item = (&'a str, &'a RevenueTotals)>) -> String {
    let mut text = name.to_owned();
    SUMS.iter().for_each(|(sum, ..)| _ = write!(text, ",{sum}"));
    text.push_str("\r\n");
    for (key, totals) in rows {
        text.push_str(key);
        for (_, _, sum) in SUMS {
            _ = match sum {
                Sum::Count(count) => write!(text, ",{}", count(totals)),
                Sum::Amount(amount) => write!(text, ",{}", amount(totals)),
            };
        }
        text.push_str("\r\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use tollhouse_tool::MicroUsd;

    use super::*;

    #[test]
    fn amounts_have_no_exponent() {
        let totals = RevenueTotals {
            calls: 3,
            paid_calls: 1,
            failed_calls: 2,
            gross_usd: MicroUsd(1),
            refunded_usd: MicroUsd(0),
            fees_usd: MicroUsd(500_000),
            net_usd: MicroUsd(12_000_000),
        };
        let expected = "day,calls,paidCalls,failedCalls,grossUsd,refundedUsd,feesUsd,netUsd\r\n2026-11-21,3,1,2,0.000001,0,0.5,12\r\n";
        assert_eq!(lines("day", [("2026-11-21", &totals)].into_iter()), expected);
    }
}
