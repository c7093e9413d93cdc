//! `tollhouse host`, `metrics`, `receipt`, `payment` and `refund`: the state of a host, metrics of calls, and the fate of money.

use reqwest::Url;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tollhouse_api::{
    DailyUsage, Health, JsonWebKeySet, Ledger, Manifest, Metrics, MetricsBucket, PaymentResponse, Readiness, ReceiptResponse,
    RefundRequest, RefundResponse, RescanResponse, RuntimeStats, SafetyPolicyResponse, UnpaidHealth, UsageDay,
};
use tollhouse_base::plural::plural;
use tollhouse_tool::{MicroUsd, Slug};

use super::{
    base::{
        ConfirmArgs, CredentialChoice, Error, Exit, FactList, PageArgs, Result, Session, Table, dollars, json_for_people, line, moment,
        name, optional, paging, private_files, same_place, usd,
    },
    pay::{RecordStore, SentPayment, seller::headers},
};

/// Commands about a host.
#[derive(clap::Subcommand)]
pub(crate) enum Host {
    /// Show versions, payments, workers and connections
    Health,
    /// Check that the host takes calls; exit code 5 if not
    Ready,
    /// Show the manifest: what the host offers, and its limits
    Manifest,
    /// Show the content safety policy
    Safety,
    /// Show the keys that sign receipts
    Keys,
    /// Show sandbox statistics for each tool (admins)
    Runtime {
        /// Maximum number of tools
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// Show and check the accounts of the ledger (admins)
    Ledger(PageArgs),
    /// Scan builders' tools with the current rules (admins)
    Rescan,
}

/// Arguments of `metrics`.
#[derive(clap::Args)]
pub(crate) struct MetricsArgs {
    /// Tool [default: the folder's]
    #[arg(conflicts_with = "host")]
    slug: Option<Slug>,
    /// Combine all tools (admins)
    #[arg(long)]
    host: bool,
    /// Show only the public numbers: calls and durations by day
    #[arg(long, conflicts_with_all = ["host", "since", "until", "step"])]
    public: bool,
    /// Start, for example `24h` (ago)
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// End, for example `1h` (ago)
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Length of a bucket, for example `1h`
    #[arg(long)]
    step: Option<String>,
}

/// Arguments of `receipt` and `payment`.
#[derive(clap::Args)]
pub(crate) struct IdArgs {
    /// Id of the receipt or payment
    id: String,
}

/// Arguments of `refund`.
#[derive(clap::Args)]
pub(crate) struct RefundArgs {
    /// Id of the receipt
    receipt: String,
    /// Amount in US dollars [default: the rest]
    #[arg(long, value_name = "USD", value_parser = dollars)]
    amount: Option<MicroUsd>,
    /// Reason
    #[arg(long)]
    reason: Option<String>,
    /// Transaction that sent the money back, for x402 payments
    #[arg(long, value_name = "HASH")]
    transaction: Option<String>,
    /// Idempotency key: attempts with the same key refund once
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

pub(crate) async fn run(session: &Session, command: Option<Host>) -> Result {
    match command {
        None | Some(Host::Health) => session.out.print(&open(session, &["health"]).await?, health),
        Some(Host::Ready) => {
            let ready: Readiness = open(session, &["health", "ready"]).await?;
            session.out.print(&ready, |Readiness { warnings, .. }| {
                let warnings = warnings.iter().map(|warning| format!("warning: {}; {}\n", line(&warning.message), line(&warning.remedy)));
                format!("the host takes calls\n{}", warnings.collect::<String>())
            })
        }
        Some(Host::Manifest) => document::<Manifest<Value>>(session, &["ai", "manifest"]).await,
        Some(Host::Safety) => document::<SafetyPolicyResponse>(session, &["ai", "content-safety", "policy"]).await,
        Some(Host::Keys) => document::<JsonWebKeySet>(session, &[".well-known", "jwks.json"]).await,
        Some(Host::Runtime { limit }) => runtime(session, limit).await,
        Some(Host::Ledger(paging)) => ledger(session, &paging).await,
        Some(Host::Rescan) => {
            let answer = session.client.post(&["ai", "admin", "rescan"]).by(CredentialChoice::Admin).send().await?.body;
            session.out.print(&answer, |RescanResponse { rescan: found, .. }| {
                let (endpoints, review, blocked) = (found.endpoints, found.review, found.blocked);
                format!("scanned {}: {review} to review, {blocked} blocked\n", plural(endpoints, "tool"))
            })
        }
    }
}

/// Gets what everyone can read.
async fn open<T: DeserializeOwned>(session: &Session, path: &[&str]) -> Result<T> {
    Ok(session.client.get(path).by(CredentialChoice::Everyone).send().await?.body)
}

/// Prints a document in full, because it has no shorter form.
async fn document<T: DeserializeOwned + Serialize>(session: &Session, path: &[&str]) -> Result {
    session.out.print(&open::<T>(session, path).await?, |body| json_for_people(body) + "\n")
}

/// The sandbox is read as a document: a newer host can name tiers that this version does not know.
fn health(health: &Health<UnpaidHealth, Value>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let field = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) if !value.is_null() => value.to_string(),
        _ => String::new(),
    };
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut facts = FactList::default();
    facts.add("version", &health.version);
    for accepted in list(health.payment.get("accepts")) {
        let [symbol, network, facilitator] = [&accepted["asset"]["symbol"], &accepted["network"], &accepted["facilitator"]].map(text);
        facts.add("paid in", format!("{symbol} on {network}, settled through {facilitator}"));
    }
    facts.add("open settlements", health.open_settlements.to_string());
    facts.add("unresolved settlements", optional(health.unresolved_settlements));
    let sandbox = ["workers", "running", "queued"].map(|name| format!("{} {name}", field(health.sandbox.get(name))));
    facts.add("sandbox", sandbox.join(", "));
    facts.add("jail", list(health.sandbox.get("jail")).iter().map(text).collect::<Vec<_>>().join(" "));
    facts.add("workers fail", field(health.sandbox.get("startsFail")));
    facts.add("hosts", health.replicas.iter().flatten().filter(|replica| replica.lives).count().to_string());
    facts.add("store", &health.stored.backend);
    facts.add("connections", field(health.intake.get("connections")));
    for warning in &health.warnings {
        facts.add("warning", format!("{}; {}", warning.message, warning.remedy));
    }
    facts.text()
}

