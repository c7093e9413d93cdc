//! `tollhouse settlements`: those of which nobody says how they ended, and an admin's word on them.

use serde_json::json;

use super::base::{
    client::CredentialChoice,
    error::Result,
    paging::{self, PageArgs},
    prompt,
    sanitize::line,
    session::Session,
    table::Table,
    text::{list, moment, text, usd},
};

/// Settlements of which nobody says how they ended.
#[derive(clap::Subcommand)]
pub(crate) enum Settlements {
    /// Lists them.
    List(PageArgs),
    /// Says how one ended, or asks the chain.
    Resolve(ResolveArgs),
}

/// Arguments of `settlements resolve`.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("end").required(true))]
pub(crate) struct ResolveArgs {
    /// Payment
    id: String,
    /// Ask the chain
    #[arg(long, group = "end")]
    look_up: bool,
    /// It was paid, by this transaction; a node of the network has to agree
    #[arg(long, value_name = "HASH", group = "end")]
    paid: Option<String>,
    /// No money moved
    #[arg(long, group = "end")]
    unpaid: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(session: &Session, paging: PageArgs, command: Option<Settlements>) -> Result {
    match command {
        None => unresolved(session, &paging).await,
        Some(Settlements::List(paging)) => unresolved(session, &paging).await,
        Some(Settlements::Resolve(args)) => resolve(session, args).await,
    }
}

async fn unresolved(session: &Session, paging: &PageArgs) -> Result {
    let page =
        paging::read(paging, "settlements", || session.client.get(&["ai", "admin", "unresolved"]).by(CredentialChoice::Admin)).await?;
    if session.out.json {
        return session.out.document(&page);
    }
    let mut table = Table::new(&["payment", "since", ">price", "tool", "network", "payer", "transaction"]);
    for one in list(&page, "settlements") {
        let (since, price) = (moment(one, "since"), usd(one, "priceUsd"));
        let [id, slug, network, payer, transaction] =
            ["paymentId", "slug", "network", "payer", "transaction"].map(|member| text(one, member));
        table.row([id, &since, &price, slug, network, payer, transaction]);
    }
    session.out.table(&table, "of every settlement it is known how it ended, or it is still asked about")?;
    paging::rest(session.out, &page);
    Ok(())
}

async fn resolve(session: &Session, args: ResolveArgs) -> Result {
    let decision = match (args.paid, args.unpaid) {
        (Some(transaction), _) => json!({ "decision": "paid", "transaction": transaction }),
        (None, true) => json!({ "decision": "unpaid" }),
        (None, false) => json!({ "decision": "look_up" }),
    };
    if !args.look_up && !args.yes {
        prompt::require_terminal(&format!("record that {} was {}?", line(&args.id), text(&decision, "decision")), "--yes")?;
    }
    let asking = session.client.post(&["ai", "admin", "unresolved", &args.id]).by(CredentialChoice::Admin).json(&decision);
    let answer = asking.send().await.map_err(|error| error.flags(&[("transaction", "paid")]))?.body;
    session.out.print(&answer, |answer| format!("{} is {}\n", text(answer, "payment.paymentId"), text(answer, "payment.state")))
}
