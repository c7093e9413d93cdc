//! Refunds are made once and never exceed the payment, and all records of money include them.

use futures_util::future::join_all;
use tollhouse_base::id::BuilderId;
use tollhouse_event::{EventQuery, Kind};
use tollhouse_store::{
    Key as _, SaleKey, Sum,
    faulty::{Fault, FaultyStore},
    write_postcard,
};

use super::{
    ledger::{by_credit, draft_of, ledger_agrees, pay_out, ready_to_be_paid, wrong},
    *,
};
use crate::{
    ledger::{self, POSTINGS},
    refund::{Refund, RefundError, Refunded, Refunding, Refunds},
    sale::{Detail, Line, Sale},
};

/// The host's fee on each sale.
const FEE: u64 = PRICE.0 / 20;

/// Returns a request to refund the rest of a credit's receipt.
pub(super) fn refunding(receipt: &str) -> Refunding {
    Refunding { receipt: receipt.parse().unwrap(), amount: None, transaction: None, reason: None }
}

fn part(receipt: &str, micros: u64) -> Refunding {
    Refunding { amount: Some(MicroUsd(micros)), ..refunding(receipt) }
}

fn sent_back(receipt: &str, transaction: u64) -> Refunding {
    Refunding { transaction: Some(format!("0x{transaction:064x}")), ..refunding(receipt) }
}

impl Bench {
    pub(super) fn refunds(&self) -> Refunds {
        let events = Arc::new(Events::new(Arc::clone(&self.store), self.clock.clone(), EventSettings::default()));
        Refunds::new(Arc::clone(&self.store), self.clock.clone(), events, Sales::new(Arc::clone(&self.store)))
    }

