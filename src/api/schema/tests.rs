use std::collections::BTreeSet;

use super::*;

/// Collects the names of all schemas that `value` refers to.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| match value.as_str() {
            Some(to) if name == "$ref" => found.extend(to.strip_prefix("#/components/schemas/")),
            _ => references(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_resolves() {
    let all = schemas();
    let mut named = BTreeSet::new();
    all.values().for_each(|schema| references(schema, &mut named));
    let lost: Vec<_> = named.into_iter().filter(|name| !all.contains_key(*name)).collect();
    assert!(lost.is_empty() && all.len() > 100, "{lost:?}");
}

#[test]
fn request_rejects_unknown_fields() {
    // Bodies that a tool, a protocol or a draft describes with its own schema, and an attestation, which can have more fields.
    let open = ["Capabilities", "EndpointCheckRequest", "JsonRpcMessage", "JsonSchema", "SafetyAttestation", "ToolInput"];
    for (name, schema) in requests().iter().filter(|(name, _)| !open.contains(&name.as_str())) {
        assert_eq!(schema["additionalProperties"], false, "{name}");
    }
}

#[test]
fn requests_and_responses_share_schemas() {
    let (requests, responses) = (requests(), responses());
    let shared: Vec<_> = requests.iter().filter_map(|(name, schema)| Some((name, schema, responses.get(name)?))).collect();
    let other: Vec<_> = shared.iter().filter(|(_, request, response)| request != response).map(|(name, ..)| name.as_str()).collect();
    // A request can omit a capability, and contain `null` for a limit that does not apply.
    assert_eq!((other, shared.len()), (vec!["Budget", "Capabilities"], 4), "{shared:?}");
}

#[test]
fn field_that_is_omitted_is_not_null() {
    let all = schemas();
    assert_eq!(all["CallPage"]["properties"]["nextCursor"]["type"], "string");
    assert_eq!(all["Endpoint"]["properties"]["settle"]["const"], "before");
    assert_eq!(all["Endpoint"]["properties"]["usage"]["$ref"], "#/components/schemas/RecentUsage");
    assert_eq!(all["Payout"]["properties"]["builderName"]["type"][1], "null");
    assert_eq!(all["Builder"]["properties"]["contact"]["type"][1], "null");
}
