use reqwest::StatusCode;
use serde_json::json;
use tollhouse_base::clock::{Clock, Timestamp};

use super::*;
use crate::{
    FacilitatorAccess,
    network::{BASE, SOLANA},
};

const ONE: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
const OTHER: &str = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU";

fn answers(payer: &str, signers: &[&str]) -> Value {
    json!({
        "kinds": [
            { "x402Version": 2, "scheme": "exact", "network": "eip155:8453", "extra": { "feePayer": "nobody" } },
            { "x402Version": 2, "scheme": "exact", "network": SOLANA.caip2, "extra": { "feePayer": payer } },
        ],
        "signers": { "solana:*": signers },
    })
}

#[test]
fn the_fee_payer_belongs_to_the_network() {
    let received = |body: &Value| {
        let supported = SupportedCache::default();
        supported.update(body, &SOLANA);
        supported.fee_payer()
    };
    assert_eq!(received(&answers(ONE, &[])).as_deref(), Some(ONE));
    assert_eq!(received(&answers("0x036CbD53842c5426634e7929541eC2318f3dCF7e", &[])), None);
    assert_eq!(received(&json!({ "kinds": [] })), None);
    assert_eq!(
        received(&json!({ "kinds": [{ "scheme": "exact", "network": "solana", "extra": { "feePayer": ONE } }] })).as_deref(),
        Some(ONE)
    );
}

#[test]
fn the_meter_belongs_to_the_network() {
    let supported = SupportedCache::default();
    let address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
    let kinds = json!([{ "x402Version": 2, "scheme": "upto", "network": BASE.caip2, "extra": { "facilitatorAddress": address } }]);
    supported.update(&json!({ "kinds": kinds }), &BASE);
    assert_eq!((supported.meter().as_deref(), supported.fee_payer()), (Some(address), None));
    supported.update(&json!({ "kinds": kinds }), &SOLANA);
    assert_eq!(supported.meter(), None);
    supported
        .update(&json!({ "kinds": [{ "scheme": "exact", "network": BASE.caip2, "extra": { "facilitatorAddress": address } }] }), &BASE);
    assert_eq!(supported.meter(), None);
}

#[test]
fn the_fee_payer_stays_while_it_is_a_signer() {
    let supported = SupportedCache::default();
    for (message, then) in [(answers(ONE, &[]), ONE), (answers(OTHER, &[OTHER, ONE]), ONE), (answers(OTHER, &[OTHER]), OTHER)] {
        supported.update(&message, &SOLANA);
        assert_eq!(supported.fee_payer().as_deref(), Some(then));
    }
}

#[test]
fn only_a_list_of_kinds_is_accepted() {
    let kinds = json!({ "kinds": [] });
    assert_eq!(read(HttpAnswer::Json(StatusCode::OK, kinds.clone())), Ok(kinds.clone()));
    for answer in [
        HttpAnswer::Json(StatusCode::OK, json!({ "kinds": "all" })),
        HttpAnswer::Json(StatusCode::BAD_GATEWAY, kinds),
        HttpAnswer::Unsent(String::new()),
        HttpAnswer::Nothing(String::new()),
    ] {
        assert!(read(answer).is_err());
    }
}

#[test]
fn a_network_without_a_needed_fee_payer_is_excluded() {
    let shut_out = |body: &Value, network: &Network| {
        let supported = SupportedCache::default();
        supported.update(body, network);
        supported.excludes(network)
    };
    let nobody = json!({ "kinds": [] });
    assert_eq!([shut_out(&nobody, &SOLANA), shut_out(&answers(ONE, &[]), &SOLANA), shut_out(&nobody, &BASE)], [true, false, false]);
}

#[test]
fn polling_slows_down_without_an_answer() {
    let pauses: Vec<_> = PAUSES.build().take(8).map(|pause| pause.as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[tokio::test(start_paused = true)]
async fn polling_ends_once_the_cache_is_dropped() {
    let line = Arc::new(FacilitatorClient::new("http://127.0.0.1:1", &FacilitatorAccess::default(), Clock::fixed(Timestamp(0))).unwrap());
    let asking = Arc::downgrade(&line);
    drop(SupportedCache::watch(line, &SOLANA));
    let ended = async {
        while asking.strong_count() > 0 {
            tokio::time::sleep(TIMEOUT).await;
        }
    };
    tokio::time::timeout(FRESH_FOR, ended).await.unwrap();
}
