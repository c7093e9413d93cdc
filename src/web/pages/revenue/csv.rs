//! `/dashboard/revenue.csv`: the report as CSV, from the same answer as the page.

use std::fmt::Write as _;

use axum::{
    body::Body,
    extract::RawQuery,
    http::{HeaderValue, header},
    response::Response,
};
use serde_json::Value;

use super::report::{SUMS, asked, path};
use crate::{
    host_checks::seal,
    visitor::{ApiRefusal, SignedIn},
};

/// Kinds of reports: value of `by`, list of the report, name of its key, file name.
const KINDS: [(&str, &str, &str, &str); 2] = [
    ("day", "byDay", "day", "attachment; filename=\"revenue-by-day.csv\""),
    ("tool", "byEndpoint", "endpointSlug", "attachment; filename=\"revenue-by-tool.csv\""),
];

/// Returns the report by day, or as `by` says.
pub(crate) async fn csv(SignedIn(visitor): SignedIn, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = asked(query.as_deref());
    let report = visitor.get(&path(&request)).await?;
    let (_, list, name, file) = KINDS.into_iter().find(|(by, ..)| *by == request.get("by")).unwrap_or(KINDS[0]);
    let text = visitor.made(|| lines(&report[list], name)).await?;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    seal(headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(file));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Returns a header and one line for each entry. Slugs, days and numbers contain nothing that a
/// spreadsheet would interpret.
fn lines(list: &Value, name: &str) -> String {
    let mut text = name.to_owned();
    SUMS.iter().for_each(|(sum, ..)| _ = write!(text, ",{sum}"));
    text.push_str("\r\n");
    for line in list.as_array().into_iter().flatten() {
        text.push_str(line[name].as_str().unwrap_or_default());
        SUMS.iter().for_each(|(sum, ..)| _ = write!(text, ",{}", decimal(&line[sum])));
        text.push_str("\r\n");
    }
    text
}

/// Formats a number without an exponent.
fn decimal(number: &Value) -> String {
    number.as_f64().map_or_else(String::new, |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_micro_dollar_is_written_out() {
        let line = json!({ "day": "2026-11-21", "calls": 3, "paidCalls": 1, "failedCalls": 2, "grossUsd": 1e-6, "refundedUsd": 0, "feesUsd": 0.5, "netUsd": 12 });
        let requested = "day,calls,paidCalls,failedCalls,grossUsd,refundedUsd,feesUsd,netUsd\r\n2026-11-21,3,1,2,0.000001,0,0.5,12\r\n";
        assert_eq!(lines(&json!([line]), "day"), requested);
    }
}
