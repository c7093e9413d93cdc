//! `tollhouse host`, `metrics`, `receipt`, `payment` and `refund`: the state of a host, metrics of calls, and the fate of money.

use serde_json::{Value, json};
use tollhouse_tool::Slug;

use super::base::{
    client::CredentialChoice,
    error::{Error, Exit, Result},
    paging::{self, PageArgs},
    sanitize::{json_for_people, line},
    session::Session,
    table::{FactList, Table},
    text::{any, list, moment, text, usd},
};

/// A host itself.
#[derive(clap::Subcommand)]
pub(crate) enum Host {
    /// What is in force, and what there is.
    Health,
    /// Whether it takes calls; exit code 5 where it does not.
    Ready,
    /// What it offers to programs, and its limits.
    Manifest,
    /// What is not published there, and how that is judged.
    Safety,
    /// The keys that its receipts are signed with.
    Keys,
    /// What the sandbox did for each endpoint since the process started (admins).
    Runtime(LimitArg),
    /// The accounts of the ledger, and whether they agree with what they are the sums of (admins).
    Ledger(PageArgs),
    /// Scans builders' endpoints by the rules in force (admins).
    Rescan,
}

/// How many.
#[derive(clap::Args)]
pub(crate) struct LimitArg {
    /// Most endpoints
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
}

/// Arguments of `metrics`.
#[derive(clap::Args)]
pub(crate) struct MetricsArgs {
    /// Endpoint [default: that of the folder]
    #[arg(conflicts_with = "host")]
    slug: Option<Slug>,
    /// Of all endpoints (admins)
    #[arg(long)]
    host: bool,
    /// What everyone sees: calls and times by day
    #[arg(long, conflicts_with_all = ["host", "since", "until", "step"])]
    public: bool,
    /// From when on, such as `24h` ago
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Up to when
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// How wide a bucket is, such as `1h`
    #[arg(long)]
    step: Option<String>,
}

/// Arguments of `receipt` and `payment`.
#[derive(clap::Args)]
pub(crate) struct IdArgs {
    /// Its id
    id: String,
}

/// Arguments of `refund`.
#[derive(clap::Args)]
pub(crate) struct RefundArgs {
    /// Receipt of what was paid
    receipt: String,
    /// US dollars [default: all that is left]
    #[arg(long, value_name = "USD")]
    amount: Option<f64>,
    /// Why
    #[arg(long)]
    reason: Option<String>,
    /// Transaction that sent it back, of what was paid with x402
    #[arg(long, value_name = "HASH")]
    transaction: Option<String>,
    /// The same for each attempt of one refund, which then happens once
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(session: &Session, command: Option<Host>) -> Result {
    let open = |path: &'static [&'static str]| session.client.get(path).by(CredentialChoice::Everyone).send();
    match command {
        None | Some(Host::Health) => session.out.print(&open(&["health"]).await?.body, health),
        Some(Host::Ready) => session.out.print(&open(&["health", "ready"]).await?.body, |_| "it takes calls\n".to_owned()),
        Some(Host::Manifest) => document(session, &open(&["ai", "manifest"]).await?.body),
        Some(Host::Safety) => document(session, &open(&["ai", "content-safety", "policy"]).await?.body),
        Some(Host::Keys) => document(session, &open(&[".well-known", "jwks.json"]).await?.body),
        Some(Host::Runtime(max)) => runtime(session, &max).await,
        Some(Host::Ledger(paging)) => ledger(session, &paging).await,
        Some(Host::Rescan) => {
            let answer = session.client.post(&["ai", "admin", "rescan"]).by(CredentialChoice::Admin).send().await?.body;
            session.out.print(&answer, |answer| {
                let found = &answer["rescan"];
                format!(
                    "{} endpoints were scanned: {} wait for a review, {} are blocked\n",
                    found["endpoints"], found["review"], found["blocked"]
                )
            })
        }
    }
}

