//! Refunds are made once and never exceed the payment, and all records of money include them.

use futures_util::future::join_all;
use tollhouse_api::RevenueTotals;
use tollhouse_base::id::BuilderId;
use tollhouse_event::{EventQuery, Kind};
use tollhouse_store::{
    Sum,
    faulty::{Fault, FaultyStore},
};

use super::{
    ledger::{by_credit, draft_of, ledger_agrees, pay_out, ready_to_be_paid, wrong},
    *,
};
use crate::{
    ledger::{self, POSTINGS},
    payout::{PayoutDecision, PayoutError, PayoutStatus, PayoutVerdict},
    refund::{Refund, RefundError, RefundRequest, RefundedTotal, Refunds},
    sale::ReportDetail,
};

/// The host's fee on each sale.
const FEE: u64 = PRICE.0 / 20;

/// Returns a request to refund the rest of a credit's receipt.
pub(super) fn refunding(receipt: &str) -> RefundRequest {
    RefundRequest { receipt: receipt.parse().unwrap(), amount: None, transaction: None, reason: None }
}

fn part(receipt: &str, micros: u64) -> RefundRequest {
    RefundRequest { amount: Some(MicroUsd(micros)), ..refunding(receipt) }
}

fn sent_back(receipt: &str, transaction: u64) -> RefundRequest {
    RefundRequest { transaction: Some(format!("0x{transaction:064x}")), ..refunding(receipt) }
}

impl Fixture {
    pub(super) fn refunds(&self) -> Refunds {
        let events = Arc::new(Events::new(Arc::clone(&self.store), self.clock.clone(), EventSettings::default()));
        Refunds::new(Arc::clone(&self.store), self.clock.clone(), events, Sales::new(Arc::clone(&self.store)))
    }

    async fn sales_of(&self, owner: &Owner) -> RevenueTotals {
        Sales::new(Arc::clone(&self.store)).report(owner, NOW, ReportDetail::Sums).await.unwrap().totals
    }

    /// Returns an account's balance, as the running host reads it.
    async fn account(&self, name: &str) -> i128 {
        let read = ledger::read(&*self.store, 1_000, None).await.unwrap();
        assert!(read.agrees, "{read:?}");
        let found = read.accounts.iter().find(|line| line.account == name || line.account.starts_with(&format!("{name}/")));
        found.map_or(0, |line| line.balance.parse().unwrap())
    }
}

/// Creates a credit with money, a builder with payout settings, and one sale.
async fn sold(fixture: &Fixture) -> (CreditId, String, BuilderId, String) {
    let MintedCredit { token, credit } = fixture.payments.credits().mint(FUNDS, "", None).await.unwrap();
    let (token, builder) = (token.unwrap(), ready_to_be_paid(&fixture.payouts()).await);
    let receipt = fixture.sell(&Owner::Builder(builder.clone()), by_credit(&token)).await.unwrap().receipt_id;
    (credit.id.clone(), token, builder, receipt)
}

async fn balance(fixture: &Fixture, credit: &CreditId) -> u64 {
    fixture.payments.credits().get(credit).await.unwrap().unwrap().balance.0
}

