//! `tollhouse reviews`: shows the reviews that wait for an admin, and records decisions. Each decision applies to the
//! revision that was read.

use serde_json::{Value, json};
use tollhouse_tool::Slug;

use super::{
    base::{
        changed::{changes, short},
        client::CredentialChoice,
        error::Result,
        paging::{self, HistoryArgs, ListOrder},
        prompt,
        sanitize::{block, line},
        session::Session,
        table::{FactList, Table},
        text::{any, found_at, granted, list, moment, text},
    },
    change::ReadEndpoint,
    show::record,
};

/// Reviews of endpoints, and other decisions of admins on them.
#[derive(clap::Subcommand)]
pub(crate) enum Reviews {
    /// What waits, longest first.
    List(HistoryArgs),
    /// What one asks for, what was found in it, and what changed since it was approved.
    Show(ShowArgs),
    /// Grants what is asked for, or a part of it.
    Approve(DecideArgs),
    /// Refuses it.
    Reject(DecideArgs),
    /// Has a decision be made anew.
    Reopen(DecideArgs),
    /// Takes back what was granted.
    Revoke(DecideArgs),
    /// Has an endpoint take no calls, whatever its owner does.
    Takedown(DecideArgs),
    /// Lifts a takedown.
    Restore(DecideArgs),
}

/// Arguments of `reviews show`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Endpoint
    slug: Slug,
}

/// Arguments of a decision.
#[derive(clap::Args)]
pub(crate) struct DecideArgs {
    /// Endpoint
    slug: Slug,
    /// Why, shown to its owner
    #[arg(long)]
    reason: Option<String>,
    /// Only these capabilities, comma-separated [default: all that it is about]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    capabilities: Option<Vec<String>>,
    /// Only these hosts, comma-separated
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    hosts: Option<Vec<String>>,
    /// A cap on one of its limits, such as `wallMs=5000`; `wallMs=` lifts it
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit)]
    limit: Vec<(String, Option<u64>)>,
    /// How its code runs: `jit` or `jitless`
    #[arg(long)]
    tier: Option<String>,
    /// Only where its revision is still this one [default: the one that is read]
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

fn limit(text: &str) -> std::result::Result<(String, Option<u64>), String> {
    let (name, value) = text.split_once('=').ok_or("it is of the form NAME=VALUE")?;
    let value = if value.is_empty() { None } else { Some(value.parse().map_err(|_| "a limit is a whole number")?) };
    Ok((name.to_owned(), value))
}

pub(crate) async fn run(session: &Session, back: HistoryArgs, command: Option<Reviews>) -> Result {
    match command {
        None => waiting(session, &back).await,
        Some(Reviews::List(back)) => waiting(session, &back).await,
        Some(Reviews::Show(args)) => show(session, args).await,
        Some(Reviews::Approve(args)) => decide(session, args, "approve").await,
        Some(Reviews::Reject(args)) => decide(session, args, "reject").await,
        Some(Reviews::Reopen(args)) => decide(session, args, "reopen").await,
        Some(Reviews::Revoke(args)) => decide(session, args, "revoke").await,
        Some(Reviews::Takedown(args)) => decide(session, args, "takedown").await,
        Some(Reviews::Restore(args)) => decide(session, args, "restore").await,
    }
}

async fn waiting(session: &Session, back: &HistoryArgs) -> Result {
    let ask = || session.client.get(&["ai", "admin", "reviews"]).by(CredentialChoice::Admin);
    let page = back.read("reviews", "since", ListOrder::OldestFirst, ask).await?;
    if session.out.json {
        return session.out.document(&page);
    }
    let mut table = Table::new(&["slug", "waits since", ">rev", "asks for", "content", ">findings", "owner"]);
    for one in list(&page, "reviews") {
        let (since, rev, asks) = (moment(one, "since"), any(one, "revision"), asked(one));
        let findings = list(one, "findings").count().to_string();
        table.row([text(one, "slug"), &since, &rev, &asks, text(one, "content"), &findings, text(one, "owner")]);
    }
    session.out.table(&table, "nothing waits for you")?;
    paging::rest(session.out, &page);
    Ok(())
}

fn asked(one: &Value) -> String {
    let hosts = list(one, "requestedHosts").filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    format!("{} {hosts}", granted(one, "requestedCapabilities")).trim().to_owned()
}

