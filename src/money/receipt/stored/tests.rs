mod fuzz;

use serde_json::json;
use tollhouse_store::{Durability, Store as _, Value as _, memory::MemoryStore};
use tollhouse_tool::MicroUsd;

use super::{super::record::RECEIPTS, *};
use crate::{
    Settlement,
    receipt::{
        Receipt, ReceiptDraft, ReceiptSigner,
        tests::{credit, draft, transfer},
    },
};

fn signer() -> ReceiptSigner {
    ReceiptSigner::open(tempfile::tempdir().unwrap().path()).unwrap()
}

/// Receipts with every means of payment, and with texts that resemble the separators.
fn receipts(signer: &ReceiptSigner) -> Vec<Receipt> {
    let plain = draft();
    let full = ReceiptDraft {
        quote_id: Some("quo_1".to_owned()),
        max_price_usd: Some(MicroUsd(20_000)),
        resource_url: format!("https://x.example/a?{X402}{SIGNATURE}\\\"}}\u{1f600}"),
        ..draft()
    };
    let odd = Settlement { payer: format!("{SIGNATURE}\"é"), transaction: format!("{X402}.\\"), ..transfer() };
    let solana = Settlement { network: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1".to_owned(), payer: "4".repeat(44), ..transfer() };
    let mut receipts = Vec::new();
    for draft in [plain, full] {
        receipts.extend([&transfer(), &odd, &solana, &credit()].map(|settlement| signer.receipt(draft.clone(), settlement, true)));
    }
    receipts
}

fn stored(json: &[u8]) -> Vec<u8> {
    StoredReceipt { json: json.to_vec() }.to_bytes()
}

fn is_short(row: &[u8]) -> bool {
    matches!(ReceiptRow::of_bytes(row), Some(ReceiptRow::Short(_)))
}

#[test]
fn a_short_receipt_reads_as_it_was() {
    for receipt in receipts(&signer()) {
        let json = serde_json::to_vec(&receipt).unwrap();
        let row = stored(&json);
        assert_eq!(StoredReceipt::of_bytes(&row).unwrap().json, json);
        assert!(is_short(&row) && row.len() <= json.len() * 2 / 3 + 2, "{} of {}", row.len(), json.len());
    }
}

/// Checks the figure in `docs/explanation/scale-of-data.md`.
#[test]
fn a_short_receipt_is_less_than_two_fifths() {
    let json = serde_json::to_vec(&signer().receipt(draft(), &transfer(), true)).unwrap();
    let short = stored(&json);
    assert!(short.len() * 5 < json.len() * 2, "{} of {}", short.len(), json.len());
}

/// Includes additions of a later version, and receipts that no version makes.
#[test]
fn receipt_that_the_short_form_cannot_restore_is_stored_whole() {
    let signer = signer();
    let receipt = signer.receipt(draft(), &transfer(), true);
    let text = serde_json::to_string(&receipt).unwrap();
    let (record, signature) = text.rsplit_once(SIGNATURE).unwrap();
    let more = json!({ "more": [1.5, { "b": 1, "a": "\u{7f}" }] }).to_string();
    let others = [
        text.replacen("\"simulated\":true", "\"simulated\":false", 1),
        text.replacen("0x857b", "0x857c", 1),
        format!("{record}{},\"signature\":\"{}", &more[1..more.len() - 1].replace("\"more\"", ",\"more\""), signature),
        format!("{record}{SIGNATURE}a.b\"}}"),
        format!("{record}{SIGNATURE}a.b.c\"}}"),
        format!("{record}{SIGNATURE}\"}}"),
        text.replacen("\"jws\"", "\"eip712\"", 1),
        text.trim_end_matches("\"}").to_owned(),
        "{}".to_owned(),
    ];
    for other in others {
        let row = stored(other.as_bytes());
        assert!(!is_short(&row) && StoredReceipt::of_bytes(&row).unwrap().json == other.as_bytes(), "{other}");
    }
}

/// A version may add fields. They are signed, so they are part of the text and are restored.
#[test]
fn members_that_this_version_does_not_know_come_out_again() {
    let signer = signer();
    let receipt = signer.receipt(draft(), &transfer(), true);
    let mut record = serde_json::to_value(&receipt.record).unwrap();
    record["later"] = json!({ "of": ["it", 7, null, 0.25] });
    let text = serde_json::to_string(&record).unwrap();
    let signature = signer.present(text.as_bytes()).unwrap()["signature"].as_str().unwrap().to_owned();
    let text = format!("{}{SIGNATURE}{signature}\"}}", text.strip_suffix('}').unwrap());
    let row = stored(text.as_bytes());
    assert!(is_short(&row) && StoredReceipt::of_bytes(&row).unwrap().json == text.as_bytes(), "{text}");
}

#[test]
fn damaged_row_does_not_decode_as_a_receipt() {
    let json = serde_json::to_vec(&signer().receipt(draft(), &transfer(), true)).unwrap();
    let row = stored(&json);
    for cut in 0..row.len() {
        let read = StoredReceipt::of_bytes(&row[..cut]).unwrap();
        assert!(serde_json::from_slice::<Value>(&read.json).is_err(), "cut at {cut}");
    }
}

#[tokio::test]
async fn stored_receipt_is_read_from_its_table() {
    let (store, signer) = (MemoryStore::new(), signer());
    for receipt in receipts(&signer) {
        store.apply(receipt.stored(), Durability::Durable).await.unwrap();
        let read = RECEIPTS.get(&store, &receipt.record.draft.receipt_id).await.unwrap().unwrap();
        assert_eq!(read.json, serde_json::to_vec(&receipt).unwrap());
    }
}
