//! `tollhouse reviews`: shows the reviews that wait for an admin, and records decisions. Each decision applies to the
//! revision that was read.

use serde_json::{Map, Value, json};
use tollhouse_api::{EndpointResponse, OwnEndpoint, OwnEndpointResponse, PendingReview, ReviewPage, ReviewState, ReviewVerdict};
use tollhouse_protocol::Tier;
use tollhouse_tool::{Capabilities, ReviewAction, Slug, finding::Finding};

use super::{
    base::{
        ConfirmArgs, CredentialChoice, Error, FactList, HistoryArgs, ListOrder, Result, Session, block, changes, found_at, granted, line,
        moment, name, optional, paging, short, with_hosts,
    },
    builders::tier,
    change::ReadEndpoint,
    show::{own, record},
};

/// Reviews of endpoints, and other decisions of admins on them.
#[derive(clap::Subcommand)]
pub(crate) enum Reviews {
    /// List tools that wait for review, longest wait first
    List(HistoryArgs),
    /// Show requests, findings and changes of a tool
    Show {
        /// Tool
        slug: Slug,
    },
    /// Grant the requests of a tool, or some of them
    Approve(DecideArgs),
    /// Reject the requests of a tool
    Reject(DecideArgs),
    /// Reopen a decision
    Reopen(DecideArgs),
    /// Revoke granted capabilities and hosts
    Revoke(DecideArgs),
    /// Take a tool down; its owner cannot undo it
    Takedown(DecideArgs),
    /// Lift a takedown
    Restore(DecideArgs),
}

/// Arguments of a decision.
#[derive(clap::Args)]
pub(crate) struct DecideArgs {
    /// Tool
    slug: Slug,
    /// Reason, shown to its owner
    #[arg(long)]
    reason: Option<String>,
    /// Only these capabilities, comma-separated [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    capabilities: Option<Vec<String>>,
    /// Only these hosts, comma-separated
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    hosts: Option<Vec<String>>,
    /// Cap on a limit: `wallMs=5000`; `wallMs=` removes it
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit)]
    limit: Vec<(String, Option<u64>)>,
    /// Tier of the code: `jit` or `jitless`
    #[arg(long, value_parser = tier)]
    tier: Option<Tier>,
    /// Fail unless at this revision; `approve --yes` requires it
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

fn limit(text: &str) -> std::result::Result<(String, Option<u64>), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let value = if value.is_empty() { None } else { Some(value.parse().map_err(|_| "a limit must be a whole number")?) };
    Ok((name.to_owned(), value))
}

pub(crate) async fn run(session: &Session, back: HistoryArgs, command: Option<Reviews>) -> Result {
    match command {
        None => list(session, &back).await,
        Some(Reviews::List(back)) => list(session, &back).await,
        Some(Reviews::Show { slug }) => show(session, &slug).await,
        Some(Reviews::Approve(args)) => decide(session, args, ReviewAction::Approve).await,
        Some(Reviews::Reject(args)) => decide(session, args, ReviewAction::Reject).await,
        Some(Reviews::Reopen(args)) => decide(session, args, ReviewAction::Reopen).await,
        Some(Reviews::Revoke(args)) => decide(session, args, ReviewAction::Revoke).await,
        Some(Reviews::Takedown(args)) => decide(session, args, ReviewAction::Takedown).await,
        Some(Reviews::Restore(args)) => decide(session, args, ReviewAction::Restore).await,
    }
}

async fn list(session: &Session, back: &HistoryArgs) -> Result {
    let ask = || session.client.get(&["ai", "admin", "reviews"]).by(CredentialChoice::Admin);
    let page: ReviewPage = back.read(|review: &PendingReview| review.since, ListOrder::OldestFirst, ask).await?;
    let heads = ["slug", "waiting since", ">rev", "requests", "content", ">findings", "owner"];
    paging::print(session.out, page, heads, "no tools wait for review", |one| {
        let asks = with_hosts(&one.requested_capabilities, &one.requested_hosts);
        let findings = one.findings.as_ref().map_or(0, Vec::len).to_string();
        [one.slug.to_string(), moment(one.since), one.revision.to_string(), asks, name(one.content), findings, one.owner.clone()]
    })
}

async fn show(session: &Session, slug: &Slug) -> Result {
    let asking = session.client.get(&["ai", "endpoints", slug.as_str()]).by(CredentialChoice::Admin);
    let answer: EndpointResponse = asking.send().await?.body;
    if session.out.json {
        return session.out.document(&answer);
    }
    let endpoint = own(answer).ok_or_else(|| Error::refused("the host returned only the public record; sign in as an admin"))?;
    session.out.text(&format!("{}\n  {}\n", facts(&endpoint), block(&endpoint.common.description, "  ")))?;
    session.out.note(&format!("show the source: tollhouse show {slug} --source"));
    if matches!(endpoint.review.state, ReviewState::CapabilitiesRequested | ReviewState::ContentReview | ReviewState::ContentBlocked) {
        session.out.note(&format!("approve this revision: tollhouse reviews approve {slug} --onto {}", endpoint.revision));
    }
    Ok(())
}