#[tokio::test]
async fn partial_refunds_return_no_more_than_the_sale_moved() {
    let fixture = Fixture::new().await;
    let (credit, _, builder, receipt) = sold(&fixture).await;
    let (refunds, owner) = (fixture.refunds(), Owner::Builder(builder.clone()));
    let mut given = 0;
    for micros in [1, 19, 3_333, 6_000] {
        given += micros;
        let refund = refunds.issue(&part(&receipt, micros), None).await.unwrap();
        assert_eq!((refund.refund.amount.0, refund.refunded.0), (micros, given));
        assert_eq!(balance(&fixture, &credit).await, FUNDS.0 - PRICE.0 + given);
        // The host's share is returned in the proportion of the sale, rounded down.
        let fees = FEE - given * FEE / PRICE.0;
        let earned = fixture.sales_of(&owner).await;
        assert_eq!((earned.refunded_usd.0, earned.fees_usd.0, earned.net_usd.0), (given, fees, PRICE.0 - given - fees));
        assert_eq!((earned.calls, earned.paid_calls, earned.gross_usd), (1, 1, PRICE));
        assert_eq!(fixture.account("fees").await, i128::from(fees));
        assert_eq!(fixture.account(&format!("builder/{builder}")).await, i128::from(PRICE.0 - given - fees));
        ledger_agrees(&fixture, "a part").await;
    }
    let remaining = PRICE.0 - given;
    let over = refunds.issue(&part(&receipt, remaining + 1), None).await.unwrap_err();
    assert!(matches!(over, RefundError::TooMuch { paid: PRICE, refunded } if refunded.0 == given), "{over:?}");
    assert_eq!(refunds.issue(&refunding(&receipt), None).await.unwrap().refund.amount.0, remaining);
    let over = refunds.issue(&refunding(&receipt), None).await.unwrap_err();
    assert!(matches!(over, RefundError::TooMuch { .. }), "{over:?}");
    assert_eq!(balance(&fixture, &credit).await, FUNDS.0);
    let sales = Sales::new(Arc::clone(&fixture.store));
    sales.fold_left(NOW).await.unwrap();
    let earned = fixture.sales_of(&owner).await;
    assert_eq!((earned.refunded_usd, earned.fees_usd, earned.net_usd), (PRICE, MicroUsd::ZERO, MicroUsd::ZERO));
    assert_eq!(sales.host_report(NOW).await.unwrap().revenue_usd, MicroUsd::ZERO);
    let movements = fixture.payments.credits().movements(&credit, None, 10).await.unwrap().movements;
    assert_eq!((movements[0].kind, movements[0].balance_usd), (MovementKind::Refund, UsdChange::of(FUNDS.0.into())));
    assert_eq!((movements[0].receipt_id.as_ref(), movements[0].slug.as_ref()), (Some(&receipt), Some(&terms().slug)));
    let events = Events::new(Arc::clone(&fixture.store), fixture.clock.clone(), EventSettings::default());
    let answer = events.list(&owner, &EventQuery { limit: 100, ..EventQuery::default() }).await.unwrap().events;
    assert_eq!(answer.iter().filter(|event| event.kind == Kind::PaymentRefunded).count(), 5);
    fixture.postings_balance().await;
    ledger_agrees(&fixture, "all of it").await;
}

#[tokio::test]
async fn concurrent_refunds_return_at_most_the_payment() {
    let fixture = Fixture::new().await;
    let (credit, _, _, receipt) = sold(&fixture).await;
    let refunds = fixture.refunds();
    let third = part(&receipt, PRICE.0 / 3);
    let given = join_all((0..16).map(|_| refunds.issue(&third, None))).await;
    assert_eq!(given.iter().filter(|given| given.is_ok()).count(), 3, "{given:?}");
    assert_eq!(balance(&fixture, &credit).await, FUNDS.0 - PRICE.0 + 3 * (PRICE.0 / 3));
    assert_eq!(refunds.of(&third.receipt).await.unwrap().sum().0, 3 * (PRICE.0 / 3));
    ledger_agrees(&fixture, "sixteen at once").await;
}

#[tokio::test]
async fn repeated_refund_with_one_key_is_issued_once() {
    let fixture = Fixture::new().await;
    let (credit, _, _, receipt) = sold(&fixture).await;
    let refunds = fixture.refunds();
    let once = |request: &str| IdempotencyKey::new("a-name".to_owned(), request.to_owned()).unwrap();
    let given = join_all((0..8).map(async |_| refunds.issue(&part(&receipt, 100), Some(&once("a"))).await.unwrap())).await;
    assert!(given.iter().all(|one| one.refund == given[0].refund && one.refunded.0 == 100), "{given:?}");
    assert_eq!(balance(&fixture, &credit).await, FUNDS.0 - PRICE.0 + 100);
    let reused = refunds.issue(&part(&receipt, 200), Some(&once("b"))).await.unwrap_err();
    assert!(matches!(reused, RefundError::Reused), "{reused:?}");
}

