//! `tollhouse settlements`: settlements with an unknown outcome, and an admin's decision on them.

use tollhouse_api::{PaymentResponse, SettlementDecision, SettlementVerdict, UnresolvedPage};

use super::base::{ConfirmArgs, CredentialChoice, PageArgs, Result, Session, line, moment, name, optional, paging, usd};

/// Settlements with an unknown outcome.
#[derive(clap::Subcommand)]
pub(crate) enum Settlements {
    /// List settlements with an unknown outcome
    List(PageArgs),
    /// Record the outcome of a settlement, or look it up on chain
    Resolve(ResolveArgs),
}

/// Arguments of `settlements resolve`.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("end").required(true))]
pub(crate) struct ResolveArgs {
    /// Payment
    id: String,
    /// Look up the outcome on the chain
    #[arg(long, group = "end")]
    look_up: bool,
    /// Record that this transaction paid; it must be on the chain
    #[arg(long, value_name = "HASH", group = "end")]
    paid: Option<String>,
    /// Record that no money moved
    #[arg(long, group = "end")]
    unpaid: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

pub(crate) async fn run(session: &Session, paging: PageArgs, command: Option<Settlements>) -> Result {
    match command {
        None => unresolved(session, &paging).await,
        Some(Settlements::List(paging)) => unresolved(session, &paging).await,
        Some(Settlements::Resolve(args)) => resolve(session, args).await,
    }
}

async fn unresolved(session: &Session, paging: &PageArgs) -> Result {
    let ask = || session.client.get(&["ai", "admin", "unresolved"]).by(CredentialChoice::Admin);
    let page: UnresolvedPage = paging::read(paging, ask).await?;
    let heads = ["payment", "since", ">price", "tool", "network", "payer", "transaction"];
    paging::print(session.out, page, heads, "no unresolved settlements", |one| {
        let (since, price, transaction) = (moment(one.since), usd(one.price_usd), optional(one.transaction.as_ref()));
        [one.payment_id.to_string(), since, price, one.slug.to_string(), one.network.clone(), one.payer.clone(), transaction]
    })
}

async fn resolve(session: &Session, args: ResolveArgs) -> Result {
    let (decision, transaction) = match (args.paid, args.unpaid) {
        (Some(transaction), _) => (SettlementDecision::Paid, Some(transaction)),
        (None, true) => (SettlementDecision::Unpaid, None),
        (None, false) => (SettlementDecision::LookUp, None),
    };
    if !args.look_up {
        args.confirm.require(&format!("record that {} was {}?", line(&args.id), name(decision)))?;
    }
    let asking = session.client.post(&["ai", "admin", "unresolved", &args.id]).by(CredentialChoice::Admin);
    let answer = asking.json(&SettlementVerdict { decision, transaction }).send::<PaymentResponse>().await;
    session.out.print(&answer.map_err(|error| error.flags(&[("transaction", "paid")]))?.body, |PaymentResponse { payment, .. }| {
        format!("{} is {}\n", line(payment.payment_id.as_str()), name(payment.state))
    })
}
