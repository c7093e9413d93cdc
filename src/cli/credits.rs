//! `tollhouse credits`: developer credit, for holders and for admins.

use serde_json::{Value, json};

use super::base::{
    changed::changes,
    client::CredentialChoice,
    error::{Error, Result},
    paging::{self, HistoryArgs, ListOrder},
    sanitize::line,
    session::Session,
    table::{FactList, Table},
    text::{any, list, moment, text, usd},
};

/// Developer credits.
#[derive(clap::Subcommand)]
pub(crate) enum Credits {
    /// All credits, the oldest first (admins).
    List(HistoryArgs),
    /// One credit, with what moved it: the own one, or for admins any.
    Show(ShowArgs),
    /// Mints a credit; its token is shown this once, on standard output (admins).
    Mint(MintArgs),
    /// Adds to a credit (admins).
    TopUp(TopUpArgs),
    /// Bounds what may go of a credit; what is not said is not bounded any more.
    Budget(BudgetArgs),
    /// Takes back what is left of a credit (admins).
    Revoke(RevokeArgs),
    /// Has a revoked credit be one again (admins).
    Restore(RevokeArgs),
}

/// Arguments of `credits show`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Credit [default: the own one]
    id: Option<String>,
    #[command(flatten)]
    back: HistoryArgs,
}

/// Arguments of `credits mint`.
#[derive(clap::Args)]
pub(crate) struct MintArgs {
    /// US dollars
    amount: f64,
    /// Whom or what it is for
    #[arg(long)]
    label: Option<String>,
    /// The same for each attempt of one minting, which then happens once
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
}

/// Arguments of `credits top-up`.
#[derive(clap::Args)]
pub(crate) struct TopUpArgs {
    /// Credit
    id: String,
    /// US dollars
    amount: f64,
    /// The same for each attempt of one, which then happens once
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
}

/// Arguments of `credits budget`.
#[derive(clap::Args)]
pub(crate) struct BudgetArgs {
    /// Credit [default: the own one]
    id: Option<String>,
    /// Most of a UTC day, in US dollars
    #[arg(long, value_name = "USD")]
    per_day: Option<f64>,
    /// Most of a call
    #[arg(long, value_name = "USD")]
    per_call: Option<f64>,
    /// Most of each tool in a UTC day
    #[arg(long, value_name = "USD")]
    per_tool: Option<f64>,
    /// How much of a day has it be told
    #[arg(long, value_name = "USD")]
    alert_at: Option<f64>,
    /// It pays for nothing
    #[arg(long)]
    frozen: bool,
    /// Lift all bounds
    #[arg(long, conflicts_with_all = ["per_day", "per_call", "per_tool", "alert_at", "frozen"])]
    none: bool,
}

/// Arguments of `credits revoke` and `restore`.
#[derive(clap::Args)]
pub(crate) struct RevokeArgs {
    /// Credit
    id: String,
    /// Why, shown to its holder
    #[arg(long)]
    reason: Option<String>,
}

pub(crate) async fn run(session: &Session, back: HistoryArgs, command: Option<Credits>) -> Result {
    match command {
        None => show(session, ShowArgs { id: None, back }).await,
        Some(Credits::List(back)) => all(session, &back).await,
        Some(Credits::Show(args)) => show(session, args).await,
        Some(Credits::Mint(args)) => mint(session, json!({ "amountUsd": args.amount, "label": args.label }), args.once).await,
        Some(Credits::TopUp(args)) => mint(session, json!({ "amountUsd": args.amount, "creditId": args.id }), args.once).await,
        Some(Credits::Budget(args)) => budget(session, args).await,
        Some(Credits::Revoke(args)) => revoke_or_restore(session, &args, "revoke").await,
        Some(Credits::Restore(args)) => revoke_or_restore(session, &args, "restore").await,
    }
}

async fn all(session: &Session, back: &HistoryArgs) -> Result {
    let ask = || session.client.get(&["ai", "credits"]).by(CredentialChoice::Admin);
    let page = back.read("credits", "createdAt", ListOrder::OldestFirst, ask).await?;
    if session.out.json {
        return session.out.document(&page);
    }
    let mut table = Table::new(&["credit", ">left", "made", "", "label"]);
    for one in list(&page, "credits") {
        let revoked = if one["revoked"].is_null() { "" } else { "revoked" };
        table.row([text(one, "creditId"), &usd(one, "balanceUsd"), &moment(one, "createdAt"), revoked, text(one, "label")]);
    }
    session.out.table(&table, "no credit was minted yet: tollhouse credits mint USD")?;
    paging::rest(session.out, &page);
    Ok(())
}