#[tokio::test]
async fn a_payment_with_x402_is_refunded_by_the_transaction_that_sent_it_back() {
    let fixture = Fixture::new().await;
    let builder = ready_to_be_paid(&fixture.payouts()).await;
    let owner = Owner::Builder(builder.clone());
    let receipt = fixture.sell(&owner, Payer::new(1).pays(1)).await.unwrap().receipt_id;
    let own = fixture.sell(&Owner::Platform, Payer::new(1).pays(2)).await.unwrap().receipt_id;
    let refunds = fixture.refunds();
    let paid_by = fixture.receipts().await.into_iter().find(|reported| reported.draft.receipt_id.as_str() == receipt).unwrap().transaction;
    for transaction in [None, Some("0x12".to_owned()), Some("5".repeat(88)), paid_by] {
        let wrong = refunds.issue(&RefundRequest { transaction, ..refunding(&receipt) }, None).await.unwrap_err();
        assert!(matches!(wrong, RefundError::Field { pointer: "/transaction", .. }), "{wrong:?}");
    }
    let (units, before) = (i128::from(PRICE.0), fixture.account("treasury").await);
    let third = RefundRequest { amount: Some(MicroUsd(PRICE.0 / 3)), ..sent_back(&receipt, 0xabc) };
    let given = refunds.issue(&third, None).await.unwrap();
    // However it is written, and however often it is requested.
    let again = RefundRequest { transaction: Some(format!("0x{:0>64}", "ABC")), ..refunding(&receipt) };
    let request = join_all((0..8).map(|_| refunds.issue(&again, None))).await;
    assert!(request.iter().all(|request| request.as_ref().unwrap().refund == given.refund), "{request:?}");
    let other = refunds.issue(&RefundRequest { amount: Some(MicroUsd(1)), ..again }, None).await.unwrap_err();
    assert!(matches!(other, RefundError::OtherAmount(amount) if amount.0 == PRICE.0 / 3), "{other:?}");
    assert_eq!(before - fixture.account("treasury").await, units / 3);
    refunds.issue(&sent_back(&receipt, 0xdef), None).await.unwrap();
    refunds.issue(&sent_back(&own, 0xdef), None).await.unwrap();
    for account in ["treasury", "payers", "exchange", "fees", "own"] {
        assert_eq!(fixture.account(account).await, 0, "{account}");
    }
    fixture.postings_balance().await;
    ledger_agrees(&fixture, "sent back").await;
}

#[tokio::test]
async fn refund_after_the_payout_is_a_debt_that_later_sales_pay() {
    let fixture = Fixture::new().await;
    let (_, token, builder, first) = sold(&fixture).await;
    let (payouts, refunds, owner) = (fixture.payouts(), fixture.refunds(), Owner::Builder(builder.clone()));
    let net = PRICE.0 - FEE;
    let packet = pay_out(&payouts, &builder, true).await.unwrap();
    assert_eq!(payouts.get(&builder, &packet).await.unwrap().amount, net);
    refunds.issue(&refunding(&first), None).await.unwrap();
    assert_eq!(fixture.account(&format!("builder/{builder}")).await, -i128::from(net));
    assert!(payouts.pay_out(&builder).await.unwrap().is_none(), "nothing waits");
    ledger_agrees(&fixture, "a debt").await;
    // Half of a second sale is refunded before it is paid out. With the debt that exceeds the unpaid earnings.
    let second = fixture.sell(&owner, by_credit(&token)).await.unwrap().receipt_id;
    refunds.issue(&part(&second, PRICE.0 / 2), None).await.unwrap();
    assert!(pay_out(&payouts, &builder, true).await.is_none(), "less than nothing is to be paid");
    ledger_agrees(&fixture, "a debt that a sale has paid in part").await;
    for _ in 0..2 {
        fixture.sell(&owner, by_credit(&token)).await.unwrap();
    }
    let packet = payouts.pay_out(&builder).await.unwrap().unwrap();
    assert_eq!((packet.amount, packet.withheld, packet.receipt_count), (3 * net - net - net / 2, net + net / 2, 3));
    assert_eq!(packet.canonical()["withheldUsd"], json!(MicroUsd(net + net / 2)));
    assert_eq!(fixture.account(&format!("builder/{builder}")).await, 0);
    ledger_agrees(&fixture, "paid").await;
    fixture.sell(&owner, by_credit(&token)).await.unwrap();
    let next = payouts.pay_out(&builder).await.unwrap().unwrap();
    assert_eq!((next.amount, next.withheld), (net, 0), "a debt is paid once");
    assert!(next.canonical().get("withheldUsd").is_none());
    fixture.postings_balance().await;
}

