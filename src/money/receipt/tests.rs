//! A call and its payment for tests of receipts.

use serde_json::json;
use tollhouse_base::{
    clock::Timestamp,
    id::{EndpointId, ReceiptId},
};
use tollhouse_tool::MicroUsd;

use super::{ReceiptDraft, json_hash, request_hash};
use crate::{Settlement, SettlementKind, WireVersion};

pub(super) fn draft() -> ReceiptDraft {
    let endpoint_id = EndpointId::generate();
    ReceiptDraft {
        receipt_id: ReceiptId::generate(),
        slug: "echo-tool".parse().unwrap(),
        request_hash: request_hash(endpoint_id.as_str(), br#"{"text":"hi"}"#),
        endpoint_id,
        version: "sha256:00".to_owned(),
        price_usd: MicroUsd(1_230),
        quote_id: None,
        max_price_usd: None,
        owner: false,
        resource_url: "http://127.0.0.1:4020/tools/echo-tool".to_owned(),
        result_hash: json_hash(&json!({"text": "hi"})),
        streamed: false,
        settle: Default::default(),
        started_at: Timestamp(1_790_000_000_123),
        issued_at: Timestamp(1_790_000_000_456),
    }
}

pub(super) fn transfer() -> Settlement {
    Settlement {
        kind: SettlementKind::X402,
        network: "eip155:84532".to_owned(),
        asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e".to_owned(),
        amount: "1230".to_owned(),
        transaction: format!("0x{}", "ab".repeat(32)),
        payer: "0x857b06519E91e3A54538791bDbb0E22373e36b66".to_owned(),
        scheme: "exact".to_owned(),
        version: Some(WireVersion::V2),
        evidence: None,
    }
}

pub(super) fn credit() -> Settlement {
    Settlement { kind: SettlementKind::Credit, payer: "crd_01J00000000000000000000000".to_owned(), ..transfer() }
}
