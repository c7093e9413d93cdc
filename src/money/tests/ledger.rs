//! The check of the ledger confirms consistent data and reports inconsistencies.

use tollhouse_base::id::{BuilderId, PayoutId};
use tollhouse_store::{Key as _, Sum, WrittenRow};

use super::*;
use crate::{
    ledger::{self, Check, LedgerReport, POSTINGS},
    payout::{PayoutDecision, PayoutSettingsDraft, PayoutVerdict, Payouts},
    refund::RefundRequest,
    sale::FeeBps,
    tests::refund::refunding,
};

/// The payers' token, as named in accounts.
const TOKEN: &str = "simulated/eip155:84532/0x036CbD53842c5426634e7929541eC2318f3dCF7e";

/// Checks that all records of money are consistent.
pub(super) async fn ledger_agrees(fixture: &Fixture, story: &str) {
    let found = found(fixture).await;
    assert!(found.wrong.is_empty(), "{story}: {:#?}", found.wrong);
}

async fn found(fixture: &Fixture) -> LedgerReport {
    ledger::check(&*fixture.store).await.unwrap()
}

/// Returns all inconsistencies with their amounts.
pub(super) async fn wrong(fixture: &Fixture) -> Vec<String> {
    found(fixture).await.wrong.iter().map(ToString::to_string).collect()
}

/// Returns the draft of a call of `owner`'s tool, with a fee of a twentieth.
pub(super) fn draft_of(owner: &Owner) -> Vec<u8> {
    let mut closing: ReceiptContext = serde_json::from_slice(&draft()).unwrap();
    (closing.owner, closing.fee) = (owner.clone(), FeeBps(500).of(PRICE, owner));
    ReceiptFinisher::encode(&closing)
}

pub(super) fn by_credit(token: &str) -> OfferedPayment {
    OfferedPayment::Credit(CreditOffer { token: token.to_owned(), idempotency_key: None, observer: None })
}

impl Fixture {
    pub(super) fn payouts(&self) -> Payouts {
        let events = Arc::new(Events::new(Arc::clone(&self.store), self.clock.clone(), EventSettings::default()));
        Payouts::new(Arc::clone(&self.store), self.clock.clone(), events, Arc::clone(&self.signer), config().assets().collect())
    }

    pub(super) async fn sell(&self, owner: &Owner, offered: OfferedPayment) -> Option<StoredAnswer> {
        let Ok(Admit::Run(admission)) = self.admit(offered).await else { return None };
        self.payments.settle(admission, answer(ANSWER), &draft_of(owner)).await.ok()
    }

    pub(super) async fn write(&self, space: Space, key: Vec<u8>, value: Vec<u8>) {
        self.store.apply(Batch::of(vec![], vec![Write::put(space, key, value)]), Durability::Buffered).await.unwrap();
    }

    pub(super) async fn delete(&self, space: Space, key: Vec<u8>) {
        self.store.apply(Batch::of(vec![], vec![Write::delete(space, key)]), Durability::Buffered).await.unwrap();
    }

    /// Checks that the postings sum to zero per unit, each posting separately.
    pub(super) async fn postings_balance(&self) {
        for row in POSTINGS.page(&*self.store, &POSTINGS.all(), 100_000, Direction::Forward).await.unwrap() {
            let mut units = std::collections::BTreeMap::<String, i128>::new();
            row.value.changes().into_iter().for_each(|(account, by)| *units.entry(account.unit()).or_default() += by);
            assert!(units.values().all(|sum| *sum == 0), "{row:?}");
        }
    }
}

pub(super) async fn pay_out(payouts: &Payouts, builder: &BuilderId, pays: bool) -> Option<PayoutId> {
    let packet = payouts.pay_out(builder).await.ok()??;
    let verdict = |decision, transaction| PayoutVerdict { decision, transaction, reason: None };
    payouts.decide(&packet.id, &verdict(PayoutDecision::Approve, None)).await.unwrap();
    let last =
        if pays { verdict(PayoutDecision::Paid, Some(format!("0x{}", "a".repeat(64)))) } else { verdict(PayoutDecision::Failed, None) };
    payouts.decide(&packet.id, &last).await.unwrap();
    Some(packet.id)
}

