//! Reads real responses with the types, and writes them again.

use std::collections::BTreeMap;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::*;

/// Reads JSON as a `T` and writes it again.
fn rewrite<T: Serialize + DeserializeOwned>(json: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(json)?)
}

/// Declares the response type of each operation.
macro_rules! operations {
    ($($operation:literal => $response:ident,)*) => {
        fn rewrite_response(operation: &str, json: Value) -> Option<Result<Value, serde_json::Error>> {
            match operation {
                $($operation => Some(rewrite::<$response>(json)),)*
                _ => None,
            }
        }
    };
}

operations! {
    "checkEndpoint" => EndpointCheckResponse,
    "checkPolicy" => PolicyCheckResponse,
    "createEndpoint" => EndpointChangeResponse,
    "decidePayout" => PayoutResponse,
    "decideReview" => OwnEndpointResponse,
    "deleteEndpoint" => DeleteEndpointResponse,
    "fundAddress" => SimulatedBalance,
    "getBalance" => SimulatedBalance,
    "getBuilder" => BuilderResponse,
    "getContentSafetyPolicy" => SafetyPolicyResponse,
    "getHealth" => Health,
    "getHostMetrics" => Metrics,
    "getHostRevenue" => HostRevenue,
    "getManifest" => Manifest,
    "getMetrics" => Metrics,
    "getPayment" => PaymentResponse,
    "getPayout" => PayoutReceiptPage,
    "getPayoutSettings" => PayoutSettingsResponse,
    "getPolicy" => PolicyResponse,
    "getReceipt" => ReceiptResponse,
    "getReceiptKeys" => JsonWebKeySet,
    "getResources" => Resources,
    "getRevenue" => Revenue,
    "getRuntime" => RuntimeStats,
    "getSource" => EndpointSourceResponse,
    "getUsage" => DailyUsage,
    "giveRefund" => RefundResponse,
    "inspectEndpoint" => EndpointResponse,
    "invokeTool" => InvokeResponse,
    "isLive" => OkResponse,
    "isReady" => OkResponse,
    "judgeBuilder" => BuilderResponse,
    "judgeCredit" => CreditResponse,
    "listAllEndpoints" => EndpointSummaryPage,
    "listAllPayouts" => AllPayoutsPage,
    "listAudit" => AuditPage,
    "listBuilders" => BuilderPage,
    "listCalls" => CallPage,
    "listEvents" => EventPage,
    "listLogs" => LogPage,
    "listOwnEndpoints" => EndpointSummaryPage,
    "listPayouts" => PayoutPage,
    "listReviews" => ReviewPage,
    "listSecrets" => SecretList,
    "listTools" => Catalog,
    "listUnresolved" => UnresolvedPage,
    "makePayout" => CreatePayoutResponse,
    "makeSignInLink" => SignInLink,
    "mintCredit" => MintCreditResponse,
    "quoteConversion" => ConversionQuote,
    "quoteSeller" => SellerQuote,
    "quoteTool" => Quote,
    "readCredits" => CreditsResponse,
    "readLedger" => Ledger,
    "reconcile" => Reconciliation,
    "registerBuilder" => RegistrationResponse,
    "removeSecret" => RemoveSecretResponse,
    "rescan" => RescanResponse,
    "resolveSettlement" => PaymentResponse,
    "rotateBuilderKey" => BuilderKeyResponse,
    "rotateMasterKey" => KeyRotationResponse,
    "runEndpoint" => DryRunResponse,
    "setBudget" => CreditResponse,
    "setPayoutSettings" => PayoutSettingsResponse,
    "setPolicy" => PolicyResponse,
    "setSecret" => SecretResponse,
    "speakMcp" => JsonRpcMessage,
    "updateEndpoint" => EndpointChangeResponse,
}

#[test]
fn real_responses_are_read_and_written_unchanged() {
    let examples: BTreeMap<String, Value> = serde_json::from_str(include_str!("../http/documents/examples.json")).unwrap();
    let mut wrong = vec![];
    for (operation, example) in examples {
        match rewrite_response(&operation, example.clone()) {
            Some(Ok(written)) if written == example => {}
            Some(Ok(written)) => wrong.push(format!("{operation}: {example} is written as {written}")),
            Some(Err(error)) => wrong.push(format!("{operation}: {error}")),
            None => wrong.push(format!("{operation}: add its response type to `operations!`")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn draft_with_required_fields_has_defaults_for_the_others() {
    let draft = json!({ "slug": "a-b", "title": "A", "handlerType": "static_json" });
    let draft: EndpointDraft = serde_json::from_value(draft).unwrap();
    assert_eq!((draft.status, draft.isolation, draft.settle), (Status::Active, Isolation::Warm, SettleTime::After));
    assert_eq!(draft.input_schema.0, json!({ "type": "object" }));
    let again = rewrite::<EndpointDraft>(serde_json::to_value(&draft).unwrap()).unwrap();
    assert_eq!(serde_json::from_value::<EndpointDraft>(again).unwrap(), draft);
}

#[test]
fn patch_contains_only_the_fields_that_change() {
    let patch = EndpointPatch { price_usd: Some(MicroUsd(10_000)), ..EndpointPatch::default() };
    assert_eq!(serde_json::to_value(patch).unwrap(), json!({ "priceUsd": 0.01 }));
}

#[test]
fn absent_and_null_are_distinguished() {
    let payment = |receipt: Option<Value>| {
        let mut payment = json!({ "paymentId": "pay_1", "state": "settled", "updatedAt": "2026-11-22T09:58:03.000Z" });
        if let Some(receipt) = receipt {
            payment["receiptId"] = receipt;
        }
        payment
    };
    for receipt in [None, Some(Value::Null), Some(json!("rcpt_1"))] {
        let json = payment(receipt);
        assert_eq!(rewrite::<Payment>(json.clone()).unwrap(), json);
    }
}

#[test]
fn settlement_after_a_reorganization_is_read_in_each_state() {
    let since = "2026-11-22T09:58:03.000Z";
    for settlement in [
        json!({ "state": "reorganized", "transaction": "0x1", "since": since }),
        json!({ "state": "reorganized", "transaction": "0x1", "since": since, "lost": "usedElsewhere" }),
        json!({ "state": "settled", "transaction": "0x2", "since": since, "former": ["0x1"] }),
    ] {
        assert_eq!(rewrite::<Reorganization>(settlement.clone()).unwrap(), settlement);
    }
}
