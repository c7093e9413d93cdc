//! `tollhouse payouts`: shows where revenue is paid to, the payouts that were made, and the decisions of admins on
//! them.

use tollhouse_api::{
    AllPayoutsPage, CreatePayoutResponse, CreatedPayout, Payout, PayoutDecision, PayoutPage, PayoutReceiptPage, PayoutResponse,
    PayoutSettingsDraft, PayoutSettingsResponse, PayoutVerdict,
};
use tollhouse_base::plural::plural;
use tollhouse_money::{Asset, Network};
use tollhouse_tool::MicroUsd;

use super::base::{
    Answer, ConfirmArgs, CredentialChoice, Error, FactList, HistoryArgs, ListOrder, Page, PageArgs, Result, Session, dollars, line, moment,
    name, optional, paging, usd,
};

/// Payouts of a builder, and decisions on them.
#[derive(clap::Subcommand)]
pub(crate) enum Payouts {
    /// List payouts, newest first
    List(ListArgs),
    /// Show a payout with its receipts
    Show(ShowArgs),
    /// Create a payout of all waiting revenue
    Make(OfArgs),
    /// Show or set where payouts go
    Settings(SettingsArgs),
    /// Approve a payout (admins)
    Approve {
        /// Payout
        id: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Record that a payout was sent (admins)
    Paid {
        /// Payout
        id: String,
        /// Transaction of the payout
        #[arg(long, value_name = "HASH")]
        transaction: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Record that a payout failed (admins)
    Failed(FailedArgs),
    /// Reject a payout; its receipts wait again (admins)
    Reject(FailedArgs),
}

/// The builder.
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
    /// List payouts of all builders (admins)
    #[arg(long, conflicts_with = "builder")]
    all: bool,
    /// Only payouts with this status, for example `created`
    #[arg(long, requires = "all")]
    status: Option<String>,
    #[command(flatten)]
    back: HistoryArgs,
}

/// Arguments of `payouts show`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Payout
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
    /// Address to pay
    #[arg(long)]
    address: Option<String>,
    /// Network, in CAIP-2 form [default: the host's first]
    #[arg(long, requires = "address")]
    network: Option<String>,
    /// Token, by its address [default: the network's first]
    #[arg(long, requires = "address")]
    asset: Option<String>,
    /// Minimum amount of a payout, in US dollars
    #[arg(long, requires = "address", value_name = "USD", value_parser = dollars)]
    minimum: Option<MicroUsd>,
}

