//! `tollhouse show` and `versions`: show a tool, the stored versions of its handler, and its source.

use serde_json::json;
use tollhouse_api::{EndpointResponse, EndpointSourceResponse, EndpointView, OwnEndpoint, ReviewState};
use tollhouse_tool::{SettleTime, Slug, StaticResponse};

use super::base::{
    CredentialChoice, Error, FactList, Result, Session, Table, block, endpoint_price, found_at, granted, json_text_for_people, line,
    moment, name, optional, short,
};

/// Arguments of `show`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Tool [default: the folder's]
    slug: Option<Slug>,
    /// Show the handler's source (owner and admins)
    #[arg(long)]
    source: bool,
    /// Version of the source [default: the current one]
    #[arg(long, requires = "source")]
    version: Option<String>,
}

/// Arguments of `versions`.
#[derive(clap::Args)]
pub(crate) struct VersionsArgs {
    /// Tool [default: the folder's]
    slug: Option<Slug>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let slug = session.slug(args.slug)?;
    if args.source {
        return source(session, &slug, args.version).await;
    }
    let asking = session.client.get(&["ai", "endpoints", slug.as_str()]).by(CredentialChoice::Anyone);
    session.out.print(&asking.send::<EndpointResponse>().await?.body, |answer| details(&answer.endpoint))
}

async fn source(session: &Session, slug: &Slug, version: Option<String>) -> Result {
    let version = match version {
        Some(version) => Some(record(session, slug).await.map_or(version.clone(), |record| whole(&record, &version))),
        None => None,
    };
    let asking = session.client.get(&["ai", "endpoints", slug.as_str(), "source"]).query_opt("version", version);
    let answer: EndpointSourceResponse = asking.send().await?.body;
    match &answer.handler.source {
        Some(source) if !session.out.json => session.out.copy(source),
        Some(_) | None => {
            let response = answer.handler.response.as_ref().map_or("null", StaticResponse::text);
            session.out.print(&answer, |_| json_text_for_people(response).unwrap_or_default() + "\n")
        }
    }
}

/// Returns the record, if it is that of the tool's owner or an admin.
pub(crate) fn own(answer: EndpointResponse) -> Option<OwnEndpoint> {
    match answer.endpoint {
        EndpointView::Own(own) => Some(*own),
        EndpointView::Public(_) => None,
    }
}

/// Gets the owner's record of a tool.
///
/// # Errors
///
/// The host's refusal. The tool belongs to somebody else.
pub(crate) async fn record(session: &Session, slug: &Slug) -> Result<OwnEndpoint> {
    let answer = session.client.get(&["ai", "endpoints", slug.as_str()]).send().await?;
    own(answer.body).ok_or_else(|| Error::refused(format!("`{slug}` belongs to another builder on {}", session.host())))
}

/// Returns the stored version whose hash begins with `start`. Returns `start` itself if no version or several begin with
/// it, or if it has fewer than four characters.
pub(crate) fn whole(endpoint: &OwnEndpoint, start: &str) -> String {
    let hash = start.strip_prefix("sha256:").unwrap_or(start);
    let is_fitting = |version: &&String| version.strip_prefix("sha256:").is_some_and(|whole| whole.starts_with(hash));
    let fitting: Vec<_> = endpoint.versions.iter().map(|stored| &stored.version).filter(is_fitting).collect();
    match fitting[..] {
        [one] if hash.len() >= 4 => one.clone(),
        _ => start.to_owned(),
    }
}

