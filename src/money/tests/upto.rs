//! Payments with the scheme `upto`: a permit for a maximum, from which the charge is taken.

mod permits;

use axum::{Json, Router, extract::State as Shared, routing::post};

use super::*;
use crate::{
    facilitator::kind::remote::HttpFacilitator,
    x402::permit2::{Permit, PermitAuthorization, UPTO_PROXY},
};

const METER: &str = "0x70110e5e70110e5e70110e5e70110e5e70110e5e";
/// The maximum price.
pub(super) const MAX: MicroUsd = MicroUsd(50_000);

fn metered() -> CallTerms {
    CallTerms { price: MAX, metered: true, ..terms() }
}

pub(super) fn requirements() -> Value {
    let (asset, terms) = (&ASSETS[0], metered());
    let extra = json!({ "name": asset.name, "version": asset.version, "assetTransferMethod": "permit2", "facilitatorAddress": METER });
    config().first().requirements(&terms, WireVersion::V2, &extra)
}

pub(super) fn authorization(payer: &Payer, nonce: u64) -> Value {
    json!({
        "from": payer.address(),
        "permitted": { "token": ASSETS[0].address, "amount": MAX.0.to_string() },
        "spender": UPTO_PROXY,
        "nonce": nonce.to_string(),
        "deadline": (NOW.as_secs() + 300).to_string(),
        "witness": { "to": PAY_TO, "facilitator": METER, "validAfter": "0" },
    })
}

fn permit(authorization: &Value) -> Permit {
    Permit::parse(&serde_json::from_value::<PermitAuthorization>(authorization.clone()).unwrap()).unwrap()
}

pub(super) fn paid(payer: &Payer, authorization: &Value) -> Value {
    let hash = permit(authorization).signing_hash(ASSETS[0].network);
    let (signature, recovery) = payer.0.sign_prehash_recoverable(hash.as_slice()).unwrap();
    let signature = format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte());
    json!({ "x402Version": 2, "accepted": requirements(), "payload": { "signature": signature, "permit2Authorization": authorization } })
}

/// Returns the payment as a facilitator sees it.
fn payment(payload: &Value) -> OfferedX402 {
    ShownPayment::decode(WireVersion::V2, &payload.to_string()).unwrap().matching(&metered(), vec![requirements()]).unwrap()
}

async fn admit(fixture: &Fixture, payload: &Value) -> Result<Admit, Refusal> {
    fixture.payments.admit(&metered(), offer(payload), REQUEST).await
}

/// Pays, and charges this amount.
async fn charged(fixture: &Fixture, payload: &Value, amount: MicroUsd) -> Result<StoredAnswer, SettleError> {
    let mut admission = run(admit(fixture, payload).await);
    admission.charge(amount);
    fixture.settle(admission).await
}

/// Compares with the hashes of viem 2.57.
#[test]
fn hashes_are_those_of_viem() {
    let authorization = json!({
        "from": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
        "permitted": { "token": ASSETS[0].address, "amount": "50000" },
        "spender": UPTO_PROXY,
        "nonce": "123456789012345678901234567890",
        "deadline": "1740672154",
        "witness": { "to": PAY_TO, "facilitator": METER, "validAfter": "0" },
    });
    assert_eq!(
        permit(&authorization).signing_hash(ASSETS[0].network).to_string(),
        "0x870f8db3b4a1cb7b37a3aa685437d7ac29e04e85accb3d10d04170494ac89a47"
    );
}

#[tokio::test]
async fn only_the_charged_amount_is_transferred() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let payload = paid(&payer, &authorization(&payer, 1));
    let bought = charged(&fixture, &payload, MicroUsd(12_345)).await.unwrap();
    let reported: Value = serde_json::from_str(&bought.settlement.unwrap().body).unwrap();
    assert_eq!((&reported["success"], &reported["amount"]), (&json!(true), &json!("12345")));
    assert_eq!((fixture.earned().await, fixture.balance(&payer.address()).await), (12_345, FUNDS.0 - 12_345));
    // A payment buys one run, whatever is left of the permitted amount.
    stored(admit(&fixture, &payload).await);
    assert_eq!(fixture.earned().await, 12_345);
}

