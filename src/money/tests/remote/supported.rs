//! The addresses that payers must name, as the facilitator reports them.

use super::*;
use crate::{
    network::{BASE, SOLANA},
    tests::evm::until,
    x402::svm::tests::FEE_PAYER,
};

#[tokio::test]
async fn payers_must_name_the_addresses_the_facilitator_lists() {
    let kinds = json!([
        { "x402Version": 2, "scheme": "exact", "network": SOLANA.caip2, "extra": { "feePayer": FEE_PAYER } },
        { "x402Version": 2, "scheme": "upto", "network": BASE.caip2, "extra": { "facilitatorAddress": PAY_TO } },
    ]);
    let server = Server::saying([replies(200, json!({ "kinds": kinds }))]).await;
    for (network, fee_payer, meter) in [(&SOLANA, Some(FEE_PAYER), None), (&BASE, None, Some(PAY_TO))] {
        let facilitator = facilitator(&server, None).watching(network);
        let describe = || (facilitator.fee_payer(network), facilitator.meter(network));
        let received = until(|| Some(describe()).filter(|described| *described != (None, None))).await;
        assert_eq!(received, (fee_payer.map(str::to_owned), meter.map(str::to_owned)));
    }
    assert_eq!(server.requested_paths(), ["/supported", "/supported"]);
}
