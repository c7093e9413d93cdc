//! `tollhouse builders` and `register`: the builders of a host, and becoming one.

use std::time::Duration;

use reqwest::Url;
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;
use tollhouse_api::{
    BuilderDecision, BuilderKeyResponse, BuilderPage, BuilderResponse, BuilderVerdict, RegistrationRequest, RegistrationResponse,
};
use tollhouse_config::HiddenValue;
use tollhouse_money::payer::PayableTerms;
use tollhouse_protocol::Tier;
use tollhouse_tool::{ANY_PUBLIC_HOST, MicroUsd};

use super::{
    base::{
        ConfirmArgs, CredentialChoice, Error, PageArgs, Result, Role, Session, bytes, line, moment, name, optional, paging, prompt, usd,
    },
    credential_lock::CredentialLock,
    pay::Challenge,
};

/// Builders of a host.
#[derive(clap::Subcommand)]
pub(crate) enum Builders {
    /// List builders with their revenue, oldest first (admins)
    List(PageArgs),
    /// Suspend a builder (admins)
    Suspend(DecideArgs),
    /// Lift a suspension (admins)
    Restore(DecideArgs),
    /// Set the least strict tier for a builder's tools (admins)
    Tier {
        /// Builder id
        id: String,
        /// `jit` or `jitless`
        #[arg(value_parser = tier)]
        tier: Tier,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Let a builder's tools reach any public host (admins)
    Grant(DecideArgs),
    /// Withdraw the grant, for later publishes (admins)
    Revoke(DecideArgs),
    /// Replace a builder key, and show the new one once
    NewKey(KeyArgs),
}

/// The hosts of `builders grant` and `revoke`.
fn any_public() -> Vec<String> {
    vec![ANY_PUBLIC_HOST.to_owned()]
}

/// Arguments of a decision on a builder.
#[derive(clap::Args)]
pub(crate) struct DecideArgs {
    /// Builder id
    id: String,
    /// Reason, shown to the builder
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// Arguments of `builders new-key`.
#[derive(clap::Args)]
pub(crate) struct KeyArgs {
    /// Builder id (admins) [default: yourself]
    #[arg(long, value_name = "ID")]
    builder: Option<String>,
    /// Store the key for the profile instead of showing it
    #[arg(long, conflicts_with = "builder")]
    keep: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// Arguments of `register`.
#[derive(clap::Args)]
pub(crate) struct RegisterArgs {
    /// Name that callers see [default: prompt]
    name: Option<String>,
    /// Contact address for admins
    #[arg(long)]
    contact: Option<String>,
    /// Store the key for the profile instead of showing it
    #[arg(long)]
    keep: bool,
    /// Idempotency key: attempts with the same key are paid once
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
}

/// Path of the operation that registers a builder.
const REGISTER: [&str; 3] = ["ai", "builders", "register"];

/// Maximum number of bytes that are read of a payment challenge.
const MAX_CHALLENGE: usize = 1 << 20;

/// How long to wait for the price of a registration. Without it, the hint names none.
const PRICE_WITHIN: Duration = Duration::from_secs(5);

/// Parses the name of a tier.
pub(crate) fn tier(name: &str) -> std::result::Result<Tier, String> {
    Tier::named(name).ok_or_else(|| "expected `jit` or `jitless`".to_owned())
}

pub(crate) async fn run(session: &Session, command: Option<Builders>) -> Result {
    let verdict = |decision: BuilderDecision, args: DecideArgs| {
        args.confirm.require(&format!("{} builder {}?", name(decision), line(&args.id)))?;
        Ok::<_, Error>((args.id, BuilderVerdict { decision, tier: None, allowed_hosts: vec![], reason: args.reason }))
    };
    let hosts = |decision: BuilderDecision, args: DecideArgs| {
        args.confirm.require(&format!("{} any public host for the tools of builder {}?", name(decision), line(&args.id)))?;
        Ok::<_, Error>((args.id, BuilderVerdict { decision, tier: None, allowed_hosts: any_public(), reason: args.reason }))
    };
    let (id, verdict) = match command {
        None => return list(session, &PageArgs { limit: 50, cursor: None }).await,
        Some(Builders::List(paging)) => return list(session, &paging).await,
        Some(Builders::NewKey(args)) => return new_key(session, args).await,
        Some(Builders::Suspend(args)) => verdict(BuilderDecision::Suspend, args)?,
        Some(Builders::Restore(args)) => verdict(BuilderDecision::Restore, args)?,
        Some(Builders::Grant(args)) => hosts(BuilderDecision::Grant, args)?,
        Some(Builders::Revoke(args)) => hosts(BuilderDecision::Revoke, args)?,
        Some(Builders::Tier { id, tier, confirm }) => {
            confirm.require(&format!("set the tier of builder {} to {tier}?", line(&id)))?;
            (id, BuilderVerdict { decision: BuilderDecision::Tier, tier: Some(tier), allowed_hosts: vec![], reason: None })
        }
    };
    let asking = session.client.post(&["ai", "admin", "builders", &id]).by(CredentialChoice::Admin).json(&verdict);
    session.out.print(&asking.send::<BuilderResponse>().await?.body, |BuilderResponse { builder, .. }| {
        let state = if builder.suspended.is_none() { "is active" } else { "is suspended" };
        let hosts = if builder.allowed_hosts.is_empty() { "" } else { ", any public host" };
        line(&format!("{} ({}) {state}, tier {}{hosts}", builder.name, builder.builder_id, builder.tier)) + "\n"
    })
}

async fn list(session: &Session, paging: &PageArgs) -> Result {
    let page: BuilderPage = paging::read(paging, || session.client.get(&["ai", "admin", "builders"]).by(CredentialChoice::Admin)).await?;
    let heads = ["builder", ">tools", ">calls 30 d", ">net 30 d", "seen", "", "name", "contact"];
    paging::print(session.out, page, heads, "no builders yet", |entry| {
        let builder = &entry.builder;
        let suspended = if builder.suspended.is_none() { "" } else { "suspended" };
        let (calls, net) = (entry.last30_days.calls.to_string(), usd(entry.last30_days.net_usd));
        let (id, contact) = (builder.builder_id.to_string(), optional(builder.contact.as_ref()));
        [id, entry.endpoints.to_string(), calls, net, moment(entry.seen_at), suspended.to_owned(), builder.name.clone(), contact]
    })
}

async fn new_key(session: &Session, args: KeyArgs) -> Result {
    args.confirm.require("create a new key? The old key stops working")?;
    let lock = if args.keep { Some(CredentialLock::of(session)?) } else { None };
    let asking = session.client.post(&["ai", "builders", "keys"]).query_opt("builderId", args.builder.as_ref());
    let answer: BuilderKeyResponse = asking.send().await?.body;
    let (id, key) = (answer.builder_id.clone(), answer.builder_key.clone());
    hand_out(session, answer, id.as_str(), key, lock)
}

pub(crate) async fn register(session: &Session, args: RegisterArgs) -> Result {
    let name = args.name.map_or_else(|| prompt::ask("name that callers see", "NAME"), Ok)?;
    let lock = if args.keep { Some(CredentialLock::of(session)?) } else { None };
    let applicant = RegistrationRequest { name, contact: args.contact };
    let asking = session.client.post(&REGISTER).by(CredentialChoice::Payer).json(&applicant);
    let answer = match asking.idempotent(args.once.as_deref()).send::<RegistrationResponse>().await {
        Err(error) if error.code() == "payment_required" => {
            let price = timeout(PRICE_WITHIN, registration_price(session, &applicant)).await.unwrap_or_default();
            return Err(error.hint(how_to_pay(&session.client.at(&REGISTER), price)));
        }
        ended => ended?,
    };
    let (id, key) = (answer.body.builder_id.clone(), answer.body.builder_key.clone());
    match key {
        Some(key) => hand_out(session, answer.body, id.as_str(), key, lock),
        None => session
            .out
            .print(&answer.body, |_| format!("{} is already registered; a key that was used is not shown again\n", line(id.as_str()))),
    }
}

/// Reads the price of a registration from the challenge that an unpaid request gets.
async fn registration_price(session: &Session, applicant: &RegistrationRequest) -> Option<MicroUsd> {
    let unpaid = session.client.post(&REGISTER).by(CredentialChoice::Everyone).json(applicant).open().await.ok()?;
    let headers = unpaid.headers().clone();
    let challenge = Challenge::read(&headers, &bytes(unpaid, MAX_CHALLENGE).await.ok()?)?;
    let price = |accepted: &Value| {
        let terms = PayableTerms::read(challenge.version, accepted).ok()?;
        terms.usd(terms.token()?)
    };
    challenge.accepts.iter().find_map(price)
}

/// Returns the hint for a registration that was not paid.
fn how_to_pay(url: &Url, price: Option<MicroUsd>) -> String {
    let (costs, max) = price.map_or((String::new(), "USD".to_owned()), |price| (format!("{}, ", usd(price)), price.to_string()));
    format!(
        "registering costs money: {costs}with a developer credit (tollhouse login, or TOLLHOUSE_CREDIT), or with a key: \
         tollhouse call {url} --json '{{\"name\":\"NAME\"}}' --max-usd {max}"
    )
}

/// Stores a builder's new key in the profile that is locked, or prints it.
fn hand_out(session: &Session, answer: impl Serialize, id: &str, key: String, lock: Option<CredentialLock>) -> Result {
    let (id, key) = (line(id), HiddenValue::from(key));
    let Some(lock) = lock else {
        let reported = session.out.print_secret(&answer, &format!("the key of {id}"), |_| {
            session.out.note(&format!("builder {id}; the key is shown only once:"));
            format!("{}\n", line(key.expose()))
        });
        return reported.map_err(|error| error.hint(format!("an admin can create a new key: tollhouse builders new-key --builder {id}")));
    };
    let profile = lock.name.clone();
    lock.keep(session.client.base(), Role::Builder, key)?;
    let mut document = serde_json::to_value(&answer).map_err(|error| Error::refused(error.to_string()))?;
    if let Some(fields) = document.as_object_mut() {
        fields.remove("builderKey");
        fields.insert("profile".to_owned(), profile.clone().into());
    }
    session.out.print(&document, |_| format!("builder {id}; the key is stored for profile {profile}\n"))
}