/// Arguments of `payouts failed` and `payouts reject`.
#[derive(clap::Args)]
pub(crate) struct FailedArgs {
    /// Payout
    id: String,
    /// Reason, shown to the builder
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

pub(crate) async fn run(session: &Session, back: HistoryArgs, command: Option<Payouts>) -> Result {
    match command {
        None => list(session, ListArgs { of: OfArgs { builder: None }, all: false, status: None, back }).await,
        Some(Payouts::List(args)) => list(session, args).await,
        Some(Payouts::Show(args)) => show(session, args).await,
        Some(Payouts::Make(of)) => make(session, &of).await,
        Some(Payouts::Settings(args)) => settings(session, args).await,
        Some(Payouts::Approve { id, confirm }) => {
            confirm.require(&format!("approve payout {}?", line(&id)))?;
            decide(session, &id, PayoutVerdict { decision: PayoutDecision::Approve, transaction: None, reason: None }).await
        }
        Some(Payouts::Paid { id, transaction, confirm }) => {
            confirm.require(&format!("record that payout {} was sent in {}?", line(&id), line(&transaction)))?;
            decide(session, &id, PayoutVerdict { decision: PayoutDecision::Paid, transaction: Some(transaction), reason: None }).await
        }
        Some(Payouts::Failed(FailedArgs { id, reason, confirm })) => {
            confirm.require(&format!("record that payout {} failed?", line(&id)))?;
            decide(session, &id, PayoutVerdict { decision: PayoutDecision::Failed, transaction: None, reason }).await
        }
        Some(Payouts::Reject(FailedArgs { id, reason, confirm })) => {
            confirm.require(&format!("reject payout {}?", line(&id)))?;
            decide(session, &id, PayoutVerdict { decision: PayoutDecision::Reject, transaction: None, reason }).await
        }
    }
}

async fn list(session: &Session, args: ListArgs) -> Result {
    let (at, order) = (|payout: &Payout| Some(payout.created_at), ListOrder::NewestFirst);
    if args.all {
        let ask = || session.client.get(&["ai", "admin", "payouts"]).by(CredentialChoice::Admin).query_opt("status", args.status.as_ref());
        print(session, args.back.read::<AllPayoutsPage>(at, order, ask).await?, "no payouts")
    } else {
        let ask = || session.client.get(&["ai", "builders", "payouts"]).query_opt("builderId", args.of.builder.as_ref());
        // Only the builder's own list suggests to create one.
        let empty = if args.of.builder.is_some() { "no payouts" } else { "no payouts yet; create one: tollhouse payouts make" };
        print(session, args.back.read::<PayoutPage>(at, order, ask).await?, empty)
    }
}

fn print(session: &Session, page: impl Page<Entry = Payout>, empty: &str) -> Result {
    let heads = ["payout", "status", ">amount", ">receipts", "network", "created", "builder"];
    paging::print(session.out, page, heads, empty, |one| {
        let builder = one.builder_name.clone().flatten().unwrap_or_else(|| one.builder_id.to_string());
        let (amount, receipts) = (usd(one.amount_usd), one.receipt_count.to_string());
        [one.id.to_string(), name(one.status), amount, receipts, one.network.clone(), moment(one.created_at), builder]
    })
}

async fn show(session: &Session, args: ShowArgs) -> Result {
    let ask = || session.client.get(&["ai", "builders", "payouts", &args.id]).query_opt("builderId", args.of.builder.as_ref());
    let page: PayoutReceiptPage = paging::read(&args.paging, ask).await?;
    session.out.for_people(&describe(&page.payout))?;
    paging::print(session.out, page, ["receipt", ">net"], "no receipts", |one| [one.receipt_id.clone(), usd(one.net_usd)])
}

fn describe(payout: &Payout) -> String {
    let period = payout.period.as_ref();
    let mut facts = FactList::default();
    facts.add("payout", &payout.id);
    facts.add("status", name(payout.status));
    facts.add("amount", usd(payout.amount_usd));
    facts.add("receipts", payout.receipt_count.to_string());
    facts.add("builderId", &payout.builder_id);
    facts.add("address", &payout.address);
    facts.add("network", network(&payout.network));
    facts.add("asset", asset(&payout.network, &payout.asset));
    facts.add("transaction", optional(payout.transaction.as_ref()));
    facts.add("warning", optional(payout.warning.as_ref()));
    facts.add("reason", optional(payout.reason.as_ref()));
    facts.add("digest", optional(payout.digest.as_ref()));
    facts.add("from", moment(period.map(|period| period.from)));
    facts.add("to", moment(period.map(|period| period.to)));
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
    session.out.print(&asking.send::<CreatePayoutResponse>().await?.body, |answer| match &answer.payout {
        CreatedPayout::Payout(payout) => describe(payout),
        CreatedPayout::Empty(_) => "no revenue is waiting; no payout was created\n".to_owned(),
    })
}

async fn settings(session: &Session, args: SettingsArgs) -> Result {
    let path = ["ai", "builders", "payout-settings"];
    let builder = args.of.builder.as_ref();
    let mut answer: Answer<PayoutSettingsResponse> = session.client.get(&path).query_opt("builderId", builder).send().await?;
    if let Some(address) = args.address {
        // Settings without a flag stay as they are.
        let stored = answer.body.payout_settings.as_ref();
        let draft = PayoutSettingsDraft {
            address,
            network: args.network.or(stored.map(|stored| stored.network.clone())),
            asset: args.asset.or(stored.map(|stored| stored.asset.clone())),
            minimum_usd: args.minimum.or(stored.map(|stored| stored.minimum_usd)),
        };
        let asking = session.client.post(&path).query_opt("builderId", builder).if_match(answer.revision());
        answer = asking.json(&draft).send().await.map_err(by_flag)?;
    }
    session.out.print(&answer.body, |PayoutSettingsResponse { payout_settings, waiting, .. }| {
        let mut facts = FactList::default();
        if let Some(settings) = payout_settings {
            facts.add("address", &settings.address);
            facts.add("network", network(&settings.network));
            facts.add("asset", asset(&settings.network, &settings.asset));
            facts.add("minimum", usd(settings.minimum_usd));
        }
        facts.add("waiting", format!("{} of {}", usd(waiting.amount_usd), plural(waiting.receipt_count, "receipt")));
        let none = "no payout address is set; set one: tollhouse payouts settings --address 0x…\n";
        format!("{}{}", if payout_settings.is_none() { none } else { "" }, facts.text())
    })
}

async fn decide(session: &Session, id: &str, verdict: PayoutVerdict) -> Result {
    let asking = session.client.post(&["ai", "admin", "payouts", id]).by(CredentialChoice::Admin).json(&verdict);
    session.out.print(&asking.send::<PayoutResponse>().await.map_err(by_flag)?.body, |answer| describe(&answer.payout))
}
