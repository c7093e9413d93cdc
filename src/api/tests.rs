//! Compares [`schemas`](crate::schemas) with the schemas that were kept by hand.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::schemas;

/// Schemas that have a new name: the old one and the new one.
const RENAMED: &[(&str, &str)] = &[
    ("Applicant", "RegistrationRequest"),
    ("Attestation", "SafetyAttestation"),
    ("Brief", "EndpointSummary"),
    ("BriefPage", "EndpointSummaryPage"),
    ("BuilderAnswer", "BuilderResponse"),
    ("BuilderInList", "BuilderListEntry"),
    ("BuilderKey", "BuilderKeyResponse"),
    ("CalledOfLate", "RecentUsage"),
    ("Conversion", "ConversionQuote"),
    ("ConversionDraft", "ConversionRequest"),
    ("CreditAnswer", "CreditResponse"),
    ("CreditDraft", "MintCreditRequest"),
    ("CreditMinted", "MintCreditResponse"),
    ("CreditRead", "CreditsResponse"),
    ("Decided", "DecisionRecord"),
    ("DryRun", "DryRunRequest"),
    ("DryRunEnded", "DryRunResponse"),
    ("EndpointChanged", "EndpointChangeResponse"),
    ("EndpointCheck", "EndpointCheckRequest"),
    ("EndpointChecked", "EndpointCheckResponse"),
    ("EndpointDeleted", "DeleteEndpointResponse"),
    ("EndpointInspected", "EndpointResponse"),
    ("EndpointOwned", "OwnEndpointResponse"),
    ("EndpointSource", "EndpointSourceResponse"),
    ("FaucetDraft", "FaucetRequest"),
    ("Holding", "TokenAmount"),
    ("Invoke", "InvokeRequest"),
    ("Invoked", "InvokeResponse"),
    ("JsonRpc", "JsonRpcMessage"),
    ("KeySet", "JsonWebKeySet"),
    ("LedgerBalance", "SimulatedBalance"),
    ("Movement", "CreditMovement"),
    ("NamedBuilder", "BuilderRef"),
    ("NewSecret", "SetSecretRequest"),
    ("OpenApi", "OpenApiDocument"),
    ("PaymentAnswer", "PaymentResponse"),
    ("PayoutAnswer", "PayoutResponse"),
    ("PayoutMade", "CreatePayoutResponse"),
    ("PayoutPageOfAll", "AllPayoutsPage"),
    ("PayoutReceipts", "PayoutReceiptPage"),
    ("PayoutSettingsAnswer", "PayoutSettingsResponse"),
    ("PolicyAnswer", "PolicyResponse"),
    ("PolicyChecked", "PolicyCheckResponse"),
    ("QuoteDraft", "QuoteRequest"),
    ("ReceiptAnswer", "ReceiptResponse"),
    ("RefundDraft", "RefundRequest"),
    ("RefundGiven", "RefundResponse"),
    ("Registered", "RegistrationResponse"),
    ("Rescanned", "RescanResponse"),
    ("Resolution", "SettlementVerdict"),
    ("RevenueLine", "RevenueTotals"),
    ("Rotation", "KeyRotationResponse"),
    ("Runtime", "RuntimeStats"),
    ("SafetyPolicy", "SafetyPolicyResponse"),
    ("SecretRemoved", "RemoveSecretResponse"),
    ("SecretSet", "SecretResponse"),
    ("SellerDraft", "SellerQuoteRequest"),
    ("Usage", "DailyUsage"),
    ("WaitingReview", "PendingReview"),
];

/// Returns the schemas that were kept by hand, by their new names.
fn kept() -> BTreeMap<String, Value> {
    let file = include_str!("../http/documents/schemas.json");
    let renamed: BTreeMap<_, _> = RENAMED.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
    let mut file: Value = serde_json::from_str(file).unwrap();
    rename(&mut file, &renamed);
    let schemas = file["schemas"].as_object().unwrap();
    schemas.iter().map(|(name, schema)| (renamed.get(name).unwrap_or(name).clone(), schema.clone())).collect()
}

fn rename(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            if let Some(new) = members.get("$ref").and_then(|to| renamed.get(to.as_str()?.rsplit('/').next()?)) {
                members["$ref"] = json!(format!("#/components/schemas/{new}"));
            }
            members.values_mut().for_each(|value| rename(value, renamed));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, renamed)),
        _ => {}
    }
}

/// Brings schemas that accept the same values into the same form.
fn normalize(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(normalize);
            members.remove("description");
            if !members.contains_key("properties") && members.get("additionalProperties") == Some(&json!(true)) {
                members.remove("additionalProperties");
            }
            if members.contains_key("enum") || members.contains_key("const") {
                members.remove("type");
            }
            if let Some(Value::Array(options)) = members.get("anyOf").cloned()
                && let [first, second] = &options[..]
                && *second == json!({ "type": "null" })
                && let Some(values) = first.get("enum").and_then(Value::as_array)
            {
                let values: Vec<_> = values.iter().cloned().chain([Value::Null]).collect();
                members.remove("anyOf");
                members.insert("enum".to_owned(), values.into());
            }
            for name in ["required", "enum", "anyOf", "type"] {
                if let Some(Value::Array(items)) = members.get_mut(name) {
                    items.sort_by_key(Value::to_string);
                }
            }
            members.sort_keys();
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        _ => {}
    }
}

/// Lists the differences of two schemas, one a line.
fn differences(at: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                let at = format!("{at}/{name}");
                match (old.get(name), new.get(name)) {
                    (Some(old), Some(new)) => differences(&at, old, new, found),
                    (Some(old), None) => found.push(format!("{at}: no longer {old}")),
                    (None, Some(new)) => found.push(format!("{at}: now {new}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(olds), Value::Array(news)) if olds.len() == news.len() => {
            for (index, (old, new)) in olds.iter().zip(news).enumerate() {
                differences(&format!("{at}/{index}"), old, new, found);
            }
        }
        _ if old != new => found.push(format!("{at}: {old} is now {new}")),
        _ => {}
    }
}

#[test]
fn schemas_accept_what_those_kept_by_hand_accepted() {
    let (old, new) = (kept(), schemas());
    let names = |names: Vec<&String>| names.into_iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(old.keys().collect()), names(new.keys().collect()));
    let mut found = vec![];
    for (name, old) in old {
        let (mut old, mut new) = (old, new[&name].clone());
        normalize(&mut old);
        normalize(&mut new);
        differences(&name, &old, &new, &mut found);
    }
    // Counts are never negative, and defaults are named.
    found.retain(|line| !line.ends_with("/minimum: now 0") && !line.contains("/default: now "));
    assert!(found.is_empty(), "{} differences\n{}", found.len(), found.join("\n"));
}
