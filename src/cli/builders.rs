//! `tollhouse builders` and `register`: the builders of a host, and becoming one.

use serde_json::{Value, json};
use tollhouse_config::HiddenValue;

use super::{
    base::{
        client::CredentialChoice,
        error::{Error, Result},
        global::Role,
        paging::{self, PageArgs},
        prompt,
        sanitize::line,
        session::Session,
        table::Table,
        text::{any, list, moment, text, usd},
    },
    credential_lock::CredentialLock,
};

/// Builders of a host.
#[derive(clap::Subcommand)]
pub(crate) enum Builders {
    /// All of them, the oldest first, with what they have and earn (admins).
    List(PageArgs),
    /// Has a builder publish, change and earn nothing (admins).
    Suspend(DecideArgs),
    /// Lifts that (admins).
    Restore(DecideArgs),
    /// How a builder's code runs at most (admins).
    Tier(TierArgs),
    /// A new key for a builder, shown this once on standard output; the old one is worth nothing from then on.
    NewKey(KeyArgs),
}

/// Arguments of a decision on a builder.
#[derive(clap::Args)]
pub(crate) struct DecideArgs {
    /// Builder
    id: String,
    /// Why, shown to the builder
    #[arg(long)]
    reason: Option<String>,
}

/// Arguments of `builders tier`.
#[derive(clap::Args)]
pub(crate) struct TierArgs {
    /// Builder
    id: String,
    /// `jit` or `jitless`
    tier: String,
}

/// Arguments of `builders new-key`.
#[derive(clap::Args)]
pub(crate) struct KeyArgs {
    /// Builder (admins) [default: oneself]
    #[arg(long, value_name = "ID")]
    builder: Option<String>,
    /// Keep it for the profile in place of the old one, and show it to nobody
    #[arg(long, conflicts_with = "builder")]
    keep: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Arguments of `register`.
#[derive(clap::Args)]
pub(crate) struct RegisterArgs {
    /// Name that callers see [default: asked for]
    name: Option<String>,
    /// How an admin reaches you
    #[arg(long)]
    contact: Option<String>,
    /// Keep the key for the profile, and show it to nobody
    #[arg(long)]
    keep: bool,
    /// The same for each attempt of one registration, which is then paid once
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
}

pub(crate) async fn run(session: &Session, command: Option<Builders>) -> Result {
    match command {
        None => all(session, &PageArgs { limit: 50, cursor: None }).await,
        Some(Builders::List(paging)) => all(session, &paging).await,
        Some(Builders::Suspend(args)) => decide(session, &args.id, json!({ "decision": "suspend", "reason": args.reason })).await,
        Some(Builders::Restore(args)) => decide(session, &args.id, json!({ "decision": "restore", "reason": args.reason })).await,
        Some(Builders::Tier(args)) => decide(session, &args.id, json!({ "decision": "tier", "tier": args.tier })).await,
        Some(Builders::NewKey(args)) => new_key(session, args).await,
    }
}

async fn all(session: &Session, paging: &PageArgs) -> Result {
    let page = paging::read(paging, "builders", || session.client.get(&["ai", "admin", "builders"]).by(CredentialChoice::Admin)).await?;
    if session.out.json {
        return session.out.document(&page);
    }
    let mut table = Table::new(&["builder", ">endpoints", ">calls 30 d", ">net 30 d", "seen", "", "name", "contact"]);
    for one in list(&page, "builders") {
        let suspended = if one["suspended"].is_null() { "" } else { "suspended" };
        let (endpoints, calls, net) = (any(one, "endpoints"), any(one, "last30Days.calls"), usd(one, "last30Days.netUsd"));
        let seen = moment(one, "seenAt");
        table.row([text(one, "builderId"), &endpoints, &calls, &net, &seen, suspended, text(one, "name"), text(one, "contact")]);
    }
    session.out.table(&table, "there is no builder yet")?;
    paging::rest(session.out, &page);
    Ok(())
}

async fn decide(session: &Session, id: &str, verdict: Value) -> Result {
    let answer = session.client.post(&["ai", "admin", "builders", id]).by(CredentialChoice::Admin).json(&verdict).send().await?.body;
    session.out.print(&answer, |answer| {
        let builder = &answer["builder"];
        let state = if builder["suspended"].is_null() { "works" } else { "is suspended" };
        line(&format!("{} ({}) {state}, tier {}", text(builder, "name"), text(builder, "builderId"), text(builder, "tier"))) + "\n"
    })
}

async fn new_key(session: &Session, args: KeyArgs) -> Result {
    if !args.yes {
        prompt::require_terminal("make a new key? The old one is worth nothing from then on", "--yes")?;
    }
    let keeping = if args.keep { Some(CredentialLock::of(session)?) } else { None };
    let asking = session.client.post(&["ai", "builders", "keys"]).query_opt("builderId", args.builder.as_ref());
    let answer = asking.send().await?.body;
    shown(session, answer, keeping)
}

pub(crate) async fn register(session: &Session, args: RegisterArgs) -> Result {
    let name = args.name.map_or_else(|| prompt::ask("name that callers see", "NAME"), Ok)?;
    let keeping = if args.keep { Some(CredentialLock::of(session)?) } else { None };
    let mut applicant = json!({ "name": name });
    if let Some(contact) = args.contact {
        applicant["contact"] = json!(contact);
    }
    let asking = session.client.post(&["ai", "builders", "register"]).by(CredentialChoice::Payer).json(&applicant);
    let asking = match &args.once {
        Some(key) => asking.header("idempotency-key", key),
        None => asking,
    };
    let answer = asking.send().await.map_err(|error| match error.code() {
        "payment_required" => priced(error),
        _ => error,
    })?;
    shown(session, answer.body, keeping)
}

fn priced(error: Error) -> Error {
    Error { hint: None, ..error }.hint("registering is paid like a call: tollhouse login with a developer credit, or set TOLLHOUSE_CREDIT")
}

fn shown(session: &Session, mut answer: Value, keeping: Option<CredentialLock>) -> Result {
    let id = line(text(&answer, "builderId"));
    let Some(key) = answer["builderKey"].as_str().map(|key| HiddenValue::from(key.to_owned())) else {
        return session.out.print(&answer, |_| format!("{id}: its key was used before, and is not shown again\n"));
    };
    let Some(keeping) = keeping else {
        let reported = session.out.print_secret(&answer, &format!("the key of {id}"), |_| {
            session.out.note(&format!("{id}; its key is shown this once:"));
            format!("{}\n", line(key.expose()))
        });
        return reported.map_err(|error| error.hint(format!("an admin makes another: tollhouse builders new-key --builder {id}")));
    };
    let name = keeping.name.clone();
    keeping.keep(session.client.base(), Role::Builder, key)?;
    if let Some(members) = answer.as_object_mut() {
        members.remove("builderKey");
        members.insert("profile".to_owned(), json!(name));
    }
    session.out.print(&answer, |_| format!("{id}; its key is kept for profile {name}\n"))
}
