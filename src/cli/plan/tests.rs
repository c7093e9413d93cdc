use super::*;

fn change(field: &str, before: Value, after: Value) -> FieldChange {
    FieldChange { field: field.to_owned(), before, after }
}

#[test]
fn plan_lists_its_changes_with_remarks() {
    let plan = Plan {
        changes: vec![
            change("priceUsd", json!(0.01), json!(0.02)),
            change("capabilities", json!({ "logs": true }), json!({ "logs": true, "httpGetJson": true })),
            change("allowedHosts", json!([]), json!(["api.example.com"])),
        ],
        handler: Some(Handler {
            before: Some("sha256:3f9a1c0b22".to_owned()),
            after: "sha256:8be07d1122".to_owned(),
            added: 12,
            removed: 4,
        }),
        ..Plan::default()
    };
    let check = json!({
        "version": "sha256:8be07d1122", "existing": true, "granted": { "capabilities": {}, "hosts": [] },
        "requested": { "capabilities": { "httpGetJson": true }, "hosts": ["api.example.com"] },
        "needsReview": false, "outcome": null, "findings": [], "limits": {}, "warnings": [],
    });
    let check = serde_json::from_value(check).unwrap();
    assert_eq!(
        lines(&plan.rows(&check, Some(500))),
        "  handler       3f9a1c0b → 8be07d11  +12 −4\n  priceUsd      0.01 → 0.02          you get 0.019 a call\n  \
         capabilities  + httpGetJson api.example.com   needs approval; until then the tool works without it\n"
    );
}

#[test]
fn limit_that_only_the_host_changed_stays() {
    let limits = |was: Value, theirs: Value, mine: Value| merged(&was, &change("limits", theirs, mine));
    let was = json!({ "wallMs": 10000, "cpuMs": 5 });
    assert_eq!(limits(was.clone(), json!({ "wallMs": 5000, "cpuMs": 5 }), was.clone()), json!({ "wallMs": 5000, "cpuMs": 5 }));
    let mine = json!({ "wallMs": 10000, "cpuMs": 9, "logBytes": 1 });
    assert_eq!(limits(was.clone(), json!({ "wallMs": 5000, "cpuMs": 5 }), mine), json!({ "wallMs": 5000, "cpuMs": 9, "logBytes": 1 }));
    assert_eq!(limits(was.clone(), was.clone(), json!({ "cpuMs": 5 })), json!({ "cpuMs": 5 }));
    assert_eq!(merged(&json!(0.01), &change("priceUsd", json!(0.05), json!(0.01))), json!(0.05));
    assert_eq!(merged(&json!(0.01), &change("priceUsd", json!(0.05), json!(0.02))), json!(0.02));
}

#[test]
fn share_of_a_price_is_exact() {
    assert_eq!(net(&json!(0.02), 500), "you get 0.019 a call");
    assert_eq!(net(&json!(0.000_001), 500), "you get 0.000001 a call");
    assert_eq!(net(&json!(0), 500), "");
}
