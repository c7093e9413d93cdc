mod fuzz;

use serde_json::json;
use tollhouse_store::{Durability, Store as _, Value as _, memory::MemoryStore};
use tollhouse_tool::MicroUsd;

use super::{super::record::RECEIPTS, *};
use crate::receipt::{
    Receipt, ReceiptDraft, ReceiptPayment as Paid, ReceiptSigner, SettledTransfer,
    samples::{draft, transfer},
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
    let odd = SettledTransfer { payer: format!("{SIGNATURE}\"é"), transaction: format!("{X402}.\\"), ..transfer() };
    let solana = SettledTransfer { network: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1".to_owned(), payer: "4".repeat(44), ..transfer() };
    let mut receipts = Vec::new();
    for draft in [plain, full] {
        let credit = Paid::Credit { credit: "crd_01J00000000000000000000000".to_owned() };
        let options = [Paid::X402(transfer()), Paid::X402(odd.clone()), Paid::X402(solana.clone()), credit];
        receipts.extend(options.map(|method| signer.receipt(draft.clone(), method)));
    }
    receipts
}

fn stored(json: &[u8], short: bool) -> Vec<u8> {
    StoredReceipt { json: json.to_vec(), short }.to_bytes()
}

#[test]
fn a_short_receipt_reads_as_it_was() {
    for receipt in receipts(&signer()) {
        let json = serde_json::to_vec(&receipt).unwrap();
        for (short, least) in [(true, json.len() * 2 / 3), (false, json.len())] {
            let row = stored(&json, short);
            let read = StoredReceipt::of_bytes(&row).unwrap();
            assert_eq!((read.short, String::from_utf8(read.json).unwrap()), (short, String::from_utf8(json.clone()).unwrap()));
            assert!(row.len() <= least + 2, "{} of {}", row.len(), json.len());
        }
    }
}

/// Checks the figure in `docs/scale.md`.
#[test]
fn a_short_receipt_is_less_than_two_fifths() {
    let json = serde_json::to_vec(&signer().receipt(draft(), Paid::X402(transfer()))).unwrap();
    let short = stored(&json, true);
    assert!(short.len() * 5 < json.len() * 2, "{} of {}", short.len(), json.len());
}

/// Includes additions of a later version, and receipts that no version makes.
#[test]
fn what_would_not_read_as_it_was_is_kept_whole() {
    let signer = signer();
    let receipt = signer.receipt(draft(), Paid::X402(transfer()));
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
        let read = StoredReceipt::of_bytes(&stored(other.as_bytes(), true)).unwrap();
        assert!(!read.short && read.json == other.as_bytes(), "{other}");
    }
}

/// A version may add fields. They are signed, so they are part of the text and are restored.
#[test]
fn members_that_this_version_does_not_know_come_out_again() {
    let signer = signer();
    let receipt = signer.receipt(draft(), Paid::X402(transfer()));
    let mut record = serde_json::to_value(&receipt.record).unwrap();
    record["later"] = json!({ "of": ["it", 7, null, 0.25] });
    let text = serde_json::to_string(&record).unwrap();
    let signature = signer.present(text.as_bytes()).unwrap()["signature"].as_str().unwrap().to_owned();
    let text = format!("{}{SIGNATURE}{signature}\"}}", text.strip_suffix('}').unwrap());
    let read = StoredReceipt::of_bytes(&stored(text.as_bytes(), true)).unwrap();
    assert!(read.short && read.json == text.as_bytes(), "{text}");
}

#[test]
fn a_damaged_row_is_no_receipt() {
    let json = serde_json::to_vec(&signer().receipt(draft(), Paid::X402(transfer()))).unwrap();
    let row = stored(&json, true);
    for cut in 0..row.len() {
        let read = StoredReceipt::of_bytes(&row[..cut]).unwrap();
        assert!(!read.short && serde_json::from_slice::<Value>(&read.json).is_err(), "cut at {cut}");
    }
}

#[tokio::test]
async fn rows_of_either_form_lie_side_by_side() {
    let (store, signer) = (MemoryStore::new(), signer());
    for (at, receipt) in receipts(&signer).into_iter().enumerate() {
        let id = receipt.record.draft.receipt_id.clone();
        store.apply(receipt.stored(at % 2 == 0), Durability::Durable).await.unwrap();
        let read = RECEIPTS.get(&store, &id).await.unwrap().unwrap();
        assert_eq!((read.json, read.short), (serde_json::to_vec(&receipt).unwrap(), at % 2 == 0));
    }
}