/// Prints a document in full, because it has no shorter form.
fn document(session: &Session, body: &Value) -> Result {
    session.out.print(body, |body| json_for_people(body) + "\n")
}

fn health(health: &Value) -> String {
    let mut facts = FactList::default();
    facts.add("version", text(health, "version"));
    for accepted in list(health, "payment.accepts") {
        let asset = text(accepted, "asset.symbol");
        facts.add("paid in", format!("{asset} on {}, settled by {}", text(accepted, "network"), text(accepted, "facilitator")));
    }
    facts.add("open settlements", any(health, "openSettlements"));
    facts.add("unresolved settlements", any(health, "unresolvedSettlements"));
    let sandbox = ["workers", "running", "queued"].map(|member| format!("{} {member}", health["sandbox"][member]));
    facts.add("sandbox", sandbox.join(", "));
    facts.add("jail", list(health, "sandbox.jail").filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    facts.add("workers fail", text(health, "sandbox.startsFail"));
    facts.add("hosts", list(health, "replicas").filter(|replica| replica["lives"] == true).count().to_string());
    facts.add("store", any(health, "stored.backend"));
    facts.add("connections", any(health, "intake.connections"));
    facts.text()
}

async fn runtime(session: &Session, max: &LimitArg) -> Result {
    let answer = session.client.get(&["ai", "admin", "runtime"]).by(CredentialChoice::Admin).query("limit", max.limit).send().await?.body;
    if session.out.json {
        return session.out.document(&answer);
    }
    let mut table = Table::new(&["endpoint", ">calls", ">cold", ">running", ">refused", ">stops", ">cpu ms"]);
    for one in list(&answer, "endpoints") {
        let mut row = vec![text(one, "slug").to_owned()];
        row.extend(["calls", "coldCalls", "running", "refused", "stops"].map(|member| any(one, member)));
        row.push(one["cpuUs"].as_u64().map(|micros| format!("{}.{:03}", micros / 1_000, micros % 1_000)).unwrap_or_default());
        table.row(row);
    }
    session.out.table(&table, "nothing was called since the process started")
}

async fn ledger(session: &Session, paging: &PageArgs) -> Result {
    let page = paging::read(paging, "accounts", || session.client.get(&["ai", "admin", "ledger"]).by(CredentialChoice::Admin)).await?;
    if session.out.json {
        session.out.document(&page)?;
    } else {
        let mut table = Table::new(&["account", ">balance", "unit", "agrees"]);
        for one in list(&page, "accounts") {
            let agrees = if one["agrees"] == true { "yes" } else { "no" };
            table.row([text(one, "account"), &any(one, "balance"), text(one, "unit"), agrees]);
        }
        session.out.table(&table, "nothing has moved yet")?;
        paging::rest(session.out, &page);
    }
    if page["agrees"] == false { Err(Error::refused("the ledger does not agree with what it is the sum of")) } else { Ok(()) }
}

pub(crate) async fn metrics(session: &Session, args: MetricsArgs) -> Result {
    let asking = if args.host {
        session.client.get(&["ai", "admin", "metrics"]).by(CredentialChoice::Admin)
    } else {
        let slug = session.slug(args.slug)?;
        match args.public {
            true => session.client.get(&["ai", "endpoints", slug.as_str(), "usage"]).by(CredentialChoice::Everyone),
            false => session.client.get(&["ai", "endpoints", slug.as_str(), "metrics"]),
        }
    };
    let asking =
        asking.query_opt("since", args.since.as_ref()).query_opt("until", args.until.as_ref()).query_opt("step", args.step.as_ref());
    let answer = asking.send().await?.body;
    if session.out.json {
        return session.out.document(&answer);
    }
    let mut table = Table::new(&["from", ">calls", ">failed", ">paid", ">gross", ">p50 ms", ">p95 ms"]);
    let all: Vec<_> = list(&answer, if args.public { "days" } else { "buckets" }).collect();
    for one in with_calls(&all) {
        let failed: u64 = one["failed"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        let failed = if args.public { String::new() } else { failed.to_string() };
        table.row([
            &moment(one, "at"),
            &any(one, "calls"),
            &failed,
            &any(one, "paid"),
            &usd(one, "grossUsd"),
            &any(one, "p50Ms"),
            &any(one, "p95Ms"),
        ]);
    }
    session.out.table(&table, "there were no calls")
}

/// Returns the buckets from the first to the last one with calls.
fn with_calls<'b, 'v>(buckets: &'b [&'v Value]) -> &'b [&'v Value] {
    let has_calls = |bucket: &&Value| bucket["calls"].as_u64().is_some_and(|calls| calls > 0);
    match (buckets.iter().position(has_calls), buckets.iter().rposition(has_calls)) {
        (Some(first), Some(last)) => &buckets[first..=last],
        _ => &[],
    }
}

