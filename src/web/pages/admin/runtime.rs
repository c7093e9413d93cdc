//! `/dashboard/admin/runtime`: the sandbox and its isolation.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    shared::{Admin, counted, entries, text_of},
    unresolved,
};
use crate::{
    page::{Area, Page},
    parts::{
        facts,
        follow::{self, renewed},
        page_links,
        state::state,
        table::{Column, table},
        text,
        time::moment,
    },
    visitor::{ApiRefusal, with_query},
};

const PATH: &str = "/dashboard/admin/runtime";
/// Maximum shown tools.
const TOOLS: usize = 20;

/// Counters: their field in the host's health, and their label.
const NOW: [(&str, &str); 8] = [
    ("running", "Calls that compute"),
    ("waitingInOps", "Calls that wait for an answer"),
    ("queued", "Calls in the queue"),
    ("workers", "Workers"),
    ("idle", "Warm workers"),
    ("spares", "Blank workers"),
    ("processes", "Processes"),
    ("zygotes", "Zygotes"),
];
const SINCE_START: [(&str, &str); 13] = [
    ("calls", "Calls"),
    ("coldCalls", "Calls that loaded their handler"),
    ("pipelined", "Calls sent ahead"),
    ("refused", "Calls refused: busy or held"),
    ("stops", "Calls stopped at a limit"),
    ("kills", "Workers killed by the watchdog"),
    ("crashes", "Workers that crashed"),
    ("cancels", "Calls given up"),
    ("started", "Processes started"),
    ("forked", "Processes forked"),
    ("failedStarts", "Starts that failed"),
    ("idleFaults", "Idle workers found dead or talking"),
    ("replaced", "Processes replaced"),
];

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let rows = follow::requested(query.as_deref(), TOOLS);
    let runtime = visitor.get(&with_query("/ai/admin/runtime", [("limit", &*rows.unwrap_or(TOOLS).to_string())])).await?;
    if rows.is_some() {
        return Ok(visitor.part(visitor.made(|| follow::rows(by_tool(&runtime))).await?));
    }
    let health = visitor.get("/health").await?;
    let max = unresolved::ROWS.to_string();
    // The page also works while the store is unavailable.
    let found = visitor.get(&with_query("/ai/admin/unresolved", [("limit", &*max)])).await.ok();
    let simulated = visitor.plays().await.unwrap_or_default();
    let main = visitor.made(|| view(&health, &runtime, &unresolved::list(found.as_deref(), simulated))).await?;
    Ok(visitor.show(Page { script: Some("gauge.js"), style: Some("make.css"), ..Page::new(Area::Runtime, "Runtime", main) }).await)
}