async fn show(session: &Session, args: ShowArgs) -> Result {
    let who = if args.id.is_some() { CredentialChoice::Holder } else { CredentialChoice::Credit };
    let ask = || session.client.get(&["ai", "credits"]).by(who).query_opt("creditId", args.id.as_ref());
    let page = args.back.read("movements", "at", ListOrder::NewestFirst, ask).await?;
    if session.out.json {
        return session.out.document(&page);
    }
    session.out.text(&about(&page))?;
    let mut table = Table::new(&["at", "what", ">amount", ">left", "endpoint", "receipt"]);
    for one in list(&page, "movements") {
        let (amount, remaining) = (usd(one, "amountUsd"), usd(one, "balanceUsd"));
        table.row([&moment(one, "at"), text(one, "kind"), &amount, &remaining, text(one, "slug"), text(one, "receiptId")]);
    }
    session.out.table(&table, "nothing moved it yet")?;
    paging::rest(session.out, &page);
    Ok(())
}

fn about(credit: &Value) -> String {
    let mut facts = FactList::default();
    facts.add("credit", text(credit, "creditId"));
    facts.add("label", text(credit, "label"));
    facts.add("left", usd(credit, "balanceUsd"));
    facts.add("spent today", usd(credit, "today.spentUsd"));
    facts.add("left today", usd(credit, "today.leftUsd"));
    for (name, member) in [("a day", "perDayUsd"), ("a call", "perCallUsd"), ("a tool a day", "perToolUsd"), ("told at", "alertAtUsd")] {
        facts.add(name, usd(&credit["budget"], member));
    }
    facts.add("frozen", if credit["budget"]["frozen"] == true { "it pays for nothing" } else { "" });
    facts.add("revoked", any(credit, "revoked.reason"));
    facts.text()
}

async fn mint(session: &Session, mut draft: Value, once: Option<String>) -> Result {
    if let Some(members) = draft.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    let asking = session.client.post(&["ai", "credits"]).by(CredentialChoice::Admin).json(&draft);
    let asking = match &once {
        Some(key) => asking.header("idempotency-key", key),
        None => asking,
    };
    let answer = asking.send().await?.body;
    let Some(token) = answer["credit"].as_str() else { return session.out.print(&answer, about) };
    let id = line(text(&answer, "creditId"));
    let reported = session.out.print_secret(&answer, &format!("the token of {id}"), |answer| {
        session.out.note(&format!("{id} with {}; its token is shown this once:", usd(answer, "balanceUsd")));
        format!("{}\n", line(token))
    });
    reported.map_err(|error| error.hint(format!("take back what is in it: tollhouse credits revoke {id}")))
}

async fn budget(session: &Session, args: BudgetArgs) -> Result {
    let bounds = [("perDayUsd", args.per_day), ("perCallUsd", args.per_call), ("perToolUsd", args.per_tool), ("alertAtUsd", args.alert_at)];
    let mut budget = json!({});
    for (name, usd) in bounds.into_iter().filter_map(|(name, usd)| Some((name, usd?))) {
        budget[name] = json!(usd);
    }
    if args.frozen {
        budget["frozen"] = json!(true);
    }
    if budget == json!({}) && !args.none {
        return Err(Error::usage("say what to bound, or --none to lift all bounds"));
    }
    let who = if args.id.is_some() { CredentialChoice::Holder } else { CredentialChoice::Credit };
    let id = args.id.as_ref();
    let before = session.client.get(&["ai", "credits"]).by(who).query_opt("creditId", id).query("limit", 1).send().await?.body;
    let revision = before["budgets"]["revision"].as_u64();
    let asking = session.client.ask(reqwest::Method::PUT, &["ai", "credits", "budget"]).by(who).query_opt("creditId", id);
    let answer = asking.if_match(revision).json(&budget).send().await?.body;
    session.out.print(&answer, |answer| match changes(&before["budgets"], &answer["budgets"]) {
        changed if changed.is_empty() => "it is as it was\n".to_owned(),
        changed => changed.join("\n") + "\n",
    })
}

async fn revoke_or_restore(session: &Session, args: &RevokeArgs, decision: &str) -> Result {
    let verdict = json!({ "decision": decision, "reason": args.reason });
    let answer = session.client.post(&["ai", "admin", "credits", &args.id]).by(CredentialChoice::Admin).json(&verdict).send().await?.body;
    session.out.print(&answer, about)
}
