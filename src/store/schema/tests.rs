//! Data on the disks of running hosts stays where it is.

use super::*;
use crate::{Key, KeyPrefix, table_plan::stored_key};

/// Checks the number of each space. The numbers are distinct because they are enum discriminants, and following the
/// order of `ALL` ensures that none is missing.
#[test]
fn every_space_is_at_its_number() {
    for (number, space) in (0..).zip(Space::ALL) {
        assert_eq!(space as u8, number);
        assert_eq!(Space::of_number(number), Some(space));
    }
    assert_eq!(Space::of_number(u8::try_from(Space::ALL.len()).unwrap()), None);
}

#[test]
fn every_space_has_a_table() {
    for space in Space::ALL {
        assert!(TABLES.iter().any(|table| table.space == space), "{space:?}");
    }
}

#[test]
fn every_space_without_a_kind_is_small_or_counted_elsewhere() {
    let unreported: Vec<_> = Space::ALL.into_iter().filter(|space| space.kind().is_none()).collect();
    assert_eq!(unreported, [Space::Meta, Space::FreeReceipts]);
}

#[test]
fn every_index_names_its_table() {
    for index in TABLES.iter().map(|table| table.index_of).filter(|name| !name.is_empty()) {
        assert!(TABLES.iter().any(|table| table.name == index && table.index_of.is_empty()), "{index}");
    }
}

#[test]
fn tables_of_one_space_do_not_mix() {
    for (position, one) in TABLES.iter().enumerate() {
        for other in &TABLES[position + 1..] {
            assert_ne!(one.name, other.name);
            let whole_keys = one.key == "()" && other.key == "()";
            let apart = match whole_keys {
                true => one.prefix != other.prefix,
                false => !one.prefix.starts_with(other.prefix) && !other.prefix.starts_with(one.prefix),
            };
            assert!(one.space != other.space || apart, "{} and {}", one.name, other.name);
        }
    }
}

/// Returns the stored key after checking that it decodes to the original.
fn stored<K: Key + Clone + PartialEq + std::fmt::Debug>(table: DeclaredTable<K>, key: K) -> String {
    let at = stored_key(table.plan(), &key);
    assert_eq!(at.strip_prefix(table.plan().prefix.as_bytes()).and_then(K::read), Some(key));
    at.escape_ascii().to_string()
}

fn start<K: Key>(table: DeclaredTable<K>, start: &impl KeyPrefix<K>) -> String {
    stored_key(table.plan(), start).escape_ascii().to_string()
}

#[test]
fn every_table_has_a_key_below() {
    let (_, held) = include_str!("tests.rs").split_once("fn stored_keys_do_not_change").unwrap();
    let words: Vec<_> = held.split(|character: char| character != '_' && !character.is_alphanumeric()).collect();
    for table in TABLES {
        assert!(words.contains(&table.name), "{} is not", table.name);
    }
}

