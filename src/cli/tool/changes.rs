//! The fields of a tool in the folder and on the host, and the differences that a deploy publishes.

use serde_json::{Map, Value, json};
use tollhouse_protocol::Limits;

/// Fields that a folder may set, in the order of output.
pub(crate) const FIELDS: [&str; 15] = [
    "title",
    "description",
    "status",
    "priceUsd",
    "maxPriceUsd",
    "tags",
    "inputSchema",
    "outputSchema",
    "capabilities",
    "allowedHosts",
    "limits",
    "isolation",
    "accepts",
    "settle",
    "handlerType",
];

/// A field that differs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldChange {
    pub(crate) field: String,
    /// The host's value. Null if the host does not have the tool.
    pub(crate) before: Value,
    pub(crate) after: Value,
}

/// Returns a record's fields as a folder would have them: everything that was requested, granted or not.
pub(crate) fn of_record(record: &Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for field in FIELDS {
        let value = match field {
            "capabilities" => both(&record["capabilities"], &record["requestedCapabilities"]),
            "allowedHosts" => joined(&record["allowedHosts"], &record["requestedHosts"]),
            "limits" => record["ownLimits"].clone(),
            "maxPriceUsd" if record[field].is_null() => json!(0),
            "settle" if record[field].is_null() => json!("after"),
            _ => record[field].clone(),
        };
        fields.insert(field.to_owned(), plain(field, &value));
    }
    fields
}

/// Returns the default that a create request gives a field.
pub(crate) fn default(field: &str) -> Value {
    match field {
        "title" | "description" => json!(""),
        "status" => json!("active"),
        "priceUsd" | "maxPriceUsd" => json!(0.0),
        "tags" | "allowedHosts" | "accepts" => json!([]),
        "inputSchema" => json!({ "type": "object" }),
        "isolation" => json!("warm"),
        "settle" => json!("after"),
        "outputSchema" | "capabilities" | "limits" => json!({}),
        _ => Value::Null,
    }
}

/// Returns each field of the folder that differs on the host. Fields that the folder does not set are left to the host.
pub(crate) fn changes(body: &Map<String, Value>, there: Option<&Map<String, Value>>) -> Vec<FieldChange> {
    let message = FIELDS.into_iter().filter_map(|field| Some((field, body.get(field)?)));
    let differing = message.filter_map(|(field, value)| {
        let after = plain(field, value);
        let before = there.map_or(Value::Null, |there| there.get(field).cloned().unwrap_or_else(|| default(field)));
        let is_same = if there.is_some() { before == after } else { after == default(field) };
        (!is_same).then(|| FieldChange { field: field.to_owned(), before, after })
    });
    differing.collect()
}

/// Normalizes a value, so that values with the same meaning compare equal.
pub(crate) fn plain(field: &str, value: &Value) -> Value {
    match (field, value) {
        ("priceUsd" | "maxPriceUsd", value) => value.as_f64().map_or(value.clone(), |usd| json!((usd * 1e6).round() / 1e6)),
        ("capabilities", Value::Object(named)) => {
            named.iter().filter(|(_, granted)| **granted == json!(true)).map(|(name, granted)| (name.clone(), granted.clone())).collect()
        }
        ("limits", Value::Object(named)) => {
            let defaults = Limits::default();
            named
                .iter()
                .filter(|(name, value)| defaults.get(name) != value.as_u64())
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        }
        ("allowedHosts", Value::Array(hosts)) => {
            let mut unique: Vec<Value> = vec![];
            for host in hosts {
                let host = host.as_str().map_or(host.clone(), |host| json!(host.to_ascii_lowercase()));
                if !unique.contains(&host) {
                    unique.push(host);
                }
            }
            unique.sort_by_key(ToString::to_string);
            json!(unique)
        }
        (_, value) => value.clone(),
    }
}

/// Returns the capabilities that are true in either object.
fn both(granted: &Value, requested: &Value) -> Value {
    let mut all = granted.as_object().cloned().unwrap_or_default();
    for (name, value) in requested.as_object().into_iter().flatten() {
        if *value == json!(true) {
            all.insert(name.clone(), json!(true));
        }
    }
    Value::Object(all)
}

fn joined(granted: &Value, requested: &Value) -> Value {
    let all = [granted, requested].into_iter().filter_map(Value::as_array).flatten().cloned();
    Value::Array(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Value {
        json!({
            "slug": "a", "title": "A", "description": "", "status": "active", "priceUsd": 0.01, "tags": ["x"], "inputSchema": {"type": "object"},
            "outputSchema": {}, "capabilities": {"kv": true, "files": false}, "requestedCapabilities": {"httpGetJson": true, "kv": false},
            "allowedHosts": [], "requestedHosts": ["API.example.com"], "limits": {"wallMs": 5000}, "ownLimits": {"wallMs": 5000},
            "isolation": "warm", "accepts": [], "handlerType": "js_request_response", "revision": 7,
        })
    }

    #[test]
    fn what_a_folder_says_as_the_host_has_it_is_no_change() {
        let body = json!({
            "slug": "a", "title": "A", "priceUsd": 0.010_000_000_1, "maxPriceUsd": 0, "limits": {"wallMs": 5000, "cpuMs": Limits::default().get("cpuMs")},
            "capabilities": {"kv": true, "httpGetJson": true, "logs": false}, "allowedHosts": ["api.example.com"], "note": "n",
        });
        assert_eq!(changes(body.as_object().unwrap(), Some(&of_record(&record()))), []);
    }

    #[test]
    fn what_a_folder_does_not_say_is_left_to_the_host() {
        let body = json!({ "slug": "a", "priceUsd": 0.02 });
        let change = FieldChange { field: "priceUsd".to_owned(), before: json!(0.01), after: json!(0.02) };
        assert_eq!(changes(body.as_object().unwrap(), Some(&of_record(&record()))), [change]);
    }

    #[test]
    fn of_a_new_endpoint_all_that_is_no_default_is_reported() {
        let body = json!({ "slug": "a", "title": "A", "tags": [], "priceUsd": 0 });
        let listed: Vec<_> = changes(body.as_object().unwrap(), None).into_iter().map(|change| change.field).collect();
        assert_eq!(listed, ["title"]);
    }
}