#[tokio::test]
async fn impossible_refunds_are_refused_with_the_reason() {
    let fixture = Fixture::new().await;
    let (credit, _, _, receipt) = sold(&fixture).await;
    let (refunds, credits) = (fixture.refunds(), fixture.payments.credits());
    let refused = async |request: RefundRequest| refunds.issue(&request, None).await.unwrap_err();
    assert!(matches!(refused(refunding(ReceiptId::generate().as_str())).await, RefundError::Unknown));
    assert!(matches!(refused(part(&receipt, 0)).await, RefundError::Field { pointer: "/amountUsd", .. }));
    assert!(matches!(refused(sent_back(&receipt, 1)).await, RefundError::Field { pointer: "/transaction", .. }));
    for reason in ["a\nb".to_owned(), "x".repeat(501)] {
        let loud = RefundRequest { reason: Some(reason), ..refunding(&receipt) };
        assert!(matches!(refused(loud).await, RefundError::Reason));
    }
    let verdict = |decision| CreditVerdict { decision, reason: None };
    credits.decide(&credit, &verdict(CreditDecision::Revoke)).await.unwrap();
    assert!(matches!(refused(refunding(&receipt)).await, RefundError::Credit(CreditError::Revoked)));
    credits.decide(&credit, &verdict(CreditDecision::Restore)).await.unwrap();
    for _ in 0..50 {
        let reported = RefundRequest { reason: Some("é".repeat(500)), ..part(&receipt, 1) };
        refunds.issue(&reported, None).await.unwrap();
    }
    assert!(matches!(refused(part(&receipt, 1)).await, RefundError::TooMany));
    let posting = format!("sold/{receipt}");
    let row = POSTINGS.row(&*fixture.store, &posting).await.unwrap().unwrap();
    let mut batch = Batch::new();
    batch.remove(&POSTINGS, &row);
    batch.commit(&*fixture.store, Durability::Buffered).await.unwrap();
    assert!(matches!(refused(refunding(&receipt)).await, RefundError::Store(StoreError::Away(_))));
}

#[tokio::test]
async fn interrupted_refund_is_issued_once_when_it_is_repeated() {
    for fault in [Fault::Before, Fault::After, Fault::Lost] {
        let story = format!("{fault:?}");
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let fixture = Fixture::over(Arc::clone(&store) as _);
        fixture.fund().await;
        let (credit, _, builder, receipt) = sold(&fixture).await;
        let by_x402 = fixture.sell(&Owner::Builder(builder.clone()), Payer::new(1).pays(1)).await.unwrap().receipt_id;
        let once = IdempotencyKey::new("a-name".to_owned(), "a".to_owned()).unwrap();
        for (request, once) in [(part(&receipt, 100), Some(&once)), (sent_back(&by_x402, 1), None)] {
            store.fail_nth(1, fault);
            assert!(fixture.refunds().issue(&request, once).await.is_err(), "{story}");
            store.heal();
            ledger_agrees(&fixture, &story).await;
            fixture.refunds().issue(&request, once).await.unwrap();
            ledger_agrees(&fixture, &story).await;
        }
        assert_eq!(balance(&fixture, &credit).await, FUNDS.0 - PRICE.0 + 100, "{story}");
        assert_eq!(fixture.sales_of(&Owner::Builder(builder.clone())).await.refunded_usd.0, PRICE.0 + 100, "{story}");
        // A payout that withholds it is interrupted at every commit.
        fixture.sell(&Owner::Builder(builder.clone()), Payer::new(1).pays(2)).await.unwrap();
        for nth in 1..=4 {
            store.fail_nth(nth, fault);
            _ = fixture.payouts().pay_out(&builder).await;
            store.heal();
            ledger_agrees(&fixture, &format!("{story} at {nth}")).await;
        }
        _ = fixture.payouts().pay_out(&builder).await.unwrap();
        assert_eq!(fixture.account(&format!("builder/{builder}")).await, 0, "{story}");
        ledger_agrees(&fixture, &story).await;
    }
}

