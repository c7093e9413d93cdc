//! Pages of receipts and payments.

use serde_json::json;

use super::{html, page, text, values};
use crate::harness::{Host, Payer, js};

#[tokio::test]
async fn a_receipt_and_its_payment_are_shown_as_they_are() {
    let host = Host::start().await;
    host.publish(&js("said", 0.01, "export default (req) => req.input;")).await;
    let payment = Payer::funded(&host, 1.0).await.pay(&host.challenge("said").await);
    let answer = host.call_paid("said", &json!({}), &payment).await.is(200);
    let (receipt, paid) = (answer.receipt_id(), answer.has("x-payment-id").to_owned());
    let record = host.receipt(&receipt).await;
    let slip = html(&page(&host, &format!("/dashboard/receipts/{receipt}")).await.is(200));
    let shown = text(&slip);
    for reported in ["$0.01", "simulated", "settled"] {
        assert!(shown.contains(reported), "{reported}");
    }
    for member in ["receiptId", "version", "transaction", "requestHash", "resultHash", "payer", "network", "asset", "amount", "resourceUrl"]
    {
        assert!(shown.contains(record[member].as_str().unwrap()), "{member}");
    }
    assert_eq!(values(&slip, "data-receipt"), [format!("/ai/receipts/{receipt}")], "the data that the browser checks");
    assert!(slip.contains("noindex"));

    let slip = html(&page(&host, &format!("/dashboard/payments/{paid}")).await.is(200));
    assert!(text(&slip).contains("✓ settled"), "{slip}");
    assert!(!slip.contains(&receipt), "anybody can compute the id of a payment");
}

#[tokio::test]
async fn a_slip_is_found_by_its_id() {
    let host = Host::start().await;
    for (id, to) in [
        ("rcpt_1", "/dashboard/receipts/rcpt_1"),
        ("+pmt_1+", "/dashboard/payments/pmt_1"),
        ("a%2F%2Fevil.example%0D%0Ax", "/dashboard/receipts/a%2F%2Fevil.example%0D%0Ax"),
    ] {
        assert_eq!(page(&host, &format!("/dashboard/receipts?id={id}")).await.is(303).has("location"), to);
    }
    for path in ["/dashboard/receipts/rcpt_none", "/dashboard/payments/pmt_none"] {
        let html = html(&page(&host, path).await.is(404));
        assert!(html.contains("name=\"id\""), "another one can be asked about");
    }
    assert!(html(&page(&host, "/dashboard/receipts?id=").await.is(200)).contains("name=\"id\""));
}
