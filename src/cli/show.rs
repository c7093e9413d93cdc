//! `tollhouse show` and `versions`: show a tool, the stored versions of its handler, and its source.

use serde_json::{Map, Value};
use tollhouse_tool::{Slug, WithResponse};

use super::base::{
    changed::short,
    client::CredentialChoice,
    error::Result,
    sanitize::{block, json_text_for_people, line},
    session::Session,
    table::{FactList, Table},
    text::{any, call_price, found_at, granted, list, moment, text},
};

/// Arguments of `show`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Endpoint [default: that of the folder]
    slug: Option<Slug>,
    /// The handler's source in place of the record (its owner, and admins)
    #[arg(long)]
    source: bool,
    /// Version of the source [default: the one that runs]
    #[arg(long, requires = "source")]
    version: Option<String>,
}

/// Arguments of `versions`.
#[derive(clap::Args)]
pub(crate) struct VersionsArgs {
    /// Endpoint [default: that of the folder]
    slug: Option<Slug>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let slug = session.slug(args.slug)?;
    if args.source {
        return source(session, &slug, args.version).await;
    }
    let answer = session.client.get(&["ai", "endpoints", slug.as_str()]).by(CredentialChoice::Anyone).send().await?;
    session.out.print(&answer.body, |answer| details(&answer["endpoint"]))
}

async fn source(session: &Session, slug: &Slug, version: Option<String>) -> Result {
    let version = match version {
        Some(version) => Some(whole(&record(session, slug).await?, &version)),
        None => None,
    };
    let asking = session.client.get(&["ai", "endpoints", slug.as_str(), "source"]).query_opt("version", version);
    let answer = asking.send_for_handler().await?;
    match answer.body["handler"]["source"].as_str() {
        Some(source) if !session.out.json => session.out.copy(source),
        Some(_) | None => {
            let response = answer.body["handler"]["response"].as_str().unwrap_or("null");
            let empty = Map::new();
            let document = WithResponse(answer.body.as_object().unwrap_or(&empty));
            session.out.print(&document, |_| json_text_for_people(response).unwrap_or_default() + "\n")
        }
    }
}

/// Gets the owner's record of a tool.
pub(crate) async fn record(session: &Session, slug: &Slug) -> Result<Value> {
    Ok(session.client.get(&["ai", "endpoints", slug.as_str()]).send().await?.body["endpoint"].take())
}

/// Returns the stored version whose hash begins with `said`. Returns `said` itself if no version or several begin with
/// it, or if it has fewer than four characters.
pub(crate) fn whole(endpoint: &Value, message: &str) -> String {
    let hash = message.strip_prefix("sha256:").unwrap_or(message);
    let all = list(endpoint, "versions").map(|stored| text(stored, "version"));
    let fitting: Vec<_> = all.filter(|version| version.strip_prefix("sha256:").is_some_and(|whole| whole.starts_with(hash))).collect();
    match fitting[..] {
        [one] if hash.len() >= 4 => one.to_owned(),
        _ => message.to_owned(),
    }
}

/// Describes a record for people.
fn details(endpoint: &Value) -> String {
    let mut facts = FactList::default();
    for (name, member) in
        [("slug", "slug"), ("title", "title"), ("status", "status"), ("url", "url"), ("owner", "owner"), ("builder", "builder.name")]
    {
        facts.add(name, text(endpoint, member));
    }
    facts.add("price", call_price(endpoint));
    facts.add("charged", if endpoint["settle"] == "before" { "before the handler runs" } else { "" });
    facts.add("version", short(text(endpoint, "version")));
    facts.add("revision", any(endpoint, "revision"));
    facts.add("may", granted(endpoint, "capabilities"));
    facts.add("hosts", list(endpoint, "allowedHosts").filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    facts.add("asks for", granted(endpoint, "requestedCapabilities"));
    facts.add("asks for hosts", list(endpoint, "requestedHosts").filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    facts.add("review", Some(text(endpoint, "review.state")).filter(|state| *state != "none").unwrap_or_default());
    facts.add("decided", text(endpoint, "review.decision.decision"));
    facts.add("because", text(endpoint, "review.decision.reason"));
    facts.add("limits", limits(endpoint));
    facts.add("tags", list(endpoint, "tags").filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    facts.add("calls 30 d", any(endpoint, "usage.calls30d"));
    facts.add("median", Some(any(endpoint, "usage.medianMs")).filter(|ms| !ms.is_empty()).map(|ms| ms + " ms").unwrap_or_default());
    facts.add("changed", moment(endpoint, "updatedAt"));
    let mut message = facts.text();
    for finding in list(endpoint, "contentSafety.findings") {
        message += &line(&format!("finding: {} at {}", text(finding, "rule"), found_at(finding)));
        message.push('\n');
    }
    match text(endpoint, "description") {
        "" => message,
        words => format!("{message}\n  {}\n", block(words, "  ")),
    }
}

fn limits(endpoint: &Value) -> String {
    let own = endpoint["ownLimits"].as_object().or(endpoint["limits"].as_object());
    own.into_iter().flatten().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

pub(crate) async fn versions(session: &Session, args: VersionsArgs) -> Result {
    let slug = session.slug(args.slug)?;
    let endpoint = record(session, &slug).await?;
    let running = text(&endpoint, "version");
    if session.out.json {
        return session.out.document(&serde_json::json!({ "slug": slug, "version": running, "versions": endpoint["versions"] }));
    }
    let mut table = Table::new(&["version", "published", "by", "via", "", "note"]);
    for stored in list(&endpoint, "versions") {
        let version = text(stored, "version");
        let mark = match version {
            _ if version == running => "runs",
            _ if version == text(&endpoint, "review.approvedVersion") => "approved",
            _ => "",
        };
        table.row([&short(version), &moment(stored, "createdAt"), text(stored, "by"), text(stored, "via"), mark, text(stored, "note")]);
    }
    session.out.table(&table, "no version is kept")
}