async fn runtime(session: &Session, limit: u32) -> Result {
    let asking = session.client.get(&["ai", "admin", "runtime"]).by(CredentialChoice::Admin).query("limit", limit);
    let answer: RuntimeStats = asking.send().await?.body;
    if session.out.json {
        return session.out.document(&answer);
    }
    let mut table = Table::new(&["tool", ">calls", ">cold", ">running", ">refused", ">stops", ">cpu ms"]);
    for one in answer.endpoints {
        let [calls, cold, running, refused, stops] =
            [one.calls, one.cold_calls, one.running, one.refused, one.stops].map(|count| count.to_string());
        let cpu_ms = format!("{}.{:03}", one.cpu_us / 1_000, one.cpu_us % 1_000);
        table.row([one.slug.to_string(), calls, cold, running, refused, stops, cpu_ms]);
    }
    session.out.table(&table, "no calls since the process started")
}

async fn ledger(session: &Session, paging: &PageArgs) -> Result {
    let ask = || session.client.get(&["ai", "admin", "ledger"]).by(CredentialChoice::Admin);
    let page: Ledger = paging::read(paging, ask).await?;
    let agrees = page.agrees;
    paging::print(session.out, page, ["account", ">balance", "unit", "agrees"], "no movements yet", |one| {
        let agrees = one.agrees.map_or("", |agrees| if agrees { "yes" } else { "no" });
        [one.account.clone(), one.balance.clone(), one.unit.clone(), agrees.to_owned()]
    })?;
    if agrees { Ok(()) } else { Err(Error::refused("the ledger does not match the stored records")) }
}

/// A row of metrics: the number of calls, and the cells.
type MetricsRow = (u64, [String; 7]);

pub(crate) async fn metrics(session: &Session, args: MetricsArgs) -> Result {
    let rows: Vec<MetricsRow> = if args.public {
        let slug = session.slug(args.slug)?;
        let usage: DailyUsage = open(session, &["ai", "endpoints", slug.as_str(), "usage"]).await?;
        if session.out.json {
            return session.out.document(&usage);
        }
        let row = |day: UsageDay| {
            let (p50, p95) = (optional(day.p50_ms), optional(day.p95_ms));
            (day.calls, [moment(day.at), day.calls.to_string(), String::new(), String::new(), String::new(), p50, p95])
        };
        usage.days.into_iter().map(row).collect()
    } else {
        let asking = if args.host {
            session.client.get(&["ai", "admin", "metrics"]).by(CredentialChoice::Admin)
        } else {
            session.client.get(&["ai", "endpoints", session.slug(args.slug)?.as_str(), "metrics"])
        };
        let asking = asking.query_opt("since", args.since).query_opt("until", args.until).query_opt("step", args.step);
        let metrics: Metrics = asking.send().await?.body;
        if session.out.json {
            return session.out.document(&metrics);
        }
        let row = |bucket: MetricsBucket| {
            let [calls, failed, paid] = [bucket.calls, bucket.failed.values().sum(), bucket.paid].map(|count: u64| count.to_string());
            let (p50, p95) = (optional(bucket.p50_ms), optional(bucket.p95_ms));
            (bucket.calls, [moment(bucket.at), calls, failed, paid, usd(bucket.gross_usd), p50, p95])
        };
        metrics.buckets.into_iter().map(row).collect()
    };
    let mut table = Table::new(&["from", ">calls", ">failed", ">paid", ">gross", ">p50 ms", ">p95 ms"]);
    with_calls(&rows).iter().for_each(|(_, cells)| table.row(cells));
    session.out.table(&table, "no calls")
}

