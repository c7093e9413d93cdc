//! `tollhouse payouts`: shows where revenue is paid to, the payouts that were made, and the decisions of admins on
//! them.

use serde_json::{Value, json};
use tollhouse_money::{Asset, Network};

use super::base::{
    client::{CredentialChoice, PendingRequest},
    error::{Error, Result},
    paging::{self, HistoryArgs, ListOrder, PageArgs},
    session::Session,
    table::{FactList, Table},
    text::{any, list, moment, text, usd},
};

/// Payouts of a builder, and decisions on them.
#[derive(clap::Subcommand)]
pub(crate) enum Payouts {
    /// Packets, newest first.
    List(ListArgs),
    /// One packet, with its receipts.
    Show(ShowArgs),
    /// Makes a packet of all that waits.
    Make(OfArgs),
    /// Where payouts go, and what waits for one; with flags, sets it.
    Settings(SettingsArgs),
    /// Has a packet be sent (admins).
    Approve(IdArgs),
    /// Notes that it was sent (admins).
    Paid(PaidArgs),
    /// Notes that it was not (admins).
    Failed(FailedArgs),
}

/// Whose.
#[derive(clap::Args)]
pub(crate) struct OfArgs {
    /// Builder (admins)
    #[arg(long, value_name = "ID")]
    builder: Option<String>,
}

/// Arguments of `payouts list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    of: OfArgs,
    /// Of all builders (admins)
    #[arg(long, conflicts_with = "builder")]
    all: bool,
    /// In this state: `created`, `approved`, `paid` or `failed`
    #[arg(long, requires = "all")]
    status: Option<String>,
    #[command(flatten)]
    back: HistoryArgs,
}

/// Arguments of `payouts show`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Packet
    id: String,
    #[command(flatten)]
    of: OfArgs,
    #[command(flatten)]
    paging: PageArgs,
}

/// Arguments of `payouts settings`.
#[derive(clap::Args)]
pub(crate) struct SettingsArgs {
    #[command(flatten)]
    of: OfArgs,
    /// Address that is paid
    #[arg(long)]
    address: Option<String>,
    /// Network, such as `eip155:8453` [default: the host's first]
    #[arg(long, requires = "address")]
    network: Option<String>,
    /// Token, by its address [default: the network's first]
    #[arg(long, requires = "address")]
    asset: Option<String>,
    /// The least that a packet is made of, in US dollars
    #[arg(long, requires = "address", value_name = "USD")]
    minimum: Option<f64>,
}

/// A packet.
#[derive(clap::Args)]
pub(crate) struct IdArgs {
    /// Packet
    id: String,
}

/// Arguments of `payouts paid`.
#[derive(clap::Args)]
pub(crate) struct PaidArgs {
    /// Packet
    id: String,
    /// Transaction that sent it
    #[arg(long, value_name = "HASH")]
    transaction: String,
}

/// Arguments of `payouts failed`.
#[derive(clap::Args)]
pub(crate) struct FailedArgs {
    /// Packet
    id: String,
    /// Why, shown to the builder
    #[arg(long)]
    reason: Option<String>,
}

pub(crate) async fn run(session: &Session, back: HistoryArgs, command: Option<Payouts>) -> Result {
    match command {
        None => packets(session, ListArgs { of: OfArgs { builder: None }, all: false, status: None, back }).await,
        Some(Payouts::List(args)) => packets(session, args).await,
        Some(Payouts::Show(args)) => show(session, args).await,
        Some(Payouts::Make(of)) => make(session, &of).await,
        Some(Payouts::Settings(args)) => settings(session, args).await,
        Some(Payouts::Approve(args)) => decide(session, &args.id, json!({ "decision": "approve" })).await,
        Some(Payouts::Paid(args)) => decide(session, &args.id, json!({ "decision": "paid", "transaction": args.transaction })).await,
        Some(Payouts::Failed(args)) => decide(session, &args.id, json!({ "decision": "failed", "reason": args.reason })).await,
    }
}

async fn packets(session: &Session, args: ListArgs) -> Result {
    let ask = || -> PendingRequest<'_> {
        if args.all {
            session.client.get(&["ai", "admin", "payouts"]).by(CredentialChoice::Admin).query_opt("status", args.status.as_ref())
        } else {
            session.client.get(&["ai", "builders", "payouts"]).query_opt("builderId", args.of.builder.as_ref())
        }
    };
    let page = args.back.read("payouts", "createdAt", ListOrder::NewestFirst, ask).await?;
    if session.out.json {
        return session.out.document(&page);
    }
    let mut table = Table::new(&["packet", "status", ">amount", ">receipts", "network", "made", "builder"]);
    for one in list(&page, "payouts") {
        let builder = Some(text(one, "builderName")).filter(|name| !name.is_empty()).unwrap_or(text(one, "builderId"));
        let (amount, receipts, made) = (usd(one, "amountUsd"), any(one, "receiptCount"), moment(one, "createdAt"));
        table.row([text(one, "id"), text(one, "status"), &amount, &receipts, text(one, "network"), &made, builder]);
    }
    session.out.table(&table, "there is no packet yet: tollhouse payouts make")?;
    paging::rest(session.out, &page);
    Ok(())
}

