//! The jail of workers, as an operator sees it.

use std::{collections::BTreeSet, time::Duration};

use tollhouse_protocol::{JailLayer, Tier};

use crate::harness::{Host, eventually, tollhouse, within};

#[test]
fn doctor_reports_each_layer_once_with_reason_and_remedy() {
    let doctor = tollhouse().args(["doctor", "--json"]).output().unwrap();
    assert!(doctor.status.success(), "{doctor:?}");
    let reported: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let findings =
        reported["findings"].as_array().unwrap().iter().filter(|found| found["of"].as_str().is_some_and(|of| of.ends_with(", jail")));
    let findings: Vec<_> = findings.collect();
    // The configured tier is not named in its finding.
    let other = format!(", tier {}, jail", Tier::Jitless);
    let of_other = findings.iter().filter(|found| found["of"].as_str().unwrap().ends_with(&other)).count();
    assert!(of_other > 0 && findings.len() == 2 * of_other, "{reported}");
    for found in findings {
        let text = found["text"].as_str().unwrap();
        let words: Vec<_> = text.split([' ', ':', ',']).collect();
        for layer in JailLayer::ALL.map(|layer| layer.to_string()) {
            assert_eq!(words.iter().filter(|word| **word == layer).count(), 1, "{layer} in {text}");
        }
        // Layers with the same requirement share one remedy.
        let lacking = text.split_once("   ").map(|(_, lacking)| lacking).unwrap_or_default();
        let remedies: Vec<_> = found["remedies"].as_array().unwrap().iter().map(|remedy| remedy.as_str().unwrap()).collect();
        for layer in JailLayer::ALL.map(|layer| layer.to_string()) {
            let reported =
                remedies.iter().filter(|remedy| remedy.split_once(": ").is_some_and(|(of, _)| of.split(", ").any(|of| of == layer)));
            assert_eq!(reported.count(), usize::from(lacking.split([' ', ':', ',']).any(|word| word == layer)), "{layer}: {found}");
        }
    }
}

#[tokio::test]
async fn health_reports_each_layer_as_in_force_or_with_what_refused_it() {
    let host = Host::start().await;
    let sandbox = eventually("a worker has reported its jail", Duration::from_secs(60), || async {
        let sandbox = host.get("/health").await.is(200).json()["sandbox"].clone();
        (sandbox["jail"] != serde_json::json!([])).then_some(sandbox)
    })
    .await;
    let of = |list: &str| sandbox[list].as_array().unwrap().clone();
    let refused = of("jailRefused");
    assert!(refused.iter().all(|row| row["errno"].as_i64().is_some_and(|errno| errno > 0) && row["error"].is_string()), "{refused:?}");
    let reported = of("jail").into_iter().chain(refused.iter().map(|row| row["layer"].clone()));
    let mut reported: BTreeSet<_> = reported.map(|layer| layer.as_str().unwrap().to_owned()).collect();
    // The default tier on V8 does not have this layer.
    reported.insert(JailLayer::NoExec.to_string());
    assert_eq!(reported, JailLayer::ALL.map(|layer| layer.to_string()).into());
    let [tier] = &sandbox["tiers"].as_array().unwrap()[..] else { panic!("one tier is in use: {sandbox}") };
    assert_eq!(
        (&tier["tier"], &tier["jail"], &tier["jailRefused"]),
        (&serde_json::json!("jit"), &sandbox["jail"], &sandbox["jailRefused"])
    );
}

#[test]
fn host_does_not_start_without_a_layer_that_is_named() {
    let data = tempfile::tempdir().unwrap();
    let start = |strict: &str| {
        let mut host = tollhouse();
        host.args(["serve", "--listen", "127.0.0.1:0", "--sandbox-strict", strict, "--data"]).arg(data.path());
        host
    };
    let bare = tollhouse().args(["serve", "--sandbox-strict"]).output().unwrap();
    let text = String::from_utf8_lossy(&bare.stderr);
    assert!(bare.status.code() == Some(2) && text.contains("--sandbox-strict <LAYERS>"), "{text}");
    assert!(JailLayer::ALL.iter().all(|layer| text.contains(&layer.to_string())), "{text}");

    let unknown = start("seccomp,walls").output().unwrap();
    let text = String::from_utf8_lossy(&unknown.stderr);
    assert!(!unknown.status.success() && text.contains("`walls` is not a layer of the jail"), "{text}");

    // Neither a normal user nor root without this capability can run workers as separate users.
    let mut host = start("own_user");
    if rustix::process::geteuid().is_root() {
        host = within("setpriv", &["--bounding-set=-setuid", "--"], &host);
    }
    let refused = host.output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("lacks own_user: Operation not permitted"), "{text}");
}