/// Keys as earlier versions wrote them.
#[test]
fn stored_keys_do_not_change() {
    const ULID: &str = "01JD000000000000000000000A";
    let endpoint: EndpointId = format!("ep_{ULID}").parse().unwrap();
    let builder: BuilderId = format!("bld_{ULID}").parse().unwrap();
    let receipt: ReceiptId = format!("rcpt_{ULID}").parse().unwrap();
    let request: RequestId = format!("req_{ULID}").parse().unwrap();
    let payout: PayoutId = format!("pay_{ULID}").parse().unwrap();
    let credit: CreditId = format!("crd_{ULID}").parse().unwrap();
    let audit: AuditId = format!("aud_{ULID}").parse().unwrap();
    let replica: ReplicaId = format!("rpl_{ULID}").parse().unwrap();
    let text = str::to_owned;
    let at = Timestamp(0x0102);
    let time = r"\x00\x00\x00\x00\x00\x00\x01\x02";
    let counted = format!(r"\x1dep_{ULID}");

    assert_eq!(stored(POLICY, ()), "policy");
    assert_eq!(stored(SHIPPED, ()), "catalogue-shipped");
    assert_eq!(stored(SCANNED_BY, ()), "content-policy-version");
    assert_eq!(stored(FREE_COUNT, ()), "free-receipts/count");
    assert_eq!(stored(FREE_BYTES, ()), "free-receipts/bytes");
    assert_eq!(stored(LEDGER_OPENED, ()), "ledger-opened");
    assert_eq!(stored(MONEY_KIND, ()), "money-kind");
    assert_eq!(stored(USED, (0x0102, text("address/x"))), format!("used/{time}address/x"));
    assert_eq!(stored(BURNED_GAS, (0x0102, text("reverted/all"))), format!("burned-gas/{time}reverted/all"));
    assert_eq!(stored(CUSTOMERS, (0x0102, text("0xab/echo"))), format!("customers/{time}0xab/echo"));
    assert_eq!(stored(MCP_RECALLS, (at, text("task_1"))), format!("mcp-recalls/{time}task_1"));
    assert_eq!(stored(OBJECT_ENDS, (at, text("ab"))), format!("object-ends/{time}ab"));
    assert_eq!(stored(JOBS, text("sweep")), "jobs/sweep");
    assert_eq!(stored(ROUNDS, text("logs")), "rounds/logs");
    assert_eq!(stored(VERSIONS_LET_GO, text("sha256:0a")), "versions-let-go/sha256:0a");
    assert_eq!(stored(KEYS, text("receipts")), "keys/receipts");
    assert_eq!(stored(GAS_NONCES, text("eip155:8453/0xa")), "gas-nonces/eip155:8453/0xa");
    assert_eq!(stored(FILLED_BY, ()), "filled-by");
    assert_eq!(stored(DEPARTED, ()), "departed");
    assert_eq!(stored(RECEIPT_KEYS, text("kid")), "receipt-keys/kid");
    assert_eq!(stored(FORMATS_WRITTEN, ()), "formats-written");
    assert_eq!(stored(REPLICAS, replica), format!("replicas/rpl_{ULID}"));
    for slugs in [ENDPOINTS, VERSIONS, VERSION_OWNERS, RETIRED_SLUGS, MINTINGS, TASKS, LEDGER_BALANCES, LEDGER_NONCES, ACCOUNTS, POSTINGS] {
        assert_eq!(stored(slugs, text("text")), "text");
    }
    assert_eq!(stored(CATALOGUE, text("text")), "slug/text");
    assert_eq!(stored(VERSION_USES, (TerminatedText(text("sha256:0a")), text("text"))), r"uses/sha256:0a\x00text");
    assert_eq!(stored(RETIRED_OF, (TerminatedText(text("platform")), text("text"))), r"retired-slugs/platform\x00text");
    assert_eq!(stored(SCHEDULES, endpoint.clone()), format!("schedules/ep_{ULID}"));
    assert_eq!(stored(SCHEDULES_DUE, (at, endpoint.clone())), format!("schedules-due/{time}ep_{ULID}"));
    let owner = TerminatedText(text("platform"));
    assert_eq!(stored(SCHEDULES_OF, (owner, endpoint.clone())), format!(r"schedules-of/platform\x00ep_{ULID}"));
    assert_eq!(stored(DELETIONS, (at, endpoint.clone())), format!("deletions/{time}ep_{ULID}"));
    assert_eq!(stored(DELETED, text("text")), "deleted/text");
    assert_eq!(stored(ENDPOINTS_OWNED, TerminatedText(text("platform"))), r"endpoints-owned/platform\x00");
    assert_eq!(stored(SECRETS_ADDED, endpoint.clone()), format!("secrets-added/ep_{ULID}"));
    assert_eq!(stored(RECEIPTS, receipt.clone()), format!("rcpt_{ULID}"));
    let pack = r"\x00\x00\x00\x07";
    assert_eq!(stored(FREE_RECEIPTS, (0x0102, request.clone(), 7)), format!("{time}req_{ULID}{pack}"));
    let payment = PaymentId::of(&["a"]);
    assert_eq!(stored(PAYMENTS, payment.clone()), payment.as_str());
    assert_eq!(stored(PAYMENT_NAMES, text("0xa/name")), "cid/0xa/name");
    assert_eq!(stored(TRANSACTIONS, text("eip155:8453/0xa")), "tx/eip155:8453/0xa");
    assert_eq!(stored(REORGANIZED_SETTLEMENTS, receipt.clone()), format!("reorganized/rcpt_{ULID}"));
    assert_eq!(stored(RESETTLED_SETTLEMENTS, receipt.clone()), format!("resettled/rcpt_{ULID}"));
    assert_eq!(stored(WATCHED_SETTLEMENTS, text("eip155:8453/07/rcpt_a")), "watched/eip155:8453/07/rcpt_a");
    assert_eq!(stored(PAYMENT_ANSWERS, payment.clone()), payment.as_str());
    assert_eq!(stored(OPEN_INTENTS, payment.clone()), payment.as_str());
    assert_eq!(stored(UNRESOLVED_SETTLEMENTS, payment.clone()), format!("unresolved/{}", payment.as_str().trim_start_matches("pmt_")));
    assert_eq!(stored(HELD_BALANCES, text("0xab/eip155:1/0xcd")), "held/0xab/eip155:1/0xcd");
    assert_eq!(stored(PAYMENT_EXPIRY, (at, text("pmt_0a"))), format!("{time}pmt_0a"));
    assert_eq!(stored(CREDITS, credit.clone()), format!("crd_{ULID}"));
    assert_eq!(stored(CREDIT_DAYS, (0x0102, credit.clone(), text("echo"))), format!(r"\x00\x00\x01\x02crd_{ULID}echo"));
    assert_eq!(stored(CREDIT_MOVEMENTS, (credit, 0x0102)), format!("crd_{ULID}{time}"));
    assert_eq!(stored(REFUNDS, receipt.clone()), format!(r"receipt\x00rcpt_{ULID}"));
    assert_eq!(stored(REFUND_KEYS, text("text")), r"key\x00text");
    assert_eq!(stored(SENT_TRANSACTIONS, text("0xa")), r"tx\x000xa");
    assert_eq!(stored(REFUNDS_OWED, builder.clone()), format!(r"owed\x00bld_{ULID}"));
    assert_eq!(stored(LEDGER_EXPIRY, (at, text("text"))), format!("{time}text"));
    assert_eq!(stored(KV, (CountedText(endpoint.clone()), text("key"))), format!("{counted}key"));
    assert_eq!(stored(FILES, (CountedText(endpoint.clone()), text("key"))), format!("{counted}key"));
    assert_eq!(stored(SECRETS, (CountedText(endpoint.clone()), text("key"))), format!("{counted}key"));
    assert_eq!(stored(KV_USAGE, CountedText(endpoint.clone())), counted);
    assert_eq!(stored(FILES_USAGE, CountedText(endpoint.clone())), counted);
    assert_eq!(stored(LOGS, (CountedText(endpoint.clone()), at, 7)), format!(r"{counted}{time}\x00\x00\x00\x00{pack}"));
    assert_eq!(stored(BUILDERS, builder.clone()), format!("bld_{ULID}"));
    assert_eq!(stored(BUILDER_SEEN, builder.clone()), format!("builders-seen/bld_{ULID}"));
    assert_eq!(
        stored(EVENTS, (TerminatedText(text("platform")), KeyPosition::of(&(at, text("evt_x"))))),
        format!(r"platform\x00{time}evt_x")
    );
    let share = || TerminatedText(text("platform"));
    let day = r"\x00\x00\x01\x02";
    assert_eq!(stored(SELLERS, (0x0102, share())), r"\x00\x00\x01\x02platform\x00");
    assert_eq!(stored(SALES, (share(), SaleKey::RollUp(0x0102, endpoint.clone()))), format!(r"platform\x00\x00{day}ep_{ULID}"));
    assert_eq!(stored(SALES, (share(), SaleKey::Row(at, text("rcpt_x")))), format!(r"platform\x00\x01{time}rcpt_x"));
    assert_eq!(start(SALES, &(share(), SaleKey::ROW)), r"platform\x00\x01");
    assert_eq!(stored(UNPAID, (TerminatedText(builder.clone()), receipt.clone())), format!(r"bld_{ULID}\x00rcpt_{ULID}"));
    assert_eq!(stored(PAYOUTS, (TerminatedText(text(ULID)), payout.clone())), format!(r"bld_{ULID}\x00pay_{ULID}"));
    assert_eq!(stored(PAYOUT_BUILDERS, payout.clone()), format!(r"index\x00pay_{ULID}"));
    assert_eq!(stored(PAYOUT_STATES, (3, payout.clone())), format!(r"state\x00\x03pay_{ULID}"));
    assert_eq!(stored(PAYOUT_COUNTS, 3), r"count\x00\x03");
    assert_eq!(stored(PAYOUT_HEADS, builder.clone()), format!(r"head\x00bld_{ULID}"));
    assert_eq!(stored(PAYOUT_RECEIPTS, (TerminatedText(payout), receipt.to_string())), format!(r"pay_{ULID}\x00rcpt_{ULID}"));
    assert_eq!(stored(PAYOUT_SETTINGS, builder), format!("bld_{ULID}"));
    assert_eq!(stored(AUDIT, (at, audit)), format!("{time}aud_{ULID}"));
    assert_eq!(stored(CALLS, (TerminatedText(endpoint.clone()), at, request.clone(), 7)), format!(r"ep_{ULID}\x00{time}req_{ULID}{pack}"));
    assert_eq!(stored(CALL_METRICS, (TerminatedText(endpoint), 1, 0x0102, request)), format!(r"ep_{ULID}\x00\x01{time}req_{ULID}"));
    assert_eq!(stored(SESSIONS, (TerminatedText("admin".to_owned()), "0a".to_owned())), r"admin\x000a");
}
