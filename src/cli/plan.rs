//! The plan of a deploy: what it changes, and what it leaves because somebody else changed it on the host.
//!
//! It compares three versions of a tool: the folder, the host, and the base, which is the folder when it was last
//! published or pulled. Changes in the folder since the base are published. Changes on the host alone stay.

mod remote;

use serde::Serialize;
use serde_json::{Map, Value, json};
use tollhouse_api::EndpointCheck;
use tollhouse_tool::Capabilities;

pub(crate) use self::remote::{Baseline, RemoteEndpoint, changed_by, conflict};
use super::{
    base::{line, pairs, short},
    tool::{
        Upload,
        changes::{self, FieldChange, plain},
    },
};

/// The plan of a deploy.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Fields that are published.
    pub(crate) changes: Vec<FieldChange>,
    /// Fields that differ on the host and stay as they are there.
    pub(crate) unchanged: Vec<FieldChange>,
    pub(crate) handler: Option<Handler>,
    /// Whether the host runs a different handler and keeps it.
    pub(crate) keeps_handler: bool,
}

/// A change of the handler.
#[derive(Debug, Serialize)]
pub(crate) struct Handler {
    pub(crate) before: Option<String>,
    pub(crate) after: String,
    /// Number of added lines.
    pub(crate) added: usize,
    /// Number of removed lines.
    pub(crate) removed: usize,
}

/// A row of a plan: the field, its change, and a remark.
pub(crate) type Row = (String, String, String);

impl Plan {
    /// Compares a folder, which the host would run as `version`, with the tool on the host.
    pub(crate) fn of(upload: &Upload, version: &str, there: Option<&RemoteEndpoint>, base: Option<&Baseline>) -> Self {
        let mut plan = Self::default();
        let fields = there.map(|there| &there.fields);
        for change in changes::changes(&upload.tool.body, fields) {
            let was = base.and_then(|base| base.fields.get(&change.field)).map(|was| plain(&change.field, was));
            match (was, there) {
                (Some(was), Some(_)) => {
                    let after = merged(&was, &change);
                    if after != change.after {
                        plan.unchanged.push(FieldChange { after: change.after.clone(), ..change.clone() });
                    }
                    if after != change.before {
                        plan.changes.push(FieldChange { after, ..change });
                    }
                }
                _ => plan.changes.push(change),
            }
        }
        let running = there.map(|there| there.record.version.as_str());
        let is_base = base.is_some_and(|base| base.version == version);
        match running {
            Some(running) if running == version => {}
            Some(_) if is_base => plan.keeps_handler = true,
            _ => plan.handler = Some(Handler { before: running.map(str::to_owned), after: version.to_owned(), added: 0, removed: 0 }),
        }
        plan
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.handler.is_none()
    }

    /// Returns whether the plan contains changes that the builder has to vouch for.
    pub(crate) fn is_vouched_for(&self) -> bool {
        self.handler.is_some()
            || self
                .changes
                .iter()
                .any(|change| matches!(change.field.as_str(), "title" | "description" | "tags" | "inputSchema" | "outputSchema"))
    }

    /// Returns the body of the PATCH request.
    pub(crate) fn patch(&self, upload: &Upload) -> Map<String, Value> {
        let mut patch: Map<String, Value> = self.changes.iter().map(|change| (change.field.clone(), change.after.clone())).collect();
        if let (Some(_), Some(handler)) = (&self.handler, upload.handler()) {
            patch.insert("handler".to_owned(), json!(handler));
        }
        patch
    }

    /// Returns the fields to store as the base. For fields that the host keeps it has the folder's values, so that the
    /// next deploy keeps them too.
    pub(crate) fn base_fields(&self, there: &RemoteEndpoint) -> Map<String, Value> {
        let mut fields = there.fields.clone();
        for stored in &self.unchanged {
            fields.insert(stored.field.clone(), stored.after.clone());
        }
        fields
    }

    /// Returns the host's values that it keeps although the folder has others.
    pub(crate) fn kept(&self, there: &RemoteEndpoint) -> Map<String, Value> {
        let fields = self.unchanged.iter().filter_map(|stored| Some((stored.field.clone(), there.fields.get(&stored.field)?.clone())));
        let handler = self.keeps_handler.then(|| ("handler".to_owned(), json!(there.record.version)));
        fields.chain(handler).collect()
    }

    /// Returns the rows for people. `check` is the host's check of the upload, and `fee_bps` the host's fee if it takes
    /// one.
    pub(crate) fn rows(&self, check: &EndpointCheck, fee_bps: Option<u16>) -> Vec<Row> {
        let mut rows: Vec<Row> = vec![];
        if let Some(Handler { before, after, added, removed }) = &self.handler {
            let change = before.as_ref().map_or_else(|| short(after), |before| format!("{} → {}", short(before), short(after)));
            rows.push(("handler".to_owned(), change, if before.is_some() { format!("+{added} −{removed}") } else { format!("+{added}") }));
        }
        let request = self.changes.iter().find(|change| change.field == "capabilities");
        let hosts = self.changes.iter().find(|change| change.field == "allowedHosts");
        for change in &self.changes {
            match change.field.as_str() {
                "capabilities" => rows.push(touches(change, hosts, check)),
                "allowedHosts" if request.is_some_and(|request| added(request).iter().any(|name| is_of_network(name))) => {}
                "allowedHosts" => rows.push(touches(change, None, check)),
                "priceUsd" => {
                    rows.push((change.field.clone(), change_text(change), fee_bps.map(|bps| net(&change.after, bps)).unwrap_or_default()))
                }
                field => {
                    let (before, after) = (json!({ field: change.before }), json!({ field: change.after }));
                    rows.extend(pairs(&before, &after).into_iter().map(|(name, change)| (name, strip_absent(&change), String::new())));
                }
            }
        }
        rows
    }