/// Describes a record for people.
fn details(endpoint: &EndpointView) -> String {
    let common = endpoint.common();
    let (own, public) = match endpoint {
        EndpointView::Own(own) => (Some(own), None),
        EndpointView::Public(public) => (None, Some(public)),
    };
    let charges_before = own.is_some_and(|own| own.settle == SettleTime::Before) || public.is_some_and(|public| public.settle.is_some());
    let mut facts = FactList::default();
    facts.add("slug", common.slug.as_str());
    facts.add("title", &common.title);
    facts.add("status", name(common.status));
    facts.add("url", &common.url);
    facts.add("owner", optional(own.map(|own| &own.owner)));
    facts.add("builder", optional(public.and_then(|public| public.builder.as_ref()).map(|builder| &builder.name)));
    facts.add("price", endpoint_price(endpoint));
    facts.add("charged", if charges_before { "before the handler runs" } else { "" });
    facts.add("version", own.map(|own| short(&own.version)).unwrap_or_default());
    facts.add("revision", optional(own.map(|own| own.revision)));
    facts.add("granted", granted(&common.capabilities));
    if let Some(own) = own {
        facts.add("hosts", own.allowed_hosts.join(" "));
        facts.add("schedules", own.schedules.join(", "));
        facts.add("requests", granted(&own.requested_capabilities));
        facts.add("requested hosts", own.requested_hosts.join(" "));
        facts.add("review", name(Some(own.review.state).filter(|state| *state != ReviewState::None)));
        facts.add("decided", name(own.review.decision.as_ref().map(|decision| decision.decision)));
        facts.add("because", optional(own.review.decision.as_ref().and_then(|decision| decision.reason.as_ref())));
        let limits = own.own_limits.0.iter().map(|(name, value)| format!("{name} {value}"));
        facts.add("limits", limits.collect::<Vec<_>>().join(", "));
    }
    facts.add("time limit", optional(public.and_then(|public| public.limits).map(|limits| format!("{} ms", limits.wall_ms))));
    facts.add("bodies", common.request_types.join(" "));
    facts.add("headers", common.request_headers.join(" "));
    facts.add("broken streams", if common.refund_broken_streams { "refunded to credits" } else { "" });
    facts.add("tags", common.tags.join(" "));
    if let Some(usage) = public.and_then(|public| public.usage.as_ref()) {
        facts.add("calls 30 d", usage.calls30d.to_string());
        facts.add("median", usage.median_ms.map(|ms| format!("{ms} ms")).unwrap_or_default());
    }
    facts.add("changed", moment(common.updated_at));
    let mut text = facts.text();
    for finding in endpoint.content_safety().into_iter().flat_map(|content| &content.findings) {
        text += &line(&format!("finding: {} at {}", finding.rule, found_at(finding)));
        text.push('\n');
    }
    match common.description.as_str() {
        "" => text,
        description => format!("{text}\n  {}\n", block(description, "  ")),
    }
}

pub(crate) async fn versions(session: &Session, args: VersionsArgs) -> Result {
    let slug = session.slug(args.slug)?;
    let endpoint = record(session, &slug).await?;
    if session.out.json {
        return session.out.document(&json!({ "slug": slug, "version": endpoint.version, "versions": endpoint.versions }));
    }
    let mut table = Table::new(&["version", "published", "by", "via", "state", "note"]);
    for stored in &endpoint.versions {
        let state = match Some(&stored.version) {
            version if version == Some(&endpoint.version) => "runs",
            version if version == endpoint.review.approved_version.as_ref() => "approved",
            _ => "",
        };
        let note = optional(stored.note.as_ref());
        table.row([short(&stored.version), moment(stored.created_at), name(stored.by), name(stored.via), state.to_owned(), note]);
    }
    session.out.table(&table, "no stored versions")
}

#[cfg(test)]
pub(crate) mod tests {
    use tollhouse_base::id::EndpointId;

    use super::*;

    /// Returns the record of a tool.
    pub(crate) fn record() -> OwnEndpoint {
        let record = json!({
            "slug": "abc", "id": EndpointId::generate(), "title": "A", "description": "", "status": "active", "priceUsd": 0.01, "tags": ["x"], "method": "POST",
            "handlerType": "js_request_response", "runtime": "admin_gated_js_request_response_v1", "url": "https://a.example/tools/abc",
            "pricingMode": "fixed_price_success_receipt", "inputSchema": {"type": "object"}, "outputSchema": {}, "isolation": "warm",
            "capabilities": {"kv": true, "files": false}, "requestedCapabilities": {"httpGetJson": true, "kv": false}, "allowedHosts": [],
            "requestedHosts": ["API.example.com"], "limits": {"wallMs": 5000}, "ownLimits": {"wallMs": 5000}, "limitCaps": {}, "tier": "jit",
            "tierCap": "jit", "accepts": [], "settle": "after", "revision": 7, "owner": "bld_1", "version": "sha256:3f9a1c0b22", "versions": [],
            "createdAt": "2026-11-21T09:58:03.000Z", "updatedAt": "2026-11-21T09:58:03.000Z",
            "review": {"state": "none", "since": null, "findings": [], "decision": null, "approvedVersion": null, "approvedFields": {}},
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn version_is_named_by_the_start_of_its_hash() {
        let stored = |version: &str| json!({ "version": version, "createdAt": "2026-11-21T09:58:03.000Z", "by": "owner" });
        let versions = json!([stored("sha256:3f9a1c0b22"), stored("sha256:3f9a2d0b22")]);
        let record = OwnEndpoint { versions: serde_json::from_value(versions).unwrap(), ..record() };
        assert_eq!(whole(&record, "3f9a1"), "sha256:3f9a1c0b22");
        for start in ["3f9a", "3f9", "8be0"] {
            assert_eq!(whole(&record, start), start);
        }
    }
}
