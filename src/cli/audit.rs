//! `tollhouse audit`: lists who requested which change, and the outcome.

use tollhouse_tool::Slug;

use super::base::{
    client::CredentialChoice,
    error::Result,
    paging::{self, PageArgs},
    session::Session,
    table::Table,
    text::{any, list, moment, text},
};

/// Arguments of `audit`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// From when on, such as `24h` ago or `2026-11-22`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Of whom: `admin`, or a builder's id
    #[arg(long, value_name = "WHO")]
    actor: Option<String>,
    /// Of this endpoint alone
    #[arg(long)]
    slug: Option<Slug>,
    #[command(flatten)]
    paging: PageArgs,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let ask = || {
        let asking = session.client.get(&["ai", "admin", "audit"]).by(CredentialChoice::Admin).query_opt("since", args.since.as_ref());
        asking.query_opt("actor", args.actor.as_ref()).query_opt("slug", args.slug.as_ref().map(Slug::as_str))
    };
    let page = paging::read(&args.paging, "entries", ask).await?;
    if session.out.json {
        return session.out.document(&page);
    }
    let mut table = Table::new(&["at", "who", "what", "on", "fields", ">status", "code"]);
    for entry in list(&page, "entries") {
        let who = Some(text(entry, "actor.builderId")).filter(|id| !id.is_empty()).unwrap_or(text(entry, "actor.kind"));
        let what = format!("{} {}", text(entry, "method"), text(entry, "path"));
        let fields = list(entry, "fields").filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(" ");
        // Without an outcome, the host was killed or crashed during the action.
        let status = Some(any(entry, "outcome.status")).filter(|status| !status.is_empty()).unwrap_or_else(|| "cut off".to_owned());
        table.row([&moment(entry, "at"), who, &what, text(entry, "slug"), &fields, &status, text(entry, "outcome.code")]);
    }
    session.out.table(&table, "nothing was changed since then")?;
    paging::rest(session.out, &page);
    Ok(())
}