    /// Returns one line for each field that stays as it is on the host.
    pub(crate) fn unchanged_rows(&self) -> Vec<String> {
        let describe = |stored: &FieldChange| {
            let (here, there) = (json!({ &stored.field: stored.after }), json!({ &stored.field: stored.before }));
            pairs(&here, &there).into_iter().map(|(name, change)| format!("{name}  {change}")).collect::<Vec<_>>()
        };
        let handler = self.keeps_handler.then(|| "handler  kept from the host: it changed there but not here".to_owned());
        self.unchanged.iter().flat_map(describe).chain(handler).collect()
    }
}

/// Formats rows one below another, with the remarks in a column where they fit.
pub(crate) fn lines(rows: &[Row]) -> String {
    let width = |text: &str| text.chars().count();
    let names = rows.iter().map(|(name, ..)| width(name)).max().unwrap_or(0);
    let short = rows
        .iter()
        .filter(|(_, change, remark)| !remark.is_empty() && width(change) <= 24)
        .map(|(_, change, _)| width(change))
        .max()
        .unwrap_or(0);
    let reported = rows.iter().map(|(name, change, remark)| {
        let gap = if remark.is_empty() {
            0
        } else if width(change) <= short {
            short - width(change) + 2
        } else {
            3
        };
        format!("  {name}{}  {change}{}{remark}\n", " ".repeat(names - width(name)), " ".repeat(gap))
    });
    reported.collect()
}

/// Merges the folder's changes since the base into the host's value. Objects are merged member by member.
fn merged(was: &Value, change: &FieldChange) -> Value {
    let (theirs, mine) = (&change.before, &change.after);
    match (change.field.as_str(), was, theirs, mine) {
        ("limits" | "capabilities", Value::Object(was), Value::Object(theirs), Value::Object(mine)) => {
            let mut merged = theirs.clone();
            for name in was.keys().chain(mine.keys()).filter(|name| was.get(*name) != mine.get(*name)) {
                match mine.get(name) {
                    Some(value) => _ = merged.insert(name.clone(), value.clone()),
                    None => _ = merged.remove(name),
                }
            }
            Value::Object(merged)
        }
        _ if was == mine => theirs.clone(),
        _ => mine.clone(),
    }
}

fn change_text(change: &FieldChange) -> String {
    let shown = |value: &Value| if value.is_null() { String::new() } else { value.to_string() };
    match (shown(&change.before), shown(&change.after)) {
        (before, after) if before.is_empty() => after,
        (before, after) => format!("{before} → {after}"),
    }
}

/// Removes the old value "nothing" from the description of a new field.
fn strip_absent(change: &str) -> String {
    change.strip_prefix("nothing → ").unwrap_or(change).to_owned()
}

fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Object(named) => named.keys().cloned().collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => vec![],
    }
}

fn added(change: &FieldChange) -> Vec<String> {
    let before = names(&change.before);
    names(&change.after).into_iter().filter(|name| !before.contains(name)).collect()
}

/// Returns whether a capability reaches the allowed hosts.
fn is_of_network(name: &str) -> bool {
    Capabilities::ALL.of_network().names().any(|known| known == name)
}

/// Returns the row for capabilities or hosts that are added and removed, with a remark if an admin has to approve them.
fn touches(change: &FieldChange, hosts: Option<&FieldChange>, check: &EndpointCheck) -> Row {
    let (more, after) = (added(change), names(&change.after));
    let less: Vec<_> = names(&change.before).into_iter().filter(|name| !after.contains(name)).collect();
    let last_of_network = more.iter().rposition(|name| is_of_network(name));
    let with_hosts = |(at, name): (usize, &String)| match hosts {
        Some(hosts) if Some(at) == last_of_network => format!("{name} {}", added(hosts).join(" ")),
        _ => name.clone(),
    };
    let mut parts = vec![];
    if !more.is_empty() {
        parts.push(format!("+ {}", more.iter().enumerate().map(with_hosts).collect::<Vec<_>>().join(", ")));
    }
    if !less.is_empty() {
        parts.push(format!("− {}", less.join(", ")));
    }
    let requested = &check.requested;
    let asks = more.iter().any(|name| requested.hosts.contains(name) || requested.capabilities.names().any(|asked| asked == name));
    let remark = if asks { "needs approval; until then the tool works without it" } else { "" };
    (change.field.clone(), line(&parts.join("  ")), remark.to_owned())
}

/// Returns the builder's share of a price. The host's fee is rounded down.
fn net(price: &Value, fee_bps: u16) -> String {
    let micros = price.as_f64().map_or(0.0, |usd| (usd * 1e6).round());
    let fee = (micros * f64::from(fee_bps) / 10_000.0).floor();
    if micros == 0.0 { String::new() } else { format!("you get {} a call", (micros - fee) / 1e6) }
}

#[cfg(test)]
mod tests;
