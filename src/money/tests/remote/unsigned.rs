//! Payments whose signature is not by the payer's key.

use super::*;

/// Regression test: with an `http` facilitator, each payment that nobody had signed was a request under the host's key.
#[tokio::test]
async fn facilitator_is_not_asked_about_a_payment_that_nobody_can_have_signed() {
    let (payer, authorization) = (Payer::new(1), Payer::new(1).authorization(1));
    let signed = |signature: &str| {
        let mut payload = payer.payload(&authorization);
        payload["payload"]["signature"] = json!(signature);
        decode(&payload).unwrap()
    };
    let by_other = Payer::new(2).sign(&authorization);
    let (codeless, contract) = (Chain::at(NOW), Chain { code: "0x60", ..Chain::at(NOW) });
    for (signature, chain, is_asked) in [
        (payer.sign(&authorization), Some(codeless.clone()), true),
        (by_other.clone(), Some(codeless.clone()), false),
        (by_other.clone(), Some(contract), true),
        (by_other.clone(), None, true),
        (format!("{by_other}00"), Some(codeless), true),
        (by_other[..130].to_owned(), None, false),
        ("0xno".to_owned(), None, false),
    ] {
        let server = Server::saying([replies(200, json!({ "isValid": true }))]).await;
        let node = match chain {
            Some(chain) => Some(Node::of(chain).await),
            None => None,
        };
        let verdict = facilitator(&server, node.as_deref()).verify(&signed(&signature)).await;
        assert_eq!((server.requested_paths().len(), verdict == VerifyResult::Valid), (usize::from(is_asked), is_asked), "{signature}");
    }
}