/// With another spelling it would have the same signature but another id.
#[tokio::test]
async fn a_permit_has_one_spelling_so_it_buys_one_run() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let authorization = authorization(&payer, 1);
    let payload = paid(&payer, &authorization);
    let first = run(admit(&fixture, &payload).await);
    let respelled =
        [("from", payer.address()[2..].to_owned()), ("from", payer.address().replacen("0x", "0X", 1)), ("nonce", "01".to_owned())];
    for (field, spelling) in respelled {
        let mut payload = payload.clone();
        payload["payload"]["permit2Authorization"][field] = json!(spelling);
        assert!(matches!(admit(&fixture, &payload).await, Err(Refusal::Invalid { .. })), "{field}: {spelling}");
    }
    fixture.settle(first).await.unwrap();
}

/// Some wallets write the addresses in lower case, and hardware wallets write `v` as 0 or 1.
#[tokio::test]
async fn permit_of_any_wallet_is_settled_with_v_27_or_28() {
    let (fixture, payer) = (Fixture::new().await, Payer::new(1));
    let mut lower = authorization(&payer, 1);
    for pointer in ["/permitted/token", "/spender", "/witness/to", "/witness/facilitator"] {
        let field = lower.pointer_mut(pointer).unwrap();
        *field = json!(field.as_str().unwrap().to_lowercase());
    }
    let mut usual = paid(&payer, &lower);
    for field in ["asset", "payTo"] {
        let lower = usual["accepted"][field].as_str().unwrap().to_lowercase();
        usual["accepted"][field] = json!(lower);
    }
    let signature = usual["payload"]["signature"].as_str().unwrap().to_owned();
    let (rest, v) = signature.split_at(signature.len() - 2);
    let mut small = usual.clone();
    small["payload"]["signature"] = json!(format!("{rest}{}", if v == "1b" { "00" } else { "01" }));
    assert_eq!(payment(&small).payload["payload"]["signature"], json!(signature), "as it is settled");
    charged(&fixture, &small, MicroUsd(1)).await.unwrap();
    // Both spellings are one payment.
    stored(admit(&fixture, &usual).await);
    assert_eq!(fixture.earned().await, 1);
}

/// Permits and transfers have separate nonces.
#[tokio::test]
async fn a_permit_and_a_transfer_of_one_nonce_are_two_payments_and_so_are_permits_of_two() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    fixture.buy(payer.pays(1)).await;
    for nonce in [1, 2] {
        charged(&fixture, &paid(&payer, &authorization(&payer, nonce)), MicroUsd(1)).await.unwrap();
    }
    assert_eq!(fixture.earned().await, PRICE.0 + 2);
}

#[tokio::test]
async fn the_times_of_a_permit_count_to_the_second() {
    let (fixture, payer, now) = (Fixture::new().await, Payer::new(1), NOW.as_secs());
    for (deadline, valid_after, refused) in
        [(now + 6, now, None), (now + 5, now, Some("permit2_deadline_expired")), (now + 6, now + 1, Some("permit2_not_yet_valid"))]
    {
        let mut authorization = authorization(&payer, 1);
        authorization["deadline"] = json!(deadline.to_string());
        authorization["witness"]["validAfter"] = json!(valid_after.to_string());
        let reported = match fixture.facilitator.verify(&payment(&paid(&payer, &authorization))).await {
            VerifyResult::Invalid { reason, .. } => Some(reason),
            VerifyResult::Valid => None,
            VerifyResult::Unavailable(cause) => panic!("{cause}"),
        };
        assert_eq!(reported.as_deref(), refused);
    }
}