/// Makes a payout and rejects it.
async fn reject_payout(payouts: &Payouts, builder: &BuilderId) {
    let Ok(Some(packet)) = payouts.pay_out(builder).await else { return };
    let verdict = PayoutVerdict { decision: PayoutDecision::Reject, transaction: None, reason: None };
    payouts.decide(&packet.id, &verdict).await.unwrap();
}

pub(super) async fn ready_to_be_paid(payouts: &Payouts) -> BuilderId {
    let builder = BuilderId::generate();
    let settings = PayoutSettingsDraft { address: PAY_TO.to_owned(), network: None, asset: None, minimum_usd: Some(MicroUsd(1)) };
    payouts.set(&builder, &settings, None).await.unwrap();
    builder
}

#[tokio::test]
async fn every_posting_balances_and_the_ledger_agrees() {
    for seed in 1..=12 {
        let fixture = Fixture::new().await;
        let (payouts, credits) = (fixture.payouts(), Arc::clone(fixture.payments.credits()));
        let builders = [ready_to_be_paid(&payouts).await, ready_to_be_paid(&payouts).await];
        let owners = [Owner::Platform, Owner::Builder(builders[0].clone()), Owner::Builder(builders[1].clone())];
        let (mut dice, mut tokens, mut receipts, mut nonce) = (fastrand::Rng::with_seed(seed), vec![], vec![], 0);
        let refunds = fixture.refunds();
        for step in 0..80 {
            let owner = dice.choice(&owners).unwrap().clone();
            match dice.u64(..10) {
                0 => {
                    let MintedCredit { token, credit } = credits.mint(MicroUsd(dice.u64(..5) * PRICE.0 + 1), "", None).await.unwrap();
                    tokens.push((token.unwrap(), credit.id.clone()));
                }
                1 | 2 if !tokens.is_empty() => {
                    let sold = fixture.sell(&owner, by_credit(&dice.choice(&tokens).unwrap().0)).await;
                    receipts.extend(sold.map(|sold| (sold.receipt_id, false)));
                }
                3 | 4 => {
                    nonce += 1;
                    receipts.extend(fixture.sell(&owner, Payer::new(1).pays(nonce)).await.map(|sold| (sold.receipt_id, true)));
                }
                5 if !tokens.is_empty() => _ = credits.top_up(&dice.choice(&tokens).unwrap().1, PRICE, None).await,
                6 if !tokens.is_empty() => {
                    let decision = *dice.choice(&[CreditDecision::Revoke, CreditDecision::Restore]).unwrap();
                    _ = credits.decide(&dice.choice(&tokens).unwrap().1, &CreditVerdict { decision, reason: None }).await;
                }
                7 | 8 if !receipts.is_empty() => {
                    let (receipt, by_x402) = dice.choice(&receipts).unwrap();
                    let amount = (dice.u64(..3) > 0).then(|| MicroUsd(dice.u64(..PRICE.0) + 1));
                    let transaction = by_x402.then(|| format!("0x{step:064x}"));
                    _ = refunds.issue(&RefundRequest { amount, transaction, ..refunding(receipt) }, None).await;
                }
                9 => {
                    let builder = dice.choice(&builders).unwrap();
                    match dice.u64(..3) {
                        2 => reject_payout(&payouts, builder).await,
                        end => _ = pay_out(&payouts, builder, end == 0).await,
                    }
                }
                _ => {}
            }
            if step % 16 == 15 {
                ledger_agrees(&fixture, &format!("seed {seed}, step {step}")).await;
            }
        }
        fixture.postings_balance().await;
    }
}

