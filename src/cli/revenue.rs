//! `tollhouse revenue`: shows the revenue of a builder's own tools, and for admins that of the host.

use serde_json::{Value, json};

use super::base::{
    client::CredentialChoice,
    error::Result,
    session::Session,
    table::Table,
    text::{any, list, text, usd},
};

/// Arguments of `revenue`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// From which UTC day on: so long ago, such as `30d`, or itself, such as `2026-11-22`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Each endpoint day by day
    #[arg(long, conflicts_with = "host")]
    daily: bool,
    /// Builder (admins)
    #[arg(long, value_name = "ID")]
    builder: Option<String>,
    /// What the host itself earned: its own endpoints and the fees of builders' (admins)
    #[arg(long, conflicts_with = "builder")]
    host: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let asking = if args.host {
        session.client.get(&["ai", "admin", "revenue"]).by(CredentialChoice::Admin)
    } else {
        let asking = session.client.get(&["ai", "builders", "revenue"]).query_opt("builderId", args.builder.as_ref());
        if args.daily { asking.query("daily", true) } else { asking }
    };
    let answer = asking.query_opt("since", args.since.as_ref()).send().await?.body;
    if session.out.json {
        return session.out.document(&answer);
    }
    let name = if args.daily { "day" } else { "" };
    let mut table = Table::new(&["endpoint", name, ">calls", ">failed", ">paid", ">gross", ">fees", ">refunded", ">net"]);
    for sums in list(&answer, "byEndpoint") {
        table.row(row(text(sums, "endpointSlug"), "", sums));
        for (day, calls) in sums["callsByDay"].as_object().into_iter().flatten() {
            let counts = json!({ "calls": calls, "failedCalls": sums["failedByDay"][day].as_u64().unwrap_or_default() });
            table.row(row("", day, &counts));
        }
    }
    if args.host {
        table.row(row("own endpoints", "", &answer["own"]));
        table.row(row("of builders", "", &answer["builders"]));
    }
    if args.daily {
        for day in list(&answer, "byDay") {
            table.row(row("all", text(day, "day"), day));
        }
    }
    table.row(row("all", "", &answer["totals"]));
    session.out.text(&table.text())?;
    if args.host {
        session.out.text(&format!("the host's own: {}\n", usd(&answer, "revenueUsd")))?;
    }
    session.out.note(&format!("since {}, in whole days of UTC", super::base::sanitize::line(text(&answer, "since"))));
    Ok(())
}

fn row(name: &str, day: &str, sums: &Value) -> Vec<String> {
    let counts = ["calls", "failedCalls", "paidCalls"].map(|member| any(sums, member));
    let amounts = ["grossUsd", "feesUsd", "refundedUsd", "netUsd"].map(|member| usd(sums, member));
    [name.to_owned(), day.to_owned()].into_iter().chain(counts).chain(amounts).collect()
}