#[tokio::test]
async fn permit_that_does_not_match_the_requirements_is_refused() {
    let (fixture, payer) = (Fixture::new().await, Payer::new(1));
    let elsewhere = json!("0x1111111111111111111111111111111111111111");
    let past = json!((NOW.as_secs() + 5).to_string());
    let wrong = [
        ("/spender", elsewhere.clone(), "invalid_permit2_spender"),
        ("/witness/to", elsewhere.clone(), "invalid_permit2_recipient_mismatch"),
        ("/witness/facilitator", elsewhere.clone(), "upto_facilitator_mismatch"),
        ("/permitted/token", elsewhere, "permit2_token_mismatch"),
        ("/permitted/amount", json!("50001"), "permit2_amount_mismatch"),
        ("/permitted/amount", json!("49999"), "permit2_amount_mismatch"),
        ("/nonce", json!("0x1"), "invalid_payload"),
        ("/witness/validAfter", json!((NOW.as_secs() + 60).to_string()), "permit2_not_yet_valid"),
    ];
    for (pointer, value, reason) in wrong {
        let mut authorization = authorization(&payer, 1);
        let mut payload = paid(&payer, &authorization);
        *authorization.pointer_mut(pointer).unwrap() = value;
        if reason == "invalid_payload" {
            payload["payload"]["permit2Authorization"] = authorization;
        } else {
            payload = paid(&payer, &authorization);
        }
        assert_eq!(code(admit(&fixture, &payload).await), reason, "{pointer}");
    }
    let mut ends = authorization(&payer, 1);
    ends["deadline"] = past;
    assert!(matches!(admit(&fixture, &paid(&payer, &ends)).await, Err(Refusal::TooShort { .. })));
    let mut forged = paid(&payer, &authorization(&payer, 1));
    forged["payload"]["signature"] = paid(&Payer::new(2), &authorization(&payer, 1))["payload"]["signature"].clone();
    assert_eq!(code(admit(&fixture, &forged).await), "invalid_permit2_signature");
    assert_eq!(fixture.earned().await, 0);
}

/// Neither scheme accepts what was signed for the other.
#[tokio::test]
async fn permits_and_transfers_are_not_interchangeable() {
    let (fixture, payer) = (Fixture::new().await, Payer::new(1));
    let mut transfer = payer.payload(&Authorization { value: MAX.0.to_string(), ..payer.authorization(1) });
    transfer["accepted"] = requirements();
    assert_eq!(code(admit(&fixture, &transfer).await), "invalid_payload");
    let mut permit = paid(&payer, &authorization(&payer, 1));
    permit["accepted"] = super::requirements();
    assert_eq!(code(fixture.admit(offer(&permit)).await), "invalid_payload");
}

#[tokio::test]
async fn crash_after_the_charge_settles_the_charged_amount() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let payload = paid(&payer, &authorization(&payer, 1));
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    charged(&fixture, &payload, MicroUsd(700)).await.unwrap_err();
    let restarted = fixture.restarted();
    restarted.payments.recover().await.unwrap();
    restarted.payments.tick().await.unwrap();
    stored(admit(&restarted, &payload).await);
    assert_eq!(restarted.earned().await, 700);
}

type Asked = Arc<Mutex<Vec<Value>>>;

/// It is asked to verify the maximum, and to settle the charge, with the same payload.
#[tokio::test]
async fn facilitator_settles_the_charged_amount() {
    async fn answer(Shared(request): Shared<Asked>, Json(question): Json<Value>) -> Json<Value> {
        let network = question["paymentRequirements"]["network"].clone();
        request.lock().unwrap().push(question);
        Json(json!({ "isValid": true, "success": true, "transaction": format!("0x{:064x}", 402), "network": network }))
    }
    let request = Asked::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/verify", post(answer)).route("/settle", post(answer)).with_state(Arc::clone(&request));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let payer = Payer::new(1);
    let mut payment = payment(&paid(&payer, &authorization(&payer, 1)));
    let facilitator = HttpFacilitator::new(&url, &Default::default(), None, Clock::fixed(NOW)).unwrap();
    assert_eq!(facilitator.verify(&payment).await, VerifyResult::Valid);
    payment.charge(MicroUsd(12_345));
    let SettleOutcome::Settled(settled) = facilitator.settle(&payment, &started_settlement()).await else { panic!("not settled") };
    assert_eq!((settled.amount.as_str(), settled.scheme.as_str()), ("12345", "upto"));
    let request = request.lock().unwrap();
    let amounts: Vec<_> = request.iter().map(|question| &question["paymentRequirements"]["amount"]).collect();
    assert_eq!(amounts, [&json!("50000"), &json!("12345")]);
    assert_eq!(request[0]["paymentPayload"], request[1]["paymentPayload"]);
}
