//! `/dashboard/admin/runtime`: the sandbox and its isolation.

use maud::{Markup, html};
use tollhouse_api::{Health, Replica, RuntimeEndpoint, RuntimeStats, SandboxHealth, SandboxTotals, UnresolvedPage};
use tollhouse_base::plural::plural;

use super::{shared::Admin, unresolved};
use crate::{
    Area, Number, Page, PageResult, RawQuery, Words, facts,
    follow::{self, renewed},
    moment, page_links, state, table, text, with_query, word,
};

const PATH: &str = "/dashboard/admin/runtime";
/// Maximum shown tools.
const TOOLS: usize = 20;

/// A counter: its field in the host's health, its label, and its value.
type Counter<T> = (&'static str, &'static str, fn(&T) -> u64);

const NOW: [Counter<SandboxHealth>; 8] = [
    ("running", "Calls computing", |sandbox| sandbox.running),
    ("waitingInOps", "Calls waiting for a capability", |sandbox| sandbox.waiting_in_ops),
    ("queued", "Calls in the queue", |sandbox| sandbox.queued),
    ("workers", "Workers", |sandbox| sandbox.workers),
    ("idle", "Warm workers", |sandbox| sandbox.idle),
    ("spares", "Blank workers", |sandbox| sandbox.spares),
    ("processes", "Processes", |sandbox| sandbox.processes),
    ("zygotes", "Zygotes", |sandbox| sandbox.zygotes),
];
const SINCE_START: [Counter<SandboxTotals>; 13] = [
    ("calls", "Calls", |totals| totals.calls),
    ("coldCalls", "Cold calls", |totals| totals.cold_calls),
    ("pipelined", "Calls pipelined", |totals| totals.pipelined),
    ("refused", "Calls refused as busy or paused", |totals| totals.refused),
    ("stops", "Calls stopped at a limit", |totals| totals.stops),
    ("kills", "Workers killed by the watchdog", |totals| totals.kills),
    ("crashes", "Workers that crashed", |totals| totals.crashes),
    ("cancels", "Calls canceled", |totals| totals.cancels),
    ("started", "Processes started", |totals| totals.started),
    ("forked", "Processes forked", |totals| totals.forked),
    ("failedStarts", "Failed starts", |totals| totals.failed_starts),
    ("idleFaults", "Idle workers with faults", |totals| totals.idle_faults),
    ("replaced", "Processes replaced", |totals| totals.replaced),
];

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(raw): RawQuery) -> PageResult {
    let rows = follow::requested(raw.as_deref(), TOOLS);
    let runtime = visitor.get::<RuntimeStats>(&with_query("/ai/admin/runtime", [("limit", &*rows.unwrap_or(TOOLS).to_string())])).await?;
    if rows.is_some() {
        return Ok(visitor.fragment(visitor.render(|| follow::rows(by_tool(&runtime))).await?));
    }
    let health = visitor.get::<Health>("/health").await?;
    let max = unresolved::ROWS.to_string();
    // The page also works while the store is unavailable.
    let found = visitor.get::<UnresolvedPage>(&with_query("/ai/admin/unresolved", [("limit", &*max)])).await.ok();
    let simulated = visitor.is_simulated().await.unwrap_or_default();
    let main = visitor.render(|| view(&health, &runtime, &unresolved::list(found.as_deref(), simulated))).await?;
    Ok(visitor.show(Page { script: Some("gauge.js"), style: Some("make.css"), ..Page::new(Area::Runtime, "Runtime", main) }).await)
}

