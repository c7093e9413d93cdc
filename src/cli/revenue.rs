//! `tollhouse revenue`: shows the revenue of a builder's own tools, and for admins that of the host.

use tollhouse_api::{EndpointRevenue, HostRevenue, Revenue, RevenueTotals};
use tollhouse_base::clock::Timestamp;

use super::base::{CredentialChoice, Result, Session, Table, usd};

/// Arguments of `revenue`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// First UTC day, for example `30d` (ago) or `2026-11-22`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show each tool day by day
    #[arg(long, conflicts_with = "host")]
    daily: bool,
    /// Builder (admins)
    #[arg(long, value_name = "ID")]
    builder: Option<String>,
    /// Show the host's revenue: own tools and fees (admins)
    #[arg(long, conflicts_with = "builder")]
    host: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let since = if args.host { host(session, &args).await? } else { own(session, &args).await? };
    if let Some(since) = since {
        session.out.note(&format!("since {since}, in whole UTC days"));
    }
    Ok(())
}

/// Prints the revenue of the host, and returns since when, unless the output is a document.
async fn host(session: &Session, args: &Args) -> Result<Option<Timestamp>> {
    let asking = session.client.get(&["ai", "admin", "revenue"]).by(CredentialChoice::Admin).query_opt("since", args.since.as_ref());
    let revenue: HostRevenue = asking.send().await?.body;
    if session.out.json {
        return session.out.document(&revenue).map(|()| None);
    }
    let mut table = table("", &revenue.by_endpoint);
    for (name, totals) in [("own tools", &revenue.own), ("builders' tools", &revenue.builders), ("all", &revenue.totals)] {
        table.row(row(name, "", totals));
    }
    session.out.text(&table.text())?;
    session.out.text(&format!("revenue of the host: {}\n", usd(revenue.revenue_usd)))?;
    Ok(Some(revenue.since))
}

/// Prints the revenue of a builder, and returns since when, unless the output is a document.
async fn own(session: &Session, args: &Args) -> Result<Option<Timestamp>> {
    let asking = session.client.get(&["ai", "builders", "revenue"]).query_opt("builderId", args.builder.as_ref());
    let asking = asking.query_opt("daily", args.daily.then_some(true)).query_opt("since", args.since.as_ref());
    let revenue: Revenue = asking.send().await?.body;
    if session.out.json {
        return session.out.document(&revenue).map(|()| None);
    }
    let mut table = table(if args.daily { "day" } else { "" }, &revenue.by_endpoint);
    for day in revenue.by_day.iter().filter(|_| args.daily) {
        table.row(row("all", &day.day, &day.totals));
    }
    table.row(row("all", "", &revenue.totals));
    session.out.text(&table.text())?;
    Ok(Some(revenue.since))
}

/// Returns a table of tools, each with its days if there are any.
fn table(day: &'static str, tools: &[EndpointRevenue]) -> Table {
    let mut table = Table::new(&["tool", day, ">calls", ">failed", ">paid", ">gross", ">fees", ">refunded", ">net"]);
    for tool in tools {
        table.row(row(tool.endpoint_slug.as_str(), "", &tool.totals));
        for (day, calls) in tool.calls_by_day.iter().flatten() {
            let failed = tool.failed_by_day.as_ref().and_then(|failed| failed.get(day)).copied().unwrap_or_default();
            table.row(["", day, &calls.to_string(), &failed.to_string(), "", "", "", "", ""]);
        }
    }
    table
}

fn row(name: &str, day: &str, sums: &RevenueTotals) -> [String; 9] {
    let [calls, failed, paid] = [sums.calls, sums.failed_calls, sums.paid_calls].map(|count| count.to_string());
    let [gross, fees, refunded, net] = [sums.gross_usd, sums.fees_usd, sums.refunded_usd, sums.net_usd].map(usd);
    [name.to_owned(), day.to_owned(), calls, failed, paid, gross, fees, refunded, net]
}
