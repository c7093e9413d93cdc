//! `tollhouse credits`: developer credit, for holders and for admins.

use serde_json::json;
use tollhouse_api::{
    Budget, Credit, CreditDay, CreditDecision, CreditHistory, CreditMovement, CreditPage, CreditResponse, CreditVerdict, MintCreditRequest,
    MintCreditResponse,
};
use tollhouse_tool::MicroUsd;

use super::base::{
    ConfirmArgs, CredentialChoice, Error, FactList, HistoryArgs, ListOrder, Result, Session, changes, dollars, line, moment, name,
    optional, paging, signed_usd, usd,
};

/// Developer credits.
#[derive(clap::Subcommand)]
pub(crate) enum Credits {
    /// List all credits, oldest first (admins)
    List(HistoryArgs),
    /// Show a credit with its movements
    Show(ShowArgs),
    /// Mint a credit, and show its token once (admins)
    Mint {
        /// US dollars
        #[arg(value_parser = dollars)]
        amount: MicroUsd,
        /// Label, shown to its holder
        #[arg(long)]
        label: Option<String>,
        /// Idempotency key: attempts with the same key mint once
        #[arg(long, value_name = "KEY")]
        once: Option<String>,
    },
    /// Top up a credit (admins)
    TopUp {
        /// Credit
        id: String,
        /// US dollars
        #[arg(value_parser = dollars)]
        amount: MicroUsd,
        /// Idempotency key: attempts with the same key count once
        #[arg(long, value_name = "KEY")]
        once: Option<String>,
    },
    /// Replace the budget of a credit
    Budget(BudgetArgs),
    /// Revoke a credit (admins)
    Revoke(RevokeArgs),
    /// Restore a revoked credit (admins)
    Restore(RevokeArgs),
}

/// Arguments of `credits show`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Credit [default: your own]
    id: Option<String>,
    #[command(flatten)]
    back: HistoryArgs,
}

/// Arguments of `credits budget`.
#[derive(clap::Args)]
pub(crate) struct BudgetArgs {
    /// Credit [default: your own]
    id: Option<String>,
    /// Limit per UTC day, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    per_day: Option<MicroUsd>,
    /// Limit per call, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    per_call: Option<MicroUsd>,
    /// Limit per tool and UTC day, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    per_tool: Option<MicroUsd>,
    /// Spending per UTC day that causes an alert
    #[arg(long, value_name = "USD", value_parser = dollars)]
    alert_at: Option<MicroUsd>,
    /// Freeze the credit, so that it cannot pay for calls
    #[arg(long)]
    frozen: bool,
    /// Remove all limits
    #[arg(long, conflicts_with_all = ["per_day", "per_call", "per_tool", "alert_at", "frozen"])]
    none: bool,
}