pub(crate) async fn receipt(session: &Session, args: IdArgs) -> Result {
    let answer = session.client.get(&["ai", "receipts", &args.id]).by(CredentialChoice::Everyone).send().await?.body;
    session.out.print(&answer, |answer| {
        let receipt = &answer["receipt"];
        let mut facts = FactList::default();
        for (name, member) in [("receipt", "receiptId"), ("tool", "slug"), ("kind", "kind"), ("payer", "payer"), ("network", "network")] {
            facts.add(name, text(receipt, member));
        }
        facts.add("price", usd(receipt, "priceUsd"));
        facts.add("issued", moment(receipt, "issuedAt"));
        for member in ["transaction", "requestHash", "resultHash", "resourceUrl"] {
            facts.add(member, text(receipt, member));
        }
        facts.add("given back", usd(answer, "refundedUsd"));
        facts.text()
    })
}

pub(crate) async fn payment(session: &Session, args: IdArgs) -> Result {
    let answer = session.client.get(&["ai", "payments", &args.id]).by(CredentialChoice::Everyone).send().await?.body;
    session.out.print(&answer, |answer| {
        let mut facts = FactList::default();
        for (name, member) in [("payment", "paymentId"), ("state", "state"), ("receipt", "receiptId"), ("transaction", "transaction")] {
            facts.add(name, text(&answer["payment"], member));
        }
        facts.add("changed", moment(&answer["payment"], "updatedAt"));
        facts.text()
    })
}

pub(crate) async fn refund(session: &Session, args: RefundArgs) -> Result {
    if !args.yes {
        let amount = args.amount.map_or_else(|| "all that is left".to_owned(), |amount| format!("${amount}"));
        super::base::prompt::require_terminal(&format!("give back {amount} of {}?", line(&args.receipt)), "--yes")?;
    }
    let mut draft = json!({ "receiptId": args.receipt });
    for (name, value) in [
        ("amountUsd", args.amount.map(Value::from)),
        ("reason", args.reason.map(Value::from)),
        ("transaction", args.transaction.map(Value::from)),
    ] {
        if let Some(value) = value {
            draft[name] = value;
        }
    }
    let asking = session.client.post(&["ai", "admin", "refunds"]).by(CredentialChoice::Admin).json(&draft);
    let asking = match &args.once {
        Some(key) => asking.header("idempotency-key", key),
        None => asking,
    };
    let lost = |error: Error| {
        if error.exit == Exit::Away { error.hint("ask again with the same --once, or look: tollhouse receipt") } else { error }
    };
    let flags = [("amountUsd", "amount"), ("reason", "reason"), ("transaction", "transaction")];
    let answer = asking.send().await.map_err(|error| lost(error).flags(&flags))?.body;
    session.out.print(&answer, |answer| {
        format!("gave back {}; {} of it in all\n", usd(&answer["refund"], "amountUsd"), usd(answer, "refundedUsd"))
    })
}

#[cfg(test)]
mod tests;
