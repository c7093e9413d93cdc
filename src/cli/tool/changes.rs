//! The fields of a tool in the folder and on the host, and the differences that a deploy publishes.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tollhouse_api::{EndpointPatch, OwnEndpoint};
use tollhouse_protocol::Limits;
use tollhouse_tool::MicroUsd;

/// Fields that a folder may set, in the order of output.
pub(crate) const FIELDS: [&str; 19] = [
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
    "schedules",
    "requestTypes",
    "requestHeaders",
    "refundBrokenStreams",
    "handlerType",
];

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FieldChange {
    pub(crate) field: String,
    /// The host's value. Null if the host does not have the tool.
    pub(crate) before: Value,
    pub(crate) after: Value,
}

/// Returns a record's fields as a folder would have them: everything that was requested, granted or not.
pub(crate) fn of_record(record: &OwnEndpoint) -> Map<String, Value> {
    let common = record.common.clone();
    let patch = EndpointPatch {
        title: Some(common.title),
        description: Some(common.description),
        status: Some(common.status),
        price_usd: Some(common.price_usd),
        max_price_usd: Some(record.max_price_usd.unwrap_or(MicroUsd::ZERO)),
        tags: Some(common.tags),
        input_schema: Some(common.input_schema),
        output_schema: Some(common.output_schema),
        capabilities: Some(common.capabilities.union(record.requested_capabilities)),
        limits: Some(record.own_limits.0.iter().map(|(name, value)| (name.clone(), json!(value))).collect()),
        allowed_hosts: Some(record.allowed_hosts.iter().chain(&record.requested_hosts).cloned().collect()),
        isolation: Some(record.isolation),
        accepts: Some(record.accepts.clone()),
        settle: Some(record.settle),
        schedules: Some(record.schedules.clone()),
        request_types: Some(common.request_types),
        request_headers: Some(common.request_headers),
        refund_broken_streams: Some(common.refund_broken_streams),
        ..EndpointPatch::default()
    };
    let mut fields = json!(patch).as_object().cloned().unwrap_or_default();
    fields.insert("handlerType".to_owned(), json!(common.handler_type));
    for (field, value) in &mut fields {
        *value = plain(field, value);
    }
    fields
}

/// Returns the default that a create request gives a field.
pub(crate) fn default(field: &str) -> Value {
    match field {
        "title" | "description" => json!(""),
        "status" => json!("active"),
        "priceUsd" | "maxPriceUsd" => json!(0.0),
        "tags" | "allowedHosts" | "accepts" | "schedules" | "requestTypes" | "requestHeaders" => json!([]),
        "inputSchema" => json!({ "type": "object" }),
        "refundBrokenStreams" => json!(false),
        "isolation" => json!("warm"),
        "settle" => json!("after"),
        "outputSchema" | "capabilities" | "limits" => json!({}),
        _ => Value::Null,
    }
}

/// Returns each field of the folder that differs on the host. Fields that the folder does not set are left to the host.
pub(crate) fn changes(body: &Map<String, Value>, there: Option<&Map<String, Value>>) -> Vec<FieldChange> {
    let given = FIELDS.into_iter().filter_map(|field| Some((field, body.get(field)?)));
    let differing = given.filter_map(|(field, value)| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::tests::record;

    #[test]
    fn fields_of_a_folder_are_those_of_a_record() {
        let mut fields: Vec<_> = of_record(&record()).keys().cloned().collect();
        let mut expected = FIELDS.to_vec();
        fields.sort_unstable();
        expected.sort_unstable();
        assert_eq!(fields, expected);
    }

    #[test]
    fn equal_values_are_not_a_change() {
        let body = json!({
            "slug": "a", "title": "A", "priceUsd": 0.010_000_000_1, "maxPriceUsd": 0, "limits": {"wallMs": 5000, "cpuMs": Limits::default().get("cpuMs")},
            "capabilities": {"kv": true, "httpGetJson": true, "logs": false}, "allowedHosts": ["api.example.com"], "note": "n",
        });
        assert_eq!(changes(body.as_object().unwrap(), Some(&of_record(&record()))), []);
    }

    #[test]
    fn absent_field_is_left_to_the_host() {
        let body = json!({ "slug": "a", "priceUsd": 0.02 });
        let change = FieldChange { field: "priceUsd".to_owned(), before: json!(0.01), after: json!(0.02) };
        assert_eq!(changes(body.as_object().unwrap(), Some(&of_record(&record()))), [change]);
    }

    #[test]
    fn new_tool_lists_all_that_differs_from_defaults() {
        let body = json!({ "slug": "a", "title": "A", "tags": [], "priceUsd": 0 });
        let listed: Vec<_> = changes(body.as_object().unwrap(), None).into_iter().map(|change| change.field).collect();
        assert_eq!(listed, ["title"]);
    }
}