async fn show(session: &Session, args: ShowArgs) -> Result {
    let endpoint =
        session.client.get(&["ai", "endpoints", args.slug.as_str()]).by(CredentialChoice::Admin).send().await?.body["endpoint"].take();
    if session.out.json {
        return session.out.document(&json!({ "ok": true, "endpoint": endpoint }));
    }
    let mut facts = FactList::default();
    for (name, member) in [("slug", "slug"), ("title", "title"), ("owner", "owner"), ("review", "review.state")] {
        facts.add(name, text(&endpoint, member));
    }
    facts.add("since", moment(&endpoint, "review.since"));
    facts.add("revision", any(&endpoint, "revision"));
    facts.add("version", short(text(&endpoint, "version")));
    facts.add("approved", short(text(&endpoint, "review.approvedVersion")));
    facts.add("may", granted(&endpoint, "capabilities"));
    facts.add("asks for", asked(&endpoint));
    let mut message = facts.text();
    for finding in findings(&endpoint) {
        message += &line(&format!("finding  {}  {}  {}", text(finding, "rule"), found_at(finding), text(finding, "excerpt")));
        message.push('\n');
    }
    if let Some(before) = endpoint["review"]["approvedFields"].as_object() {
        let now: serde_json::Map<_, _> = before.keys().map(|name| (name.clone(), endpoint[name].clone())).collect();
        for changed in changes(&json!(before), &json!(now)) {
            message += &format!("changed since it was approved  {changed}\n");
        }
    }
    message += &format!("\n  {}\n", block(text(&endpoint, "description"), "  "));
    session.out.text(&message)?;
    session.out.note(&format!("its source: tollhouse show {} --source", args.slug));
    Ok(())
}

/// Returns the findings in a tool. The records of its review and of its content contain the same findings, and only one
/// of them has line numbers, so duplicates are merged.
fn findings(endpoint: &Value) -> Vec<&Value> {
    let mut found: Vec<&Value> = vec![];
    let same = |one: &Value, other: &Value| {
        let lines = [one, other].map(|finding| finding["line"].as_u64());
        ["rule", "field"].iter().all(|name| one[name] == other[name]) && (lines[0] == lines[1] || lines.contains(&None))
    };
    for finding in list(endpoint, "review.findings").chain(list(endpoint, "contentSafety.findings")) {
        match found.iter_mut().find(|known| same(known, finding)) {
            Some(known) if known["line"].is_null() => *known = finding,
            Some(_) => {}
            None => found.push(finding),
        }
    }
    found
}

async fn decide(session: &Session, args: DecideArgs, decision: &str) -> Result {
    if !args.yes && !prompt::is_asked() {
        return prompt::require_terminal(&format!("{decision} {}", args.slug), "--yes");
    }
    let read = ReadEndpoint { record: record(session, &args.slug).await?, slug: args.slug.clone(), revision: args.onto };
    let revision = args.onto.or(read.record["revision"].as_u64());
    let read = ReadEndpoint { revision, ..read };
    if !args.yes {
        let asks = asked(&read.record);
        let what = if asks.is_empty() { String::new() } else { format!(", which asks for {}", line(&asks)) };
        let owner = line(text(&read.record, "owner"));
        prompt::require_terminal(
            &format!("{decision} {} of {owner} at revision {}{what}?", read.slug, revision.unwrap_or_default()),
            "--yes",
        )?;
    }
    let mut verdict = json!({ "decision": decision });
    if let Some(reason) = args.reason {
        verdict["reason"] = json!(reason);
    }
    if let Some(names) = args.capabilities {
        verdict["capabilities"] = names.into_iter().map(|name| (name, json!(true))).collect::<serde_json::Map<_, _>>().into();
    }
    if let Some(hosts) = args.hosts {
        verdict["allowedHosts"] = json!(hosts);
    }
    if !args.limit.is_empty() {
        verdict["limits"] = args.limit.into_iter().map(|(name, value)| (name, json!(value))).collect::<serde_json::Map<_, _>>().into();
    }
    if let Some(tier) = args.tier {
        verdict["tier"] = json!(tier);
    }
    let asking = session
        .client
        .post(&["ai", "admin", "reviews", read.slug.as_str()])
        .by(CredentialChoice::Admin)
        .if_match(read.revision)
        .json(&verdict);
    let answer = match asking.send().await {
        Err(error) if error.code() == "revision_changed" => return Err(read.confirm_slow_change(session, error).await),
        ended => ended?.body,
    };
    session.out.print(&answer, |answer| {
        let endpoint = &answer["endpoint"];
        let may = granted(endpoint, "capabilities");
        format!(
            "{}: {decision}, revision {}, {}; it may: {}\n",
            read.slug,
            endpoint["revision"],
            line(text(endpoint, "status")),
            line(&may)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_reported_once_and_with_its_line() {
        let bare = json!({ "rule": "code.eval", "field": "/handler/source" });
        let at = |line: u64| json!({ "rule": "code.eval", "field": "/handler/source", "line": line });
        let title = json!({ "rule": "words.title", "field": "/title" });
        let endpoint = json!({ "review": { "findings": [at(3), at(9), title] }, "contentSafety": { "findings": [bare, title] } });
        let listed: Vec<_> = findings(&endpoint).into_iter().map(found_at).collect();
        assert_eq!(listed, ["/handler/source:3", "/handler/source:9", "/title"]);
        let endpoint = json!({ "review": { "findings": [bare] }, "contentSafety": { "findings": [at(3)] } });
        assert_eq!(findings(&endpoint).into_iter().map(found_at).collect::<Vec<_>>(), ["/handler/source:3"]);
    }
}