fn view(health: &Value, runtime: &Value, unresolved: &Markup) -> Markup {
    let sandbox = &health["sandbox"];
    html! {
        p.lead { "What this process knows of itself. " span data-gauge-said="" role="status" {} }
        p.buttons.needs-script { button type="button" data-gauge-pause="" { "Pause" } }
        @if let Some(reason) = sandbox["startsFail"].as_str() { p.problem role="alert" { "No worker can be started: " (text::words(reason)) } }
        section aria-labelledby="jail" { h2 #jail { "Jail" } (jail(sandbox)) }
        div.split {
            section aria-labelledby="now" { h2 #now { "Now" } (counts("/sandbox/", sandbox, &NOW)) }
            section aria-labelledby="since" {
                h2 #since { "Since the start" }
                (counts("/sandbox/totals/", &sandbox["totals"], &SINCE_START))
                p.note { "Cold: " (share(&sandbox["totals"])) " of all calls loaded their handler first." }
            }
        }
        section aria-labelledby="tools" { h2 #tools { "By tool, since the start" } (renewed(&format!("{PATH}?rows={TOOLS}"), by_tool(runtime))) }
        section aria-labelledby="money" { h2 #money { "Settlement" } (settlement(health)) (unresolved) }
        @let hosts = entries(health, "replicas");
        @if hosts.iter().any(|host| host["leaseUntil"].is_string()) {
            section aria-labelledby="hosts" { h2 #hosts { "Hosts of the store" } (replicas(hosts)) }
        }
        section aria-labelledby="kept" { h2 #kept { "What is kept" } (retention_table(health)) }
    }
}

/// Shows the layers of each tier's jail: refused ones, and those in force, which are folded if any
/// was refused.
fn jail(sandbox: &Value) -> Markup {
    let tiers = entries(sandbox, "tiers");
    let layer = |name: &str, tier: &Value| [html! { code { (name) } }, html! { (text_of(tier, "tier")) }];
    let of_tiers = |list: &'static str| tiers.iter().flat_map(move |tier| entries(tier, list).iter().map(move |entry| (tier, entry)));
    let refused: Vec<_> = of_tiers("jailRefused")
        .map(|(tier, missing)| {
            let [name, tier] = layer(text_of(missing, "layer"), tier);
            [name, tier, text::words(text_of(missing, "error"))]
        })
        .collect();
    let held: Vec<_> = of_tiers("jail").filter_map(|(tier, name)| Some(layer(name.as_str()?, tier))).collect();
    let (missing, all) = (refused.len(), refused.len() + held.len());
    let in_force = html! { (table("Layers in force", ["Layer", "Tier"].map(Column::Words), held)) };
    html! {
        @if tiers.is_empty() { p.muted { "No worker has started yet; the first one tells which layers are in force." } }
        @else if missing == 0 {
            p { (state("in force")) " All " (all) " layers." }
            (in_force)
        } @else {
            p { (state("missing")) " " (missing) " of " (counted(all as u64, "layer", "layers")) "." }
            (table("Layers that are missing", ["Layer", "Tier", "Why"].map(Column::Words), refused))
            p.note { code { "tollhouse doctor" } " says what to do for a layer that is missing." }
            details.way { summary { "In force" } (in_force) }
        }
    }
}

/// Shows numbers that the script keeps up to date.
fn counts(root: &str, of: &Value, names: &[(&str, &str)]) -> Markup {
    html! {
        dl.facts { @for (name, words) in names { div { dt { (words) } dd data-gauge={ (root) (name) } { (of[*name]) } } } }
    }
}

/// Returns the percentage of cold calls, of one tool or of all.
fn share(counts: &Value) -> String {
    let count = |name: &str| counts[name].as_f64().unwrap_or_default();
    if count("calls") > 0.0 { format!("{:.1} %", count("coldCalls") / count("calls") * 100.0) } else { "none".to_owned() }
}

/// Shows the tools that use the sandbox most.
fn by_tool(runtime: &Value) -> Markup {
    let tools = entries(runtime, "endpoints");
    let columns = [
        Column::Words("Tool"),
        Column::Number("In the sandbox now"),
        Column::Number("Calls"),
        Column::Number("Cold"),
        Column::Number("Stopped at a limit"),
        Column::Number("Refused"),
        Column::Number("Processor time"),
    ];
    let row = |tool: &Value| {
        let count = |name: &str| html! { (tool[name]) };
        let millis = tool["cpuUs"].as_f64().unwrap_or_default() / 1e3;
        let time = html! { (format!("{millis:.0} ms")) };
        let cold = html! { (share(tool)) };
        [page_links::tool(text_of(tool, "slug")), count("running"), count("calls"), cold, count("stops"), count("refused"), time]
    };
    html! {
        @if tools.is_empty() { p.muted { "No handler was called since the process started." } }
        @else {
            (table("By tool", columns, tools.iter().map(row)))
            p.note { "Cold are calls that loaded their handler first." }
            p.note { (tools.len()) " of " (runtime["total"]) " tools that were called. " a href="/dashboard/api/ai/admin/runtime?limit=200" { "More of them as JSON" } }
        }
    }
}

fn settlement(health: &Value) -> Markup {
    html! {
        (facts::list(&[
            ("Open settlements", Some(html! { span data-gauge="/openSettlements" { (health["openSettlements"]) } })),
            (
                "Unresolved settlements",
                Some(html! { span data-gauge="/unresolvedSettlements" { (health["unresolvedSettlements"].as_u64().unwrap_or_default()) } }),
            ),
            ("Facilitator", health["facilitator"].is_object().then(|| text::words(&health["facilitator"].to_string()))),
        ]))
    }
}

/// Shows the other hosts of the same store.
fn replicas(hosts: &[Value]) -> Markup {
    let row = |host: &Value| {
        let about = if host["own"] == true {
            "this one"
        } else if host["lives"] == true {
            "serves"
        } else {
            "ended"
        };
        [
            html! { code { (text::words(text_of(host, "id"))) } },
            html! { (about) },
            html! { (text::words(text_of(host, "version"))) },
            moment(&host["startedAt"]),
            moment(&host["leaseUntil"]),
            html! { (host["behind"]) },
        ]
    };
    let [host, state, version, since, until] = ["Host", "State", "Version", "Since", "Lease until"].map(Column::Words);
    let columns = [host, state, version, since, until, Column::Number("Changes not heard")];
    table("Hosts of the store", columns, hosts.iter().map(row))
}

fn retention_table(health: &Value) -> Markup {
    let kinds = health["stored"].as_object().into_iter().flatten().filter(|(_, kind)| kind.is_object());
    let rows = kinds.map(|(name, kind)| [html! { (name) }, html! { (kind["count"]) }, html! { (bytes(&kind["bytes"])) }]);
    html! {
        (facts::list(&[
            ("Used", Some(html! { (bytes(&health["disk"]["usedBytes"])) })),
            ("Free on the disk", Some(html! { (bytes(&health["disk"]["freeBytes"])) })),
            ("Workers' memory", Some(html! { (bytes(&health["sandbox"]["processBytes"])) })),
        ]))
        (table("Kept", [Column::Words("Kind"), Column::Number("Count"), Column::Number("Bytes")], rows))
    }
}

/// Formats a number of bytes with a suitable unit.
fn bytes(count: &Value) -> String {
    let Some(count) = count.as_f64() else { return "?".to_owned() };
    let (unit, name) = [((1_u64 << 30) as f64, "GiB"), ((1 << 20) as f64, "MiB"), ((1 << 10) as f64, "KiB")]
        .into_iter()
        .find(|(unit, _)| count >= *unit)
        .unwrap_or((1.0, "bytes"));
    if unit > 1.0 { format!("{:.1} {name}", count / unit) } else { format!("{count} {name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_jail_is_reported_layer_by_layer() {
        assert!(jail(&json!({ "tiers": [] })).into_string().contains("No worker has started yet"));
        let sandbox = json!({ "tiers": [{ "tier": "jit", "jail": ["seccomp"], "jailRefused": [{ "layer": "landlock", "errno": 1, "error": "<no>" }] }] });
        let html = jail(&sandbox).into_string();
        assert!(html.contains("seccomp") && html.contains("in force") && html.contains("missing") && html.contains("&lt;no&gt;"), "{html}");
        assert!(html.contains("1 of 2 layers.") && html.find("landlock") < html.find("seccomp"), "what is missing comes first: {html}");
    }

    #[test]
    fn hosts_of_a_store_are_reported_with_how_they_stand() {
        let host = |id: &str, lives, own| {
            json!({ "id": id, "version": "0.1.0", "startedAt": "2026-11-21T09:58:03.120Z", "leaseUntil": "2026-11-21T09:58:06.120Z",
                "lives": lives, "behind": 7, "own": own })
        };
        let html = replicas(&[host("rpl_<a>", true, true), host("rpl_b", true, false), host("rpl_c", false, false)]).into_string();
        assert!(html.contains("rpl_&lt;a&gt;") && html.contains("2026-11-21 09:58:06 UTC") && html.contains(">7<"), "{html}");
        assert!(["this one", "serves", "ended"].iter().all(|state| html.contains(state)), "{html}");
    }

    #[test]
    fn bytes_and_shares_are_reported_as_they_are_read() {
        let listed: Vec<_> = [json!(5), json!(2048), json!(3 << 20), json!(5_u64 << 30), json!(null)].iter().map(bytes).collect();
        assert_eq!(listed, ["5 bytes", "2.0 KiB", "3.0 MiB", "5.0 GiB", "?"]);
        assert_eq!(share(&json!({ "calls": 8, "coldCalls": 1 })), "12.5 %");
        assert_eq!(share(&json!({ "calls": 0, "coldCalls": 0 })), "none");
    }
}
