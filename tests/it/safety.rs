//! The public content safety policy.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::harness::Host;

async fn policy(host: &Host) -> Value {
    let mut answer = host.get("/ai/content-safety/policy").await.is(200).json();
    assert_eq!(answer["ok"], true);
    answer["policy"].take()
}

fn ids(policy: &Value) -> BTreeSet<&str> {
    policy["rules"].as_array().unwrap().iter().map(|rule| rule["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_policy_shows_every_rule_and_none_of_its_patterns() {
    let host = Host::builder().flag("--abuse-contact", "abuse@host.test").start().await;
    let policy = policy(&host).await;
    for rule in policy["rules"].as_array().unwrap() {
        let members: BTreeSet<_> = rule.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["description", "family", "id", "severity"].into());
        assert!(["note", "review", "block"].contains(&rule["severity"].as_str().unwrap()), "{rule}");
    }
    for family in ["secrets", "personal-data", "illegal-material", "encoded", "code", "network", "unicode", "provenance"] {
        assert!(policy["rules"].as_array().unwrap().iter().any(|rule| rule["family"] == family), "no rule of {family}");
    }
    assert_eq!(policy["attestation"]["field"], "safetyAttestation.accepted");
    assert_eq!(policy["abuse"]["contact"], "abuse@host.test");
    assert_eq!(policy["outcomes"].as_object().unwrap().len(), 3);
    let catalog = host.get("/ai/endpoints").await.is(200).json();
    assert_eq!(catalog["contentSafety"]["policy"], json!(format!("{}/ai/content-safety/policy", host.url)));
}

#[tokio::test]
async fn an_operators_lists_change_the_version_and_the_rules() {
    let shipped = Host::start().await;
    let shipped = policy(&shipped).await;
    let folder = tempfile::tempdir().unwrap();
    let (hashes, terms) = (folder.path().join("hashes.txt"), folder.path().join("terms.toml"));
    fs::write(&hashes, format!("# known\n{}  a file\n", "ab".repeat(32))).unwrap();
    fs::write(&terms, "[[list]]\ncategory = \"house\"\nlanguage = \"en\"\nseverity = \"review\"\nterms = [\"unwanted words\"]\n").unwrap();
    let host = Host::builder().flag("--safety-hashes", hashes.display()).flag("--safety-terms", terms.display()).start().await;
    let own = policy(&host).await;
    let more: Vec<_> = ids(&own).difference(&ids(&shipped)).copied().collect();
    assert_eq!(more, ["operator.house", "operator.known-hash"]);
    let (own, shipped) = (own["version"].as_str().unwrap(), shipped["version"].as_str().unwrap());
    assert!(own.starts_with(&format!("{shipped}+")), "{own} of {shipped}");
    // The policy must not reveal the terms, because that would help to avoid them.
    let answer = host.get("/ai/content-safety/policy").await.is(200);
    assert!(!String::from_utf8_lossy(&answer.body).contains("unwanted words"));
}