#[tokio::test]
async fn a_refund_that_was_tampered_with_is_named() {
    let fixture = Fixture::new().await;
    let (_, _, builder, receipt) = sold(&fixture).await;
    let refund = fixture.refunds().issue(&part(&receipt, 2_000), None).await.unwrap().refund;
    let (record, owed) = (format!("receipt\0{receipt}").into_bytes(), format!("owed\0{builder}").into_bytes());
    let posting = format!("refunded/{receipt}/{}", refund.number);
    let more = refunded(&[Refund { amount: MicroUsd(3_000), ..refund.clone() }]);
    let over = refunded(&[refund.clone(), Refund { amount: PRICE, ..refund.clone() }]);
    let net = 2_000 - 2_000 / 20;
    // (space, its key, the value there instead, the report)
    let cases = [
        (Space::Refunds, &record, None, format!("posting {posting}: names a refund that does not exist")),
        (Space::Refunds, &record, Some(more), format!("posting {posting}: its refund is 3000, it moves 2000 (off by 1000)")),
        (Space::Refunds, &record, Some(over), format!("receipt {receipt}: {} was paid, and {} was refunded", PRICE.0, PRICE.0 + 2_000)),
        (Space::Refunds, &owed, None, format!("account builder/{builder}: what waits comes to {}, ", PRICE.0 - FEE)),
        (Space::Refunds, &owed, Some(Sum(net + 7).to_bytes()), format!("account builder/{builder}: what waits comes to ")),
        (Space::Postings, &posting.clone().into_bytes(), None, format!("refund {} of receipt {receipt}: has no posting", refund.number)),
    ];
    for (space, key, instead, reported) in cases {
        let there = fixture.store.get(space, key).await.unwrap().unwrap_or_else(|| panic!("{space:?} has {reported}"));
        match instead {
            Some(value) => fixture.write(space, key.clone(), value).await,
            None => fixture.delete(space, key.clone()).await,
        }
        let wrong = wrong(&fixture).await;
        assert!(wrong.iter().any(|wrong| wrong.starts_with(&reported)), "{reported}: {wrong:#?}");
        fixture.write(space, key.clone(), there).await;
        ledger_agrees(&fixture, &reported).await;
    }
}

fn refunded(refunds: &[Refund]) -> Vec<u8> {
    RefundedTotal { refunds: refunds.to_vec() }.to_bytes()
}

#[tokio::test]
async fn builder_with_a_full_host_fee_is_known_at_a_refund() {
    let fixture = Fixture::new().await;
    let MintedCredit { token, .. } = fixture.payments.credits().mint(FUNDS, "", None).await.unwrap();
    let owner = Owner::Builder(ready_to_be_paid(&fixture.payouts()).await);
    let mut closing: ReceiptContext = serde_json::from_slice(&draft_of(&owner)).unwrap();
    closing.fee = PRICE;
    let Ok(Admit::Run(admission)) = fixture.admit(by_credit(&token.unwrap())).await else { panic!("not admitted") };
    let receipt = fixture.payments.settle(admission, answer(ANSWER), &ReceiptFinisher::encode(&closing)).await.unwrap().receipt_id;
    fixture.refunds().issue(&refunding(&receipt), None).await.unwrap();
    let earned = fixture.sales_of(&owner).await;
    assert_eq!((earned.refunded_usd, earned.fees_usd, earned.net_usd), (PRICE, MicroUsd::ZERO, MicroUsd::ZERO));
    ledger_agrees(&fixture, "all of it the host's").await;
}