/// Arguments of `credits revoke` and `restore`.
#[derive(clap::Args)]
pub(crate) struct RevokeArgs {
    /// Credit
    id: String,
    /// Reason, shown to its holder
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

pub(crate) async fn run(session: &Session, back: HistoryArgs, command: Option<Credits>) -> Result {
    match command {
        None => show(session, ShowArgs { id: None, back }).await,
        Some(Credits::List(back)) => list(session, &back).await,
        Some(Credits::Show(args)) => show(session, args).await,
        Some(Credits::Mint { amount, label, once }) => {
            mint(session, MintCreditRequest { amount_usd: amount, label, credit_id: None }, once).await
        }
        Some(Credits::TopUp { id, amount, once }) => {
            mint(session, MintCreditRequest { amount_usd: amount, label: None, credit_id: Some(id) }, once).await
        }
        Some(Credits::Budget(args)) => budget(session, args).await,
        Some(Credits::Revoke(args)) => decide(session, args, CreditDecision::Revoke).await,
        Some(Credits::Restore(args)) => decide(session, args, CreditDecision::Restore).await,
    }
}

async fn list(session: &Session, back: &HistoryArgs) -> Result {
    let ask = || session.client.get(&["ai", "credits"]).by(CredentialChoice::Admin);
    let page: CreditPage = back.read(|credit: &Credit| Some(credit.created_at), ListOrder::OldestFirst, ask).await?;
    let empty = "no credits yet; mint one: tollhouse credits mint USD";
    paging::print(session.out, page, ["credit", ">left", "created", "", "label"], empty, |credit| {
        let revoked = if credit.revoked.is_none() { "" } else { "revoked" };
        [credit.credit_id.to_string(), usd(credit.balance_usd), moment(credit.created_at), revoked.to_owned(), credit.label.clone()]
    })
}

/// Returns the credentials for requests about a credit: with an id, those of an admin too.
fn credential_for(id: Option<&String>) -> CredentialChoice {
    if id.is_some() { CredentialChoice::Holder } else { CredentialChoice::Credit }
}

async fn show(session: &Session, args: ShowArgs) -> Result {
    let id = args.id.as_ref();
    let ask = || session.client.get(&["ai", "credits"]).by(credential_for(id)).query_opt("creditId", id);
    let page: CreditHistory = args.back.read(|movement: &CreditMovement| Some(movement.at), ListOrder::NewestFirst, ask).await?;
    session.out.for_people(&about(&page.credit, Some(&page.today)))?;
    let heads = ["at", "what", ">amount", ">left", "tool", "receipt"];
    paging::print(session.out, page, heads, "no movements yet", |one| {
        let (slug, receipt) = (optional(one.slug.as_ref()), optional(one.receipt_id.as_ref()));
        [moment(one.at), name(one.kind), usd(one.amount_usd), signed_usd(one.balance_usd), slug, receipt]
    })
}

fn about(credit: &Credit, today: Option<&CreditDay>) -> String {
    let mut facts = FactList::default();
    facts.add("credit", &credit.credit_id);
    facts.add("label", &credit.label);
    facts.add("left", usd(credit.balance_usd));
    facts.add("spent today", usd(today.map(|today| today.spent_usd)));
    facts.add("left today", usd(today.and_then(|today| today.left_usd)));
    facts.add("per day", usd(credit.budget.per_day_usd));
    facts.add("per call", usd(credit.budget.per_call_usd));
    facts.add("per tool and day", usd(credit.budget.per_tool_usd));
    facts.add("alert at", usd(credit.budget.alert_at_usd));
    facts.add("frozen", if credit.budget.frozen { "yes, it cannot pay for calls" } else { "" });
    facts.add("revoked", optional(credit.revoked.as_ref().and_then(|revoked| revoked.reason.as_ref())));
    facts.text()
}

async fn mint(session: &Session, request: MintCreditRequest, once: Option<String>) -> Result {
    let asking = session.client.post(&["ai", "credits"]).by(CredentialChoice::Admin).json(&request);
    let answer: MintCreditResponse = asking.idempotent(once.as_deref()).send().await?.body;
    let (id, label, balance, token) = match &answer {
        MintCreditResponse::New(minted) => (&minted.credit_id, &minted.label, minted.balance_usd, minted.token.as_ref()),
        MintCreditResponse::Existing(existing) => {
            let credit = &existing.credit;
            (&credit.credit_id, &credit.label, credit.balance_usd, None)
        }
    };
    let Some(token) = token else {
        // Without a token, an existing credit got more.
        return session.out.print(&answer, |_| {
            let mut facts = FactList::default();
            facts.add("credit", id);
            facts.add("label", label);
            facts.add("left", usd(balance));
            facts.text()
        });
    };
    let id = line(id.as_str());
    let reported = session.out.print_secret(&answer, &format!("the token of {id}"), |_| {
        session.out.note(&format!("credit {id} with {}; the token is shown only once:", usd(balance)));
        format!("{}\n", line(token))
    });
    reported.map_err(|error| error.hint(format!("revoke the credit: tollhouse credits revoke {id}")))
}

async fn budget(session: &Session, args: BudgetArgs) -> Result {
    let budget = Budget {
        per_day_usd: args.per_day,
        per_call_usd: args.per_call,
        per_tool_usd: args.per_tool,
        alert_at_usd: args.alert_at,
        frozen: args.frozen,
    };
    if budget == Budget::default() && !args.none {
        return Err(Error::usage("give a limit, or --none to remove all limits"));
    }
    let (id, path) = (args.id.as_ref(), ["ai", "credits"]);
    let asking = session.client.get(&path).by(credential_for(id)).query_opt("creditId", id).query("limit", 1);
    let before = asking.send::<CreditHistory>().await?.body.credit.budgets;
    let asking = session.client.ask(reqwest::Method::PUT, &["ai", "credits", "budget"]).by(credential_for(id)).query_opt("creditId", id);
    let answer: CreditResponse = asking.if_match(Some(before.revision)).json(&budget).send().await?.body;
    session.out.print(&answer, |answer| match changes(&json!(before), &json!(answer.credit.budgets)) {
        changed if changed.is_empty() => "the budget did not change\n".to_owned(),
        changed => changed.join("\n") + "\n",
    })
}

async fn decide(session: &Session, RevokeArgs { id, reason, confirm }: RevokeArgs, decision: CreditDecision) -> Result {
    confirm.require(&format!("{} credit {}?", name(decision), line(&id)))?;
    let asking = session.client.post(&["ai", "admin", "credits", &id]).by(CredentialChoice::Admin);
    let answer: CreditResponse = asking.json(&CreditVerdict { decision, reason }).send().await?.body;
    session.out.print(&answer, |answer| about(&answer.credit, answer.today.as_ref()))
}
