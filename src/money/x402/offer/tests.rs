use super::*;

/// Returns an entry with this network, token and scheme.
fn entry([network, asset, scheme]: [&str; 3]) -> Value {
    json!({ "network": network, "asset": asset, "scheme": scheme })
}

#[test]
fn the_nearest_entry_is_that_of_the_same_network_then_token_then_scheme() {
    let entries = [
        ["polygon", "USDC", "exact"],
        ["base", "USDC", "exact"],
        ["base", "USDC", "upto"],
        ["base", "DAI", "exact"],
        ["base", "DAI", "upto"],
    ];
    let near = |named: [&str; 3]| {
        let accepts = entries.map(entry).to_vec();
        nearest(accepts, &json!({ "accepted": entry(named) }), WireVersion::V2, None).unwrap()
    };
    for named in entries {
        assert_eq!(near(named), entry(named));
    }
    for (named, reported) in [
        (["base", "DAI", "escrow"], ["base", "DAI", "exact"]),
        (["base", "EUR", "upto"], ["base", "USDC", "upto"]),
        (["polygon", "DAI", "upto"], ["polygon", "USDC", "exact"]),
        (["celo", "DAI", "upto"], ["base", "USDC", "upto"]),
    ] {
        assert_eq!(near(named), entry(reported), "{named:?}");
    }
    let v1 = nearest(entries.map(entry).to_vec(), &json!({ "network": "base", "scheme": "exact" }), WireVersion::V1, Some("DAI"));
    assert_eq!(v1, Some(entry(["base", "DAI", "exact"])));
    assert_eq!(nearest(vec![], &json!({}), WireVersion::V2, None), None);
}