#[tokio::test]
async fn check_names_tampered_rows_and_the_difference() {
    let fixture = Fixture::new().await;
    // A movement at the moment when the ledger was opened has its posting.
    ledger::open(&*fixture.store, &fixture.clock).await.unwrap();
    let payouts = fixture.payouts();
    let builder = ready_to_be_paid(&payouts).await;
    let owner = Owner::Builder(builder.clone());
    let MintedCredit { token, credit } = fixture.payments.credits().mint(FUNDS, "", None).await.unwrap();
    let token = token.unwrap();
    let sold = fixture.sell(&owner, by_credit(&token)).await.unwrap();
    let packet = pay_out(&payouts, &builder, false).await.unwrap();
    let other = fixture.sell(&owner, Payer::new(1).pays(1)).await.unwrap();
    let (net, fee) = (PRICE.0 - PRICE.0 / 20, PRICE.0 / 20);
    ledger_agrees(&fixture, "before").await;
    let checked_at = "4 postings in 8 accounts, 2 receipts, 2 movements of 1 credit, 1 amount to be paid out, 1 payout, 0 refunds; \
                     0 rows of the archive";
    assert_eq!(found(&fixture).await.to_string(), checked_at);

    let raised = |sum: u64| Sum(i128::from(sum) + 7).to_bytes();
    // (record, space, its key, the value there instead, the report)
    let posting = |id: &str| format!("sold/{id}").into_bytes();
    let (movement, _) = fixture.all(Space::CreditMovements).await.swap_remove(0);
    let number = u64::from_be_bytes(*movement.last_chunk().unwrap());
    let minted = format!("minted/{}/{number}", credit.id).into_bytes();
    let treasury = format!("treasury/{TOKEN}").into_bytes();
    let waiting = |id: &str| [format!("{builder}\0").as_bytes(), id.as_bytes()].concat();
    let mut balance = vec![];
    (credit.id.clone(), u64::MAX).write(&mut balance);
    let unpaid = crate::sale::UnpaidSale { net: net + 7, at_ms: NOW.0 };
    let whole = format!("{builder}\0{packet}").into_bytes();
    let in_packet = [format!("{packet}\0").as_bytes(), sold.receipt_id.as_bytes()].concat();
    let cases = [
        (Space::Accounts, b"fees".to_vec(), Some(raised(2 * fee)), format!("account fees: its balance is {}", 2 * fee + 7)),
        (Space::Accounts, b"fees".to_vec(), None, format!("account fees: its balance is 0, its postings come to {}", 2 * fee)),
        (Space::Accounts, b"fees".to_vec(), Some(raised(2 * fee)), "all accounts of micro-USD: they come to 7,".to_owned()),
        (Space::Accounts, treasury, Some(raised(PRICE.0)), format!("all accounts of {TOKEN}: they come to 7,")),
        (Space::CreditMovements, balance, Some(raised(FUNDS.0 - PRICE.0)), format!("account credit/{}: ", credit.id)),
        (Space::Postings, posting(&sold.receipt_id), None, format!("receipt {}: has no posting", sold.receipt_id)),
        (Space::Postings, posting(&other.receipt_id), None, format!("receipt {}: has no posting", other.receipt_id)),
        (Space::Postings, minted, None, format!("movement {number} of credit {}: has no posting", credit.id)),
        (Space::Receipts, sold.receipt_id.clone().into_bytes(), None, format!("posting sold/{}: names a receipt", sold.receipt_id)),
        (
            Space::Receipts,
            other.receipt_id.clone().into_bytes(),
            Some(b"{}".to_vec()),
            format!("receipt {}: cannot be read", other.receipt_id),
        ),
        (Space::Unpaid, waiting(&other.receipt_id), None, format!("account builder/{builder}: what waits comes to 0")),
        (Space::Unpaid, waiting(&other.receipt_id), Some(unpaid.to_bytes()), format!("receipt {}: waits", other.receipt_id)),
        (Space::PayoutReceipts, in_packet, None, format!("payout {packet}: its amount is {net}, its receipts come to 0 (off by {net})")),
        (Space::Payouts, whole, None, format!("posting packed/{packet}/{}: names a payout", sold.receipt_id)),
        (Space::Credits, credit.id.to_string().into_bytes(), None, format!("credit {}: has movements", credit.id)),
    ];
    for (space, key, instead, expected) in cases {
        let there = fixture.store.get(space, &key).await.unwrap().unwrap_or_else(|| panic!("{space:?} has {expected}"));
        match instead {
            Some(value) => fixture.write(space, key.clone(), value).await,
            None => fixture.delete(space, key.clone()).await,
        }
        let wrong = wrong(&fixture).await;
        assert!(wrong.iter().any(|wrong| wrong.starts_with(&expected)), "{expected}: {wrong:#?}");
        fixture.write(space, key, there).await;
        ledger_agrees(&fixture, &expected).await;
    }

    // An extra receipt, and a movement whose amount was changed.
    let stored = fixture.store.get(Space::Receipts, sold.receipt_id.as_bytes()).await.unwrap().unwrap();
    let extra = ReceiptId::generate();
    fixture.write(Space::Receipts, extra.to_string().into_bytes(), stored.clone()).await;
    assert_eq!(wrong(&fixture).await, [format!("receipt {extra}: has no posting")]);
    // A receipt that cost nothing needs none.
    let mut free: Value = serde_json::from_slice(&receipt::StoredReceipt::of_bytes(&stored).unwrap().json).unwrap();
    free["priceUsd"] = json!(MicroUsd::ZERO);
    fixture.write(Space::Receipts, extra.to_string().into_bytes(), free.to_string().into_bytes()).await;
    ledger_agrees(&fixture, "a receipt of zero").await;
    // One that cannot be read may be of a paid call.
    let mut damaged: Value = serde_json::from_slice(&receipt::StoredReceipt::of_bytes(&stored).unwrap().json).unwrap();
    damaged.as_object_mut().unwrap().remove("requestHash");
    fixture.write(Space::Receipts, extra.to_string().into_bytes(), damaged.to_string().into_bytes()).await;
    assert_eq!(wrong(&fixture).await, [format!("receipt {extra}: has no posting")]);
    fixture.delete(Space::Receipts, extra.to_string().into_bytes()).await;
    let (key, debit) = fixture.all(Space::CreditMovements).await.swap_remove(1);
    let (format, text) = debit.split_at(2);
    let text = String::from_utf8_lossy(text).replace("0.01", "0.02");
    fixture.write(Space::CreditMovements, key, [format, text.as_bytes()].concat()).await;
    let (has, moved) = (FUNDS.0 - PRICE.0, FUNDS.0 - 2 * PRICE.0);
    let expected = format!("credit {}: its balance is {has}, its movements come to {moved} (off by {})", credit.id, PRICE.0);
    assert_eq!(wrong(&fixture).await, [expected]);
}

