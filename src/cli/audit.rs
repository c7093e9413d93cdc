//! `tollhouse audit`: lists who requested which change, and the outcome.

use tollhouse_api::AuditPage;
use tollhouse_tool::Slug;

use super::base::{CredentialChoice, PageArgs, Result, Session, moment, name, optional, paging};

/// Arguments of `audit`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Start, for example `24h` (ago) or `2026-11-22`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only changes by `admin`, or by the builder with this id
    #[arg(long, value_name = "WHO")]
    actor: Option<String>,
    /// Only changes of this tool
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
    let page: AuditPage = paging::read(&args.paging, ask).await?;
    let heads = ["at", "who", "what", "on", "fields", ">status", "code"];
    paging::print(session.out, page, heads, "no changes since then", |entry| {
        let who = entry.actor.builder_id.as_ref().map_or_else(|| name(entry.actor.kind), ToString::to_string);
        // Without an outcome, the host was killed or crashed during the action.
        let (status, code) = match &entry.outcome {
            Some(outcome) => (outcome.status.to_string(), outcome.code.clone().unwrap_or_default()),
            None => ("interrupted".to_owned(), String::new()),
        };
        let what = format!("{} {}", entry.method, entry.path);
        // Earlier hosts name only the tool.
        [moment(entry.at), who, what, optional(entry.subject.as_ref()), entry.fields.join(" "), status, code]
    })
}