fn view(health: &Health, runtime: &RuntimeStats, unresolved: &Markup) -> Markup {
    let sandbox = &health.sandbox;
    html! {
        p.lead { "The state of this process. " span data-gauge-said="" role="status" {} }
        p.buttons.needs-script { button type="button" data-gauge-pause="" { "Pause" } }
        @if let Some(reason) = &sandbox.starts_fail { p.problem role="alert" { "No worker can be started: " (text::words(reason)) } }
        section aria-labelledby="jail" { h2 #jail { "Jail" } (jail(sandbox)) }
        div.split {
            section aria-labelledby="now" { h2 #now { "Now" } (counts("/sandbox/", sandbox, &NOW)) }
            section aria-labelledby="since" {
                h2 #since { "Since the host started" }
                (counts("/sandbox/totals/", &sandbox.totals, &SINCE_START))
                p.note { "Cold: " (share(sandbox.totals.cold_calls, sandbox.totals.calls)) " of all calls. A cold call loads its handler first." }
            }
        }
        section aria-labelledby="tools" { h2 #tools { "By tool, since the host started" } (renewed(&format!("{PATH}?rows={TOOLS}"), by_tool(runtime))) }
        section aria-labelledby="money" { h2 #money { "Settlement" } (settlement(health)) (unresolved) }
        @let hosts = health.replicas.as_deref().unwrap_or_default();
        @if hosts.iter().any(|host| host.lease_until.is_some()) {
            section aria-labelledby="hosts" { h2 #hosts { "Hosts that share the store" } (replicas(hosts)) }
        }
        section aria-labelledby="kept" { h2 #kept { "Stored data" } (stored(health)) }
    }
}

/// Shows the layers of each tier's jail: refused ones, and those in force, which are folded if any
/// was refused.
fn jail(sandbox: &SandboxHealth) -> Markup {
    let tiers = &sandbox.tiers;
    let layer = |name: &str, tier| [html! { code { (name) } }, html! { (word(tier)) }];
    let refused: Vec<_> = tiers.iter().flat_map(|tier| tier.jail_refused.iter().map(|missing| (tier.tier, missing))).collect();
    let refused = refused.into_iter().map(|(tier, missing)| {
        let [name, tier] = layer(&missing.layer, tier);
        [name, tier, text::words(&missing.error)]
    });
    let held: Vec<_> = tiers.iter().flat_map(|tier| tier.jail.iter().map(|name| layer(name, tier.tier))).collect();
    let (missing, all) = (refused.len(), refused.len() + held.len());
    let in_force = html! { (table("Layers in force", ["Layer", "Tier"].map(Words), held)) };
    html! {
        @if tiers.is_empty() { p.muted { "No worker has started yet. The first one reports which layers are in force." } }
        @else if missing == 0 {
            p { (state("in force")) " All " (all) " layers." }
            (in_force)
        } @else {
            p { (state("missing")) " " (missing) " of " (plural(all, "layer")) "." }
            (table("Layers that are missing", ["Layer", "Tier", "Why"].map(Words), refused))
            p.note { code { "tollhouse doctor" } " shows how to enable a missing layer." }
            details.way { summary { "In force" } (in_force) }
        }
    }
}

/// Shows numbers that the script keeps up to date.
fn counts<T>(root: &str, of: &T, counters: &[Counter<T>]) -> Markup {
    html! {
        dl.facts { @for (name, words, value) in counters { div { dt { (words) } dd data-gauge={ (root) (name) } { (value(of)) } } } }
    }
}

/// Returns the percentage of cold calls.
fn share(cold: u64, calls: u64) -> String {
    if calls > 0 { format!("{:.1} %", cold as f64 / calls as f64 * 100.0) } else { "none".to_owned() }
}

/// Shows the tools that use the sandbox most.
fn by_tool(runtime: &RuntimeStats) -> Markup {
    let tools = &runtime.endpoints;
    let columns = [
        Words("Tool"),
        Number("Running now"),
        Number("Calls"),
        Number("Cold"),
        Number("Stopped at a limit"),
        Number("Refused"),
        Number("CPU time"),
    ];
    let row = |tool: &RuntimeEndpoint| {
        let [running, calls, stops, refused] = [tool.running, tool.calls, tool.stops, tool.refused].map(|count| html! { (count) });
        let time = html! { (format!("{:.0} ms", tool.cpu_us as f64 / 1e3)) };
        [page_links::tool(&tool.slug), running, calls, html! { (share(tool.cold_calls, tool.calls)) }, stops, refused, time]
    };
    html! {
        @if tools.is_empty() { p.muted { "No handler has been called since the process started." } }
        @else {
            (table("By tool", columns, tools.iter().map(row)))
            p.note { "A cold call loads its handler first." }
            p.note { (tools.len()) " of " (runtime.total) " called tools. " a href="/dashboard/api/ai/admin/runtime?limit=200" { "See more as JSON" } }
        }
    }
}

fn settlement(health: &Health) -> Markup {
    html! {
        (facts::list(&[
            ("Open settlements", Some(html! { span data-gauge="/openSettlements" { (health.open_settlements) } })),
            (
                "Unresolved settlements",
                Some(html! { span data-gauge="/unresolvedSettlements" { (health.unresolved_settlements.unwrap_or_default()) } }),
            ),
            ("Facilitator", health.facilitator.as_ref().map(|facilitator| text::words(facilitator.to_string()))),
        ]))
    }
}

/// Shows the other hosts of the same store.
fn replicas(hosts: &[Replica]) -> Markup {
    let row = |host: &Replica| {
        let about = match host {
            Replica { own: true, .. } => "this one",
            Replica { lives: true, .. } => "serves",
            Replica { .. } => "ended",
        };
        [
            html! { code { (text::words(&host.id)) } },
            html! { (about) },
            html! { (text::words(&host.version)) },
            moment(host.started_at),
            html! { @if let Some(until) = host.lease_until { (moment(until)) } },
            html! { (host.behind) },
        ]
    };
    let [host, state, version, since, until] = ["Host", "State", "Version", "Since", "Lease until"].map(Words);
    let columns = [host, state, version, since, until, Number("Unread changes")];
    table("Hosts that share the store", columns, hosts.iter().map(row))
}

fn stored(health: &Health) -> Markup {
    let kinds = health.stored.kinds.iter().map(|(kind, size)| (&**kind, size));
    let rows = kinds.chain([("freeReceipts", &health.stored.free_receipts)]);
    let rows = rows.map(|(name, size)| [html! { (name) }, html! { (size.count) }, html! { (bytes(Some(size.bytes as f64))) }]);
    html! {
        (facts::list(&[
            ("Used", Some(html! { (bytes(health.disk["usedBytes"].as_f64())) })),
            ("Free disk space", Some(html! { (bytes(health.disk["freeBytes"].as_f64())) })),
            ("Workers' memory", Some(html! { (bytes(Some(health.sandbox.process_bytes as f64))) })),
        ]))
        (table("Stored data", [Words("Kind"), Number("Count"), Number("Bytes")], rows))
    }
}

/// Formats a number of bytes with a suitable unit.
fn bytes(count: Option<f64>) -> String {
    let Some(count) = count else { return "?".to_owned() };
    let (unit, name) = [((1_u64 << 30) as f64, "GiB"), ((1 << 20) as f64, "MiB"), ((1 << 10) as f64, "KiB")]
        .into_iter()
        .find(|(unit, _)| count >= *unit)
        .unwrap_or((1.0, "bytes"));
    if unit > 1.0 { format!("{:.1} {name}", count / unit) } else { format!("{count} {name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn jail_shows_missing_layers_first() {
        let sandbox = |tiers: Value| {
            let examples: Value = serde_json::from_str(include_str!("../../../http/documents/examples.json")).unwrap();
            let mut sandbox = examples["getHealth"]["sandbox"].clone();
            sandbox["tiers"] = tiers;
            serde_json::from_value::<SandboxHealth>(sandbox).unwrap()
        };
        assert!(jail(&sandbox(json!([]))).into_string().contains("No worker has started yet"));
        let refused = json!([{ "layer": "landlock", "errno": 1, "error": "<no>" }]);
        let html = jail(&sandbox(json!([{ "tier": "jit", "jail": ["seccomp"], "jailRefused": refused }]))).into_string();
        assert!(html.contains("seccomp") && html.contains("in force") && html.contains("missing") && html.contains("&lt;no&gt;"), "{html}");
        assert!(html.contains("1 of 2 layers.") && html.find("landlock") < html.find("seccomp"), "{html}");
    }

    #[test]
    fn hosts_are_listed_with_their_state() {
        const FIRST: &str = "rpl_01KATR3Q6S4B8Z2M5V7X9C1D3F";
        const SECOND: &str = "rpl_01KATR3Q6S4B8Z2M5V7X9C1D3G";
        let host = |id: &str, lives: bool, own: bool| -> Replica {
            let host = json!({
                "id": id, "version": "0.1.0", "formats": 1, "startedAt": "2026-11-21T09:58:03.120Z", "leaseUntil": "2026-11-21T09:58:06.120Z",
                "lives": lives, "behind": 7, "own": own,
            });
            serde_json::from_value(host).unwrap()
        };
        let html = replicas(&[host(FIRST, true, true), host(SECOND, true, false), host(SECOND, false, false)]).into_string();
        assert!(html.contains(FIRST) && html.contains("2026-11-21 09:58:06 UTC") && html.contains(">7<"), "{html}");
        assert!(["this one", "serves", "ended"].iter().all(|state| html.contains(state)), "{html}");
    }

    #[test]
    fn bytes_and_shares_have_units() {
        let counts = [Some(5.0), Some(2048.0), Some(f64::from(3 << 20)), Some((5_u64 << 30) as f64), None];
        assert_eq!(counts.map(bytes), ["5 bytes", "2.0 KiB", "3.0 MiB", "5.0 GiB", "?"]);
        assert_eq!((share(1, 8), share(0, 0)), ("12.5 %".to_owned(), "none".to_owned()));
    }
}