async fn show(session: &Session, args: ShowArgs) -> Result {
    let ask = || session.client.get(&["ai", "builders", "payouts", &args.id]).query_opt("builderId", args.of.builder.as_ref());
    let page = paging::read(&args.paging, "receipts", ask).await?;
    if session.out.json {
        return session.out.document(&page);
    }
    session.out.text(&packet(&page["payout"]))?;
    let mut table = Table::new(&["receipt", ">net"]);
    for one in list(&page, "receipts") {
        table.row([text(one, "receiptId"), &usd(one, "netUsd")]);
    }
    session.out.table(&table, "it has no receipts")?;
    paging::rest(session.out, &page);
    Ok(())
}

fn packet(payout: &Value) -> String {
    let mut facts = FactList::default();
    facts.add("packet", text(payout, "id"));
    facts.add("status", text(payout, "status"));
    facts.add("amount", usd(payout, "amountUsd"));
    facts.add("receipts", any(payout, "receiptCount"));
    for member in ["builderId", "address"] {
        facts.add(member, text(payout, member));
    }
    facts.add("network", network(text(payout, "network")));
    facts.add("asset", asset(text(payout, "network"), text(payout, "asset")));
    for member in ["transaction", "reason", "digest"] {
        facts.add(member, text(payout, member));
    }
    facts.add("from", moment(payout, "period.from"));
    facts.add("to", moment(payout, "period.to"));
    facts.text()
}

/// Returns the error with names of flags in place of the host's names of fields.
fn by_flag(error: Error) -> Error {
    error.flags(&[
        ("address", "address"),
        ("network", "network"),
        ("asset", "asset"),
        ("minimumUsd", "minimum"),
        ("transaction", "transaction"),
        ("reason", "reason"),
    ])
}

/// Returns a network's name with its CAIP-2 identifier, such as `base-sepolia (eip155:84532)`, or only the identifier
/// if the network is unknown.
fn network(caip2: &str) -> String {
    Network::named(caip2).map_or_else(|| caip2.to_owned(), |network| format!("{} ({caip2})", network.name))
}

/// Returns a token's symbol with its address, such as `USDC (0x036c…)`.
fn asset(network: &str, address: &str) -> String {
    let known = |asset: &&Asset| asset.network.caip2 == network && asset.address.eq_ignore_ascii_case(address);
    Asset::all().iter().find(known).map_or_else(|| address.to_owned(), |asset| format!("{} ({address})", asset.symbol))
}

async fn make(session: &Session, of: &OfArgs) -> Result {
    let asking = session.client.post(&["ai", "builders", "payouts"]).query_opt("builderId", of.builder.as_ref());
    let answer = asking.send().await?.body;
    session.out.print(&answer, |answer| match text(&answer["payout"], "status") {
        "empty" => "nothing waits: no packet was made\n".to_owned(),
        _ => packet(&answer["payout"]),
    })
}

async fn settings(session: &Session, args: SettingsArgs) -> Result {
    let path = ["ai", "builders", "payout-settings"];
    let builder = args.of.builder.as_ref();
    let before = session.client.get(&path).query_opt("builderId", builder).send().await?;
    let answer = match args.address {
        None => before,
        Some(address) => {
            let mut draft = json!({ "address": address });
            for (name, value) in [
                ("network", args.network.map(Value::from)),
                ("asset", args.asset.map(Value::from)),
                ("minimumUsd", args.minimum.map(Value::from)),
            ] {
                // Settings without a flag stay as they are.
                let stored = || before.body["payoutSettings"][name].clone();
                draft[name] = value.unwrap_or_else(stored);
            }
            session
                .client
                .post(&path)
                .query_opt("builderId", builder)
                .if_match(before.revision())
                .json(&draft)
                .send()
                .await
                .map_err(by_flag)?
        }
    };
    session.out.print(&answer.body, |answer| {
        let mut facts = FactList::default();
        let settings = &answer["payoutSettings"];
        facts.add("address", text(settings, "address"));
        facts.add("network", network(text(settings, "network")));
        facts.add("asset", asset(text(settings, "network"), text(settings, "asset")));
        facts.add("at least", usd(settings, "minimumUsd"));
        facts.add("waiting", format!("{} of {} receipts", usd(answer, "waiting.amountUsd"), any(answer, "waiting.receiptCount")));
        let none =
            if settings.is_null() { "it was not said yet where payouts go: tollhouse payouts settings --address 0x…\n" } else { "" };
        format!("{none}{}", facts.text())
    })
}

async fn decide(session: &Session, id: &str, verdict: Value) -> Result {
    let answer =
        session.client.post(&["ai", "admin", "payouts", id]).by(CredentialChoice::Admin).json(&verdict).send().await.map_err(by_flag)?.body;
    session.out.print(&answer, |answer| packet(&answer["payout"]))
}