/// Regression test: a transaction that was entered twice by mistake counted for both without a warning.
#[tokio::test]
async fn a_transaction_that_is_recorded_for_two_refunds_is_warned_of() {
    let fixture = Fixture::new().await;
    let refunds = fixture.refunds();
    let mut receipts = vec![];
    for nonce in [1, 2] {
        receipts.push(fixture.sell(&Owner::Platform, Payer::new(1).pays(nonce)).await.unwrap().receipt_id);
    }
    let first = refunds.issue(&sent_back(&receipts[0], 7), None).await.unwrap();
    assert_eq!((first.with_transaction.as_ref(), first.public().get("warning")), (None, None));
    let second = refunds.issue(&sent_back(&receipts[1], 7), None).await.unwrap();
    assert_eq!(second.with_transaction.as_ref(), Some(&receipts[0]));
    assert!(second.public()["warning"].as_str().unwrap().contains(&receipts[0]), "{second:?}");
    // A repeated request gets the same answer.
    assert_eq!(refunds.issue(&sent_back(&receipts[1], 7), None).await.unwrap().public(), second.public());
}

/// Regression test: only the log and the event named the other payout.
#[tokio::test]
async fn a_transaction_that_is_recorded_for_two_payouts_is_warned_of() {
    let fixture = Fixture::new().await;
    let payouts = fixture.payouts();
    let mut paid = vec![];
    for nonce in [1, 2] {
        let builder = ready_to_be_paid(&payouts).await;
        fixture.sell(&Owner::Builder(builder.clone()), Payer::new(1).pays(nonce)).await.unwrap();
        // Each payout is recorded with the same transaction.
        let id = pay_out(&payouts, &builder, true).await.unwrap();
        let packet = payouts.get(&builder, &id).await.unwrap();
        let warning = payouts.warning(&packet).await.unwrap();
        assert_eq!(warning.is_some(), nonce == 2, "{warning:?}");
        paid.push(packet);
    }
    let [first, second] = &paid[..] else { unreachable!("there are two") };
    assert!(payouts.warning(second).await.unwrap().unwrap().contains(first.id.as_str()));
    assert!(payouts.warning(first).await.unwrap().unwrap().contains(second.id.as_str()), "the first is warned of too");
    // The same holds for a refund and a payout.
    let receipt = fixture.sell(&Owner::Platform, Payer::new(1).pays(3)).await.unwrap().receipt_id;
    let back = RefundRequest { transaction: first.transaction.clone(), ..refunding(&receipt) };
    let issued = fixture.refunds().issue(&back, None).await.unwrap();
    assert!(issued.public()["warning"].as_str().unwrap().contains(first.id.as_str()), "{issued:?}");
}

/// Regression test: the transaction of another sale was accepted, so money that was never sent back counted as sent.
#[tokio::test]
async fn transaction_that_paid_for_a_sale_is_neither_a_refund_nor_a_payout() {
    let fixture = Fixture::new().await;
    let (payouts, builder) = (fixture.payouts(), ready_to_be_paid(&fixture.payouts()).await);
    let mut receipts = vec![];
    for nonce in [1, 2] {
        receipts.push(fixture.sell(&Owner::Builder(builder.clone()), Payer::new(1).pays(nonce)).await.unwrap().receipt_id);
    }
    let stored = fixture.receipts().await;
    let other = stored.into_iter().find(|stored| stored.draft.receipt_id.as_str() == receipts[1]).unwrap();
    let transaction = other.transaction;
    let request = RefundRequest { transaction: transaction.clone(), ..refunding(&receipts[0]) };
    let wrong = fixture.refunds().issue(&request, None).await.unwrap_err();
    assert!(matches!(&wrong, RefundError::Field { message, .. } if message.contains(&receipts[1])), "{wrong:?}");
    let packet = payouts.pay_out(&builder).await.unwrap().unwrap();
    let verdict = |decision, transaction| PayoutVerdict { decision, transaction, reason: None };
    payouts.decide(&packet.id, &verdict(PayoutDecision::Approve, None)).await.unwrap();
    let wrong = payouts.decide(&packet.id, &verdict(PayoutDecision::Paid, transaction)).await.unwrap_err();
    assert!(matches!(&wrong, PayoutError::Field { message, .. } if message.contains(&receipts[1])), "{wrong:?}");
    assert_eq!(payouts.get(&builder, &packet.id).await.unwrap().status, PayoutStatus::Approved);
    ledger_agrees(&fixture, "neither").await;
}