/// Describes what an admin decides on.
fn facts(endpoint: &OwnEndpoint) -> String {
    let (common, review) = (&endpoint.common, &endpoint.review);
    let mut facts = FactList::default();
    facts.add("slug", common.slug.as_str());
    facts.add("title", &common.title);
    facts.add("owner", &endpoint.owner);
    facts.add("review", name(review.state));
    facts.add("since", moment(review.since));
    facts.add("revision", endpoint.revision.to_string());
    facts.add("version", short(&endpoint.version));
    facts.add("approved", review.approved_version.as_deref().map(short).unwrap_or_default());
    facts.add("granted", granted(&common.capabilities));
    facts.add("requests", with_hosts(&endpoint.requested_capabilities, &endpoint.requested_hosts));
    let mut text = facts.text();
    for finding in findings(endpoint) {
        text += &line(&format!("finding  {}  {}  {}", finding.rule, found_at(finding), optional(finding.excerpt.as_ref())));
        text.push('\n');
    }
    let record = json!(endpoint);
    let now: Map<_, _> = review.approved_fields.keys().map(|name| (name.clone(), record[name].clone())).collect();
    for changed in changes(&json!(review.approved_fields), &json!(now)) {
        text += &format!("changed since the approval  {changed}\n");
    }
    text
}

/// Returns the findings in a tool. The records of its review and of its content contain the same findings, and only one
/// of them has line numbers, so duplicates are merged.
fn findings(endpoint: &OwnEndpoint) -> Vec<&Finding> {
    let content = endpoint.content_safety.iter().flat_map(|content| &content.findings);
    let mut found: Vec<&Finding> = vec![];
    for finding in endpoint.review.findings.iter().chain(content) {
        let is_same = |known: &&mut &Finding| {
            let has_line = known.line.is_some() && finding.line.is_some();
            known.rule == finding.rule && known.field == finding.field && (known.line == finding.line || !has_line)
        };
        match found.iter_mut().find(is_same) {
            Some(known) if known.line.is_none() => *known = finding,
            Some(_) => {}
            None => found.push(finding),
        }
    }
    found
}

async fn decide(session: &Session, args: DecideArgs, decision: ReviewAction) -> Result {
    let what = name(decision);
    args.confirm.require_terminal(&format!("{what} {}", args.slug))?;
    let approves = decision == ReviewAction::Approve;
    if approves && args.onto.is_none() && args.confirm.is_given() {
        let error = Error::usage("an approval with --yes requires --onto, with the revision that you read");
        return Err(error.hint(format!("read it: tollhouse reviews show {}", args.slug)));
    }
    let record = record(session, &args.slug).await?;
    if approves && args.onto.is_none() {
        session.out.note(facts(&record).trim_end());
    }
    let revision = args.onto.unwrap_or(record.revision);
    let asks = match with_hosts(&record.requested_capabilities, &record.requested_hosts) {
        nothing if nothing.is_empty() => nothing,
        asks => format!(", which requests {}", line(&asks)),
    };
    args.confirm.require(&format!("{what} {} of {} at revision {revision}{asks}?", args.slug, line(&record.owner)))?;
    let verdict = ReviewVerdict {
        decision,
        capabilities: args.capabilities.as_deref().map(capabilities).transpose()?,
        allowed_hosts: args.hosts,
        limits: args.limit.into_iter().map(|(name, value)| (name, Value::from(value))).collect(),
        tier: args.tier,
        reason: args.reason,
    };
    let asking = session.client.post(&["ai", "admin", "reviews", args.slug.as_str()]).by(CredentialChoice::Admin);
    let answer: OwnEndpointResponse = match asking.if_match(Some(revision)).json(&verdict).send().await {
        Err(error) if error.code() == "revision_changed" => {
            let read = ReadEndpoint { slug: args.slug, record: Some(record), revision: Some(revision) };
            let error = read.explain_conflict(session, error).await;
            let hint = format!("nothing was changed; read it again: tollhouse reviews show {}", read.slug);
            return Err(if approves { error.hint(hint) } else { error });
        }
        ended => ended?.body,
    };
    session.out.print(&answer, |OwnEndpointResponse { endpoint, .. }| {
        let (status, may) = (name(endpoint.common.status), granted(&endpoint.common.capabilities));
        format!("{}: {what}, revision {}, {status}; granted: {}\n", args.slug, endpoint.revision, line(&may))
    })
}

/// Returns the set of the capabilities with these names.
///
/// # Errors
///
/// There is no capability with one of the names.
fn capabilities(names: &[String]) -> Result<Capabilities> {
    let named: Map<_, _> = names.iter().map(|name| (name.clone(), Value::Bool(true))).collect();
    serde_json::from_value(named.into()).map_err(|error| Error::refused(format!("--capabilities: {error}")))
}

#[cfg(test)]
mod tests {
    use tollhouse_tool::{
        ContentSafety,
        finding::{ScanOutcome, Severity},
    };

    use super::*;
    use crate::show::tests::record;

    #[test]
    fn each_finding_is_listed_once_and_with_its_line() {
        let finding = |rule: &str, field: &str, line: Option<u32>| Finding {
            rule: rule.to_owned(),
            severity: Severity::Review,
            field: field.to_owned(),
            line,
            column: None,
            excerpt: None,
        };
        let listed = |review: Vec<Finding>, content: Vec<Finding>| {
            let content =
                ContentSafety { outcome: ScanOutcome::Review, policy_version: String::new(), attested_at: None, findings: content };
            let mut endpoint = OwnEndpoint { content_safety: Some(content), ..record() };
            endpoint.review.findings = review;
            findings(&endpoint).into_iter().map(found_at).collect::<Vec<_>>()
        };
        let bare = || finding("code.eval", "/handler/source", None);
        let at = |line| finding("code.eval", "/handler/source", Some(line));
        let title = || finding("words.title", "/title", None);
        assert_eq!(listed(vec![at(3), at(9), title()], vec![bare(), title()]), ["/handler/source:3", "/handler/source:9", "/title"]);
        assert_eq!(listed(vec![bare()], vec![at(3)]), ["/handler/source:3"]);
    }
}