#[tokio::test]
async fn a_hundred_disagreements_are_reported_and_all_are_counted() {
    let fixture = Fixture::new().await;
    for n in 0..102 {
        fixture.write(Space::Receipts, format!("no id {n}").into_bytes(), vec![]).await;
    }
    let found = found(&fixture).await;
    assert_eq!((found.disagreements, found.wrong.len()), (102, 100));
}

/// Compares archived rows with the store.
pub(super) async fn archived(fixture: &Fixture, written: &[WrittenRow]) -> LedgerReport {
    let mut check = Check::new(&*fixture.store);
    check.archived(written).await.unwrap();
    check.report()
}

#[tokio::test]
async fn archived_rows_that_the_store_lacks_are_reported() {
    let fixture = Fixture::new().await;
    let MintedCredit { token, .. } = fixture.payments.credits().mint(FUNDS, "", None).await.unwrap();
    let token = token.unwrap();
    let (one, two) = (fixture.buy(by_credit(&token)).await.receipt_id, fixture.buy(by_credit(&token)).await.receipt_id);
    let mut written = vec![];
    for space in [Space::Postings, Space::Receipts, Space::CreditMovements, Space::Accounts] {
        written.extend(fixture.all(space).await.into_iter().map(|(key, value)| WrittenRow::new(space, key, value)));
    }
    // Balances change.
    written.push(WrittenRow::new(Space::Accounts, b"own".to_vec(), Sum(1).to_bytes()));
    let found = archived(&fixture, &written).await;
    assert_eq!((found.archived, found.disagreements), (3 + 2 + 3, 0), "{found:?}");
    fixture.delete(Space::Receipts, one.clone().into_bytes()).await;
    fixture.write(Space::Postings, format!("sold/{two}").into_bytes(), b"another".to_vec()).await;
    let listed: Vec<_> = archived(&fixture, &written).await.wrong.iter().map(ToString::to_string).collect();
    let requested = [
        format!("posting sold/{two}: differs from the journal's archive"),
        format!("receipt {one}: is in the journal's archive but not in the store"),
    ];
    assert_eq!(listed, requested);
}