/// Returns the rows from the first to the last one with calls.
fn with_calls(rows: &[MetricsRow]) -> &[MetricsRow] {
    let has_calls = |row: &MetricsRow| row.0 > 0;
    match (rows.iter().position(has_calls), rows.iter().rposition(has_calls)) {
        (Some(first), Some(last)) => &rows[first..=last],
        _ => &[],
    }
}

pub(crate) async fn receipt(session: &Session, args: IdArgs) -> Result {
    let answer: ReceiptResponse = open(session, &["ai", "receipts", &args.id]).await?;
    session.out.print(&answer, |ReceiptResponse { receipt, refunded_usd, .. }| {
        let mut facts = FactList::default();
        facts.add("receipt", &receipt.receipt_id);
        facts.add("tool", &receipt.slug);
        facts.add("kind", name(receipt.kind));
        facts.add("payer", optional(receipt.payer.as_ref()));
        facts.add("network", optional(receipt.network.as_ref()));
        facts.add("price", usd(Some(receipt.price_usd)));
        facts.add("issued", moment(Some(receipt.issued_at)));
        facts.add("transaction", optional(receipt.transaction.as_ref()));
        facts.add("requestHash", &receipt.request_hash);
        facts.add("resultHash", optional(receipt.result_hash.as_ref()));
        facts.add("resourceUrl", &receipt.resource_url);
        facts.add("refunded", usd(*refunded_usd));
        facts.text()
    })
}

/// Returns the payment with this id if this machine sent it to the session's host.
fn sent_there(session: &Session, id: &str) -> Option<SentPayment> {
    let records = RecordStore::at(&private_files::state().ok()?.join("payments"));
    let sent = records.read(&id.parse().ok()?)?;
    same_place(&Url::parse(&sent.host).ok()?, session.client.base()).then_some(sent)
}

pub(crate) async fn payment(session: &Session, args: IdArgs) -> Result {
    let asking = session.client.get(&["ai", "payments", &args.id]);
    // The receipt is only for callers who show the payment or its credit.
    let asking = match sent_there(session, &args.id) {
        Some(sent) if sent.by_credit => asking.by(CredentialChoice::Payer),
        Some(sent) => asking.by(CredentialChoice::Everyone).headers(headers(&sent.headers)?),
        None => asking.by(CredentialChoice::Everyone),
    };
    let answer = asking.send().await?.body;
    session.out.print(&answer, |PaymentResponse { payment, .. }| {
        let mut facts = FactList::default();
        facts.add("payment", payment.payment_id.as_str());
        facts.add("state", name(payment.state));
        facts.add("receipt", optional(payment.receipt_id.as_ref()));
        facts.add("transaction", optional(payment.transaction.as_ref()));
        facts.add("changed", moment(payment.updated_at));
        facts.text()
    })
}

pub(crate) async fn refund(session: &Session, args: RefundArgs) -> Result {
    let amount = args.amount.map_or_else(|| "the rest".to_owned(), usd);
    args.confirm.require(&format!("refund {amount} of {}?", line(&args.receipt)))?;
    let request = RefundRequest { receipt_id: args.receipt, amount_usd: args.amount, reason: args.reason, transaction: args.transaction };
    let asking = session.client.post(&["ai", "admin", "refunds"]).by(CredentialChoice::Admin).json(&request);
    let answer = asking.idempotent(args.once.as_deref()).send::<RefundResponse>().await.map_err(|error| {
        let error = error.flags(&[("amountUsd", "amount"), ("reason", "reason"), ("transaction", "transaction")]);
        if error.exit == Exit::Unavailable && !error.is_unsent {
            error.hint("retry with the same --once, or check: tollhouse receipt")
        } else {
            error
        }
    })?;
    session.out.print(&answer.body, |RefundResponse { refund, refunded_usd, .. }| {
        format!("refund recorded: {}; {} refunded in total\n", usd(refund.amount_usd), usd(*refunded_usd))
    })
}

#[cfg(test)]
mod tests;