    async fn sales_of(&self, owner: &Owner) -> Line {
        Sales::new(Arc::clone(&self.store)).report(owner, NOW, Detail::Sums).await.unwrap().totals
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
async fn sold(bench: &Bench) -> (CreditId, String, BuilderId, String) {
    let Minted { token, credit } = bench.gate.credits().mint(FUNDS, "", None).await.unwrap();
    let (token, builder) = (token.unwrap(), ready_to_be_paid(&bench.payouts()).await);
    let receipt = bench.sell(&Owner::Builder(builder.clone()), by_credit(&token)).await.unwrap().receipt_id;
    (credit.id.clone(), token, builder, receipt)
}

async fn balance(bench: &Bench, credit: &CreditId) -> u64 {
    bench.gate.credits().get(credit).await.unwrap().unwrap().balance.0
}

#[tokio::test]
async fn part_by_part_a_refund_gives_back_what_the_sale_moved_and_no_more() {
    let bench = Bench::new().await;
    let (credit, _, builder, receipt) = sold(&bench).await;
    let (refunds, owner) = (bench.refunds(), Owner::Builder(builder.clone()));
    let mut given = 0;
    for micros in [1, 19, 3_333, 6_000] {
        given += micros;
        let refund = refunds.give(&part(&receipt, micros), None).await.unwrap();
        assert_eq!((refund.refund.amount.0, refund.refunded.0), (micros, given));
        assert_eq!(balance(&bench, &credit).await, FUNDS.0 - PRICE.0 + given);
        // The host's share is returned in the proportion of the sale, rounded down.
        let fees = FEE - given * FEE / PRICE.0;
        let earned = bench.sales_of(&owner).await;
        assert_eq!((earned.refunded_usd.0, earned.fees_usd.0, earned.net_usd.0), (given, fees, PRICE.0 - given - fees));
        assert_eq!((earned.calls, earned.paid_calls, earned.gross_usd), (1, 1, PRICE));
        assert_eq!(bench.account("fees").await, i128::from(fees));
        assert_eq!(bench.account(&format!("builder/{builder}")).await, i128::from(PRICE.0 - given - fees));
        ledger_agrees(&bench, "a part").await;
    }
    let left = PRICE.0 - given;
    let over = refunds.give(&part(&receipt, left + 1), None).await.unwrap_err();
    assert!(matches!(over, RefundError::TooMuch { paid: PRICE, refunded } if refunded.0 == given), "{over:?}");
    assert_eq!(refunds.give(&refunding(&receipt), None).await.unwrap().refund.amount.0, left);
    let over = refunds.give(&refunding(&receipt), None).await.unwrap_err();
    assert!(matches!(over, RefundError::TooMuch { .. }), "{over:?}");
    assert_eq!(balance(&bench, &credit).await, FUNDS.0);
    let sales = Sales::new(Arc::clone(&bench.store));
    sales.fold_left(NOW).await.unwrap();
    let earned = bench.sales_of(&owner).await;
    assert_eq!((earned.refunded_usd, earned.fees_usd, earned.net_usd), (PRICE, MicroUsd::ZERO, MicroUsd::ZERO));
    assert_eq!(sales.host_report(NOW).await.unwrap().revenue_usd, MicroUsd::ZERO);
    let movements = bench.gate.credits().movements(&credit, None, 10).await.unwrap().movements;
    assert_eq!((movements[0].movement.kind, movements[0].balance), (MovementKind::Refund, UsdChange::of(FUNDS.0.into())));
    assert_eq!((movements[0].movement.receipt_id.as_ref(), movements[0].movement.slug.as_ref()), (Some(&receipt), Some(&terms().slug)));
    let events = Events::new(Arc::clone(&bench.store), bench.clock.clone(), EventSettings::default());
    let told = events.list(&owner, &EventQuery { limit: 100, ..EventQuery::default() }).await.unwrap().events;
    assert_eq!(told.iter().filter(|event| event.kind == Kind::PaymentRefunded).count(), 5);
    bench.postings_balance().await;
    ledger_agrees(&bench, "all of it").await;
}

#[tokio::test]
async fn of_sixteen_refunds_at_once_no_more_is_given_back_than_was_paid() {
    let bench = Bench::new().await;
    let (credit, _, _, receipt) = sold(&bench).await;
    let refunds = bench.refunds();
    let third = part(&receipt, PRICE.0 / 3);
    let given = join_all((0..16).map(|_| refunds.give(&third, None))).await;
    assert_eq!(given.iter().filter(|given| given.is_ok()).count(), 3, "{given:?}");
    assert_eq!(balance(&bench, &credit).await, FUNDS.0 - PRICE.0 + 3 * (PRICE.0 / 3));
    assert_eq!(refunds.of(&third.receipt).await.unwrap().sum().0, 3 * (PRICE.0 / 3));
    ledger_agrees(&bench, "sixteen at once").await;
}

#[tokio::test]
async fn a_refund_that_is_asked_for_twice_under_one_name_is_one() {
    let bench = Bench::new().await;
    let (credit, _, _, receipt) = sold(&bench).await;
    let refunds = bench.refunds();
    let once = |request: &str| Once::new("a-name".to_owned(), request.to_owned()).unwrap();
    let given = join_all((0..8).map(async |_| refunds.give(&part(&receipt, 100), Some(&once("a"))).await.unwrap())).await;
    assert!(given.iter().all(|one| one.refund == given[0].refund && one.refunded.0 == 100), "{given:?}");
    assert_eq!(balance(&bench, &credit).await, FUNDS.0 - PRICE.0 + 100);
    let reused = refunds.give(&part(&receipt, 200), Some(&once("b"))).await.unwrap_err();
    assert!(matches!(reused, RefundError::Reused), "{reused:?}");
}

#[tokio::test]
async fn a_payment_with_x402_is_refunded_by_the_transaction_that_sent_it_back() {
    let bench = Bench::new().await;
    let builder = ready_to_be_paid(&bench.payouts()).await;
    let owner = Owner::Builder(builder.clone());
    let receipt = bench.sell(&owner, Payer::new(1).pays(1)).await.unwrap().receipt_id;
    let own = bench.sell(&Owner::Platform, Payer::new(1).pays(2)).await.unwrap().receipt_id;
    let refunds = bench.refunds();
    let paid_by = bench.receipts().await.into_iter().find(|told| told.draft.receipt_id.as_str() == receipt).unwrap().transaction;
    for transaction in [None, Some("0x12".to_owned()), Some("5".repeat(88)), paid_by] {
        let wrong = refunds.give(&Refunding { transaction, ..refunding(&receipt) }, None).await.unwrap_err();
        assert!(matches!(wrong, RefundError::Field { pointer: "/transaction", .. }), "{wrong:?}");
    }
    let (units, before) = (i128::from(PRICE.0), bench.account("treasury").await);
    let third = Refunding { amount: Some(MicroUsd(PRICE.0 / 3)), ..sent_back(&receipt, 0xabc) };
    let given = refunds.give(&third, None).await.unwrap();
    // However it is written, and however often it is requested.
    let again = Refunding { transaction: Some(format!("0x{:0>64}", "ABC")), ..refunding(&receipt) };
    let asked = join_all((0..8).map(|_| refunds.give(&again, None))).await;
    assert!(asked.iter().all(|asked| asked.as_ref().unwrap().refund == given.refund), "{asked:?}");
    let other = refunds.give(&Refunding { amount: Some(MicroUsd(1)), ..again }, None).await.unwrap_err();
    assert!(matches!(other, RefundError::OtherAmount(amount) if amount.0 == PRICE.0 / 3), "{other:?}");
    assert_eq!(before - bench.account("treasury").await, units / 3);
    refunds.give(&sent_back(&receipt, 0xdef), None).await.unwrap();
    refunds.give(&sent_back(&own, 0xdef), None).await.unwrap();
    for account in ["treasury", "payers", "exchange", "fees", "own"] {
        assert_eq!(bench.account(account).await, 0, "{account}");
    }
    bench.postings_balance().await;
    ledger_agrees(&bench, "sent back").await;
}

#[tokio::test]
async fn what_is_refunded_after_its_payout_is_a_debt_that_later_sales_pay() {
    let bench = Bench::new().await;
    let (_, token, builder, first) = sold(&bench).await;
    let (payouts, refunds, owner) = (bench.payouts(), bench.refunds(), Owner::Builder(builder.clone()));
    let net = PRICE.0 - FEE;
    let packet = pay_out(&payouts, &builder, true).await.unwrap();
    assert_eq!(payouts.get(&builder, &packet).await.unwrap().amount, net);
    refunds.give(&refunding(&first), None).await.unwrap();
    assert_eq!(bench.account(&format!("builder/{builder}")).await, -i128::from(net));
    assert!(payouts.pay_out(&builder).await.unwrap().is_none(), "nothing waits");
    ledger_agrees(&bench, "a debt").await;
    // Half of a second sale is refunded before it is paid out. With the debt that exceeds the unpaid earnings.
    let second = bench.sell(&owner, by_credit(&token)).await.unwrap().receipt_id;
    refunds.give(&part(&second, PRICE.0 / 2), None).await.unwrap();
    assert!(pay_out(&payouts, &builder, true).await.is_none(), "less than nothing is to be paid");
    ledger_agrees(&bench, "a debt that a sale has paid in part").await;
    for _ in 0..2 {
        bench.sell(&owner, by_credit(&token)).await.unwrap();
    }
    let packet = payouts.pay_out(&builder).await.unwrap().unwrap();
    assert_eq!((packet.amount, packet.withheld, packet.receipt_count), (3 * net - net - net / 2, net + net / 2, 3));
    assert_eq!(packet.public()["withheldUsd"], json!(MicroUsd(net + net / 2)));
    assert_eq!(bench.account(&format!("builder/{builder}")).await, 0);
    ledger_agrees(&bench, "paid").await;
    bench.sell(&owner, by_credit(&token)).await.unwrap();
    let next = payouts.pay_out(&builder).await.unwrap().unwrap();
    assert_eq!((next.amount, next.withheld), (net, 0), "a debt is paid once");
    assert!(next.public().get("withheldUsd").is_none());
    bench.postings_balance().await;
}

#[tokio::test]
async fn what_cannot_be_given_back_is_refused_and_why() {
    let bench = Bench::new().await;
    let (credit, _, _, receipt) = sold(&bench).await;
    let (refunds, credits) = (bench.refunds(), bench.gate.credits());
    let refused = async |asked: Refunding| refunds.give(&asked, None).await.unwrap_err();
    assert!(matches!(refused(refunding(ReceiptId::generate().as_str())).await, RefundError::Unknown));
    assert!(matches!(refused(part(&receipt, 0)).await, RefundError::Field { pointer: "/amountUsd", .. }));
    assert!(matches!(refused(sent_back(&receipt, 1)).await, RefundError::Field { pointer: "/transaction", .. }));
    for reason in ["a\nb".to_owned(), "x".repeat(501)] {
        let loud = Refunding { reason: Some(reason), ..refunding(&receipt) };
        assert!(matches!(refused(loud).await, RefundError::Reason));
    }
    let verdict = |decision| CreditVerdict { decision, reason: None };
    credits.judge(&credit, &verdict(CreditDecision::Revoke)).await.unwrap();
    assert!(matches!(refused(refunding(&receipt)).await, RefundError::Credit(CreditError::Revoked)));
    credits.judge(&credit, &verdict(CreditDecision::Restore)).await.unwrap();
    for _ in 0..50 {
        let told = Refunding { reason: Some("é".repeat(500)), ..part(&receipt, 1) };
        refunds.give(&told, None).await.unwrap();
    }
    assert!(matches!(refused(part(&receipt, 1)).await, RefundError::TooMany));
    let posting = format!("sold/{receipt}");
    let row = POSTINGS.row(&*bench.store, &posting).await.unwrap().unwrap();
    let mut batch = Batch::new();
    batch.remove(&POSTINGS, &row);
    batch.commit(&*bench.store, Durability::Buffered).await.unwrap();
    assert!(matches!(refused(refunding(&receipt)).await, RefundError::BeforeTheLedger));
}

#[tokio::test]
async fn a_refund_that_was_cut_off_is_made_once_when_it_is_asked_for_again() {
    for fault in [Fault::Before, Fault::After, Fault::Lost] {
        let story = format!("{fault:?}");
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let bench = Bench::over(Arc::clone(&store) as _);
        bench.fund().await;
        let (credit, _, builder, receipt) = sold(&bench).await;
        let by_x402 = bench.sell(&Owner::Builder(builder.clone()), Payer::new(1).pays(1)).await.unwrap().receipt_id;
        let once = Once::new("a-name".to_owned(), "a".to_owned()).unwrap();
        for (asked, once) in [(part(&receipt, 100), Some(&once)), (sent_back(&by_x402, 1), None)] {
            store.fail_nth(1, fault);
            assert!(bench.refunds().give(&asked, once).await.is_err(), "{story}");
            store.heal();
            ledger_agrees(&bench, &story).await;
            bench.refunds().give(&asked, once).await.unwrap();
            ledger_agrees(&bench, &story).await;
        }
        assert_eq!(balance(&bench, &credit).await, FUNDS.0 - PRICE.0 + 100, "{story}");
        assert_eq!(bench.sales_of(&Owner::Builder(builder.clone())).await.refunded_usd.0, PRICE.0 + 100, "{story}");
        // A payout that withholds it is interrupted at every commit.
        bench.sell(&Owner::Builder(builder.clone()), Payer::new(1).pays(2)).await.unwrap();
        for nth in 1..=4 {
            store.fail_nth(nth, fault);
            _ = bench.payouts().pay_out(&builder).await;
            store.heal();
            ledger_agrees(&bench, &format!("{story} at {nth}")).await;
        }
        _ = bench.payouts().pay_out(&builder).await.unwrap();
        assert_eq!(bench.account(&format!("builder/{builder}")).await, 0, "{story}");
        ledger_agrees(&bench, &story).await;
    }
}

#[tokio::test]
async fn a_refund_that_was_tampered_with_is_named() {
    let bench = Bench::new().await;
    let (_, _, builder, receipt) = sold(&bench).await;
    let refund = bench.refunds().give(&part(&receipt, 2_000), None).await.unwrap().refund;
    let (record, owed) = (format!("receipt\0{receipt}").into_bytes(), format!("owed\0{builder}").into_bytes());
    let posting = format!("refunded/{receipt}/{}", refund.number);
    let more = refunded(&[Refund { amount: MicroUsd(3_000), ..refund.clone() }]);
    let over = refunded(&[refund.clone(), Refund { amount: PRICE, ..refund.clone() }]);
    let net = 2_000 - 2_000 / 20;
    // (space, its key, the value there instead, the report)
    let cases = [
        (Space::Refunds, &record, None, format!("posting {posting}: tells of a refund, which is not there")),
        (Space::Refunds, &record, Some(more), format!("posting {posting}: its refund tells of 3000, it moves 2000 (off by 1000)")),
        (Space::Refunds, &record, Some(over), format!("receipt {receipt}: paid {}, and {} was given back", PRICE.0, PRICE.0 + 2_000)),
        (Space::Refunds, &owed, None, format!("account builder/{builder}: what waits comes to {}, ", PRICE.0 - FEE)),
        (Space::Refunds, &owed, Some(Sum(net + 7).to_bytes()), format!("account builder/{builder}: what waits comes to ")),
        (Space::Postings, &posting.clone().into_bytes(), None, format!("refund {} of receipt {receipt}: has no posting", refund.number)),
    ];
    for (space, key, instead, told) in cases {
        let there = bench.store.get(space, key).await.unwrap().unwrap_or_else(|| panic!("{space:?} has {told}"));
        match instead {
            Some(value) => bench.write(space, key.clone(), value).await,
            None => bench.delete(space, key.clone()).await,
        }
        let wrong = wrong(&bench).await;
        assert!(wrong.iter().any(|wrong| wrong.starts_with(&told)), "{told}: {wrong:#?}");
        bench.write(space, key.clone(), there).await;
        ledger_agrees(&bench, &told).await;
    }
}

fn refunded(refunds: &[Refund]) -> Vec<u8> {
    Refunded { refunds: refunds.to_vec() }.to_bytes()
}

#[tokio::test]
async fn a_builder_whose_sales_are_all_the_hosts_is_known_when_they_are_refunded() {
    let bench = Bench::new().await;
    let Minted { token, .. } = bench.gate.credits().mint(FUNDS, "", None).await.unwrap();
    let owner = Owner::Builder(ready_to_be_paid(&bench.payouts()).await);
    let mut closing: Closing = serde_json::from_slice(&draft_of(&owner)).unwrap();
    closing.fee = PRICE;
    let Ok(Admit::Run(admission)) = bench.admit(by_credit(&token.unwrap())).await else { panic!("not admitted") };
    let receipt = bench.gate.settle(admission, answer(ANSWER), &ReceiptFinisher::encode(&closing)).await.unwrap().receipt_id;
    bench.refunds().give(&refunding(&receipt), None).await.unwrap();
    let earned = bench.sales_of(&owner).await;
    assert_eq!((earned.refunded_usd, earned.fees_usd, earned.net_usd), (PRICE, MicroUsd::ZERO, MicroUsd::ZERO));
    ledger_agrees(&bench, "all of it the host's").await;
}

#[tokio::test]
async fn sales_of_a_version_without_refunds_are_counted() {
    let bench = Bench::new().await;
    let (endpoint, slug) = (terms().endpoint_id, terms().slug);
    for (format, id) in [(None, "a"), (Some(1), "b")] {
        let mut value: Vec<u8> = format.map_or(vec![], |format| vec![0xf5, format]);
        write_postcard(&(&endpoint, &slug, (3_u64, 2_u64, 1_u64, 500_u64, 20_u64, 480_u64)), &mut value);
        assert_eq!(Sale::of_bytes(&value).unwrap().totals.net, 480);
        let mut key = b"platform\0".to_vec();
        SaleKey::Row(NOW, id.to_owned()).write(&mut key);
        let write = Write::put(Space::Sales, key, value);
        bench.store.apply(Batch::of(vec![], vec![write]), Durability::Buffered).await.unwrap();
    }
    let earned = bench.sales_of(&Owner::Platform).await;
    assert_eq!((earned.calls, earned.gross_usd.0, earned.net_usd.0, earned.refunded_usd.0), (6, 1_000, 960, 0));
}

/// Regression test: a transaction that was entered twice by mistake counted for both without a warning.
#[tokio::test]
async fn a_transaction_that_is_recorded_for_two_refunds_is_warned_of() {
    let bench = Bench::new().await;
    let refunds = bench.refunds();
    let mut receipts = vec![];
    for nonce in [1, 2] {
        receipts.push(bench.sell(&Owner::Platform, Payer::new(1).pays(nonce)).await.unwrap().receipt_id);
    }
    let first = refunds.give(&sent_back(&receipts[0], 7), None).await.unwrap();
    assert_eq!((first.also_for.as_ref(), first.public().get("warning")), (None, None));
    let second = refunds.give(&sent_back(&receipts[1], 7), None).await.unwrap();
    assert_eq!(second.also_for.as_ref(), Some(&receipts[0]));
    assert!(second.public()["warning"].as_str().unwrap().contains(&receipts[0]), "{second:?}");
}
