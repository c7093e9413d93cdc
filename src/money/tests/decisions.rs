//! Decisions about one record that several requests make at once.

use tollhouse_base::id::BuilderId;
use tollhouse_store::test_wrappers::InterleavingStore;

use super::{
    ledger::{ledger_agrees, wrong},
    *,
};
use crate::{
    credit::{Credits, balance::CREDITS},
    ledger::{self as accounts, Cause, Dollars, Posting},
    payout::{PayoutSettingsDraft, Payouts},
    sale::UnpaidSale,
};

fn verdict(decision: CreditDecision) -> CreditVerdict {
    CreditVerdict { decision, reason: None }
}

#[tokio::test]
async fn credit_revoked_and_restored_at_once_keeps_its_balance() {
    use CreditDecision::{Restore, Revoke};
    // Others decide this between the two commits of a revocation.
    for number in 0..5 {
        let meanwhile: Vec<_> = [Restore, Revoke].into_iter().cycle().take(number).collect();
        let memory = Arc::new(MemoryStore::new());
        let fixture = Fixture::over(Arc::clone(&memory) as _);
        let credits = Arc::clone(fixture.payments.credits());
        let id = credits.mint(FUNDS, "", None).await.unwrap().credit.holder.id;
        let (others, own, decisions) = (Arc::clone(&credits), id.clone(), meanwhile.clone());
        let decide = async move {
            for decision in decisions {
                others.decide(&own, &verdict(decision)).await.unwrap();
            }
        };
        let slower = Credits::new(InterleavingStore::before_commit(2, memory, decide), fixture.clock.clone());
        let decided = slower.decide(&id, &verdict(Revoke)).await.unwrap();
        ledger_agrees(&fixture, &format!("{meanwhile:?}")).await;
        match decided.holder.revoked {
            Some(revoked) => {
                assert_eq!((revoked.amount_usd, decided.balance), (FUNDS, MicroUsd::ZERO), "{meanwhile:?}");
                credits.decide(&id, &verdict(Restore)).await.unwrap();
            }
            None => assert_eq!(meanwhile.last(), Some(&Restore)),
        }
        assert_eq!(credits.get(&id).await.unwrap().unwrap().balance, FUNDS, "{meanwhile:?}");
        let movements = credits.movements(&id, None, 100).await.unwrap().movements;
        assert!(movements.iter().all(|view| !view.amount_usd.is_zero()), "{meanwhile:?}: {movements:?}");
        ledger_agrees(&fixture, &format!("{meanwhile:?}, then restored")).await;
    }
}

/// Earlier versions lost the amount in this way.
#[tokio::test]
async fn revocation_without_its_amount_is_reported_and_restored_whole() {
    let fixture = Fixture::new().await;
    let credits = fixture.payments.credits();
    let id = credits.mint(FUNDS, "", None).await.unwrap().credit.holder.id;
    let wrong_accounts = async || {
        let page = accounts::read(&*fixture.store, 100, None).await.unwrap();
        let wrong = page.accounts.into_iter().filter(|line| line.agrees == Some(false)).map(|line| line.account);
        (wrong.collect::<Vec<_>>(), page.agrees)
    };
    let mut holder = credits.decide(&id, &verdict(CreditDecision::Revoke)).await.unwrap().holder;
    assert_eq!(wrong_accounts().await, (vec![], true));
    holder.revoked.as_mut().unwrap().amount_usd = MicroUsd::ZERO;
    CREDITS.put(&id, &holder).commit(&*fixture.store, Durability::Buffered).await.unwrap();
    assert_eq!(wrong_accounts().await, (vec![format!("revoked/{id}")], false));
    assert_eq!(wrong(&fixture).await, [format!("credit {id}: was revoked with 0, its account has {0} (off by -{0})", FUNDS.0)]);
    holder.revoked = None;
    CREDITS.put(&id, &holder).commit(&*fixture.store, Durability::Buffered).await.unwrap();
    assert_eq!(wrong_accounts().await, (vec![format!("revoked/{id}")], false), "also once it is restored without it");
    // Nothing is left to take, and all that was taken returns.
    let revoked = credits.decide(&id, &verdict(CreditDecision::Revoke)).await.unwrap().holder.revoked.unwrap();
    assert_eq!(revoked.amount_usd, FUNDS);
    assert_eq!(credits.decide(&id, &verdict(CreditDecision::Restore)).await.unwrap().balance, FUNDS);
    assert_eq!(wrong_accounts().await, (vec![], true));
    ledger_agrees(&fixture, "restored").await;
}

#[tokio::test]
async fn payout_goes_to_the_address_that_is_set_when_it_begins() {
    let memory = Arc::new(MemoryStore::new());
    let fixture = Fixture::over(Arc::clone(&memory) as _);
    let builder = BuilderId::generate();
    let to = |address: String| PayoutSettingsDraft { address, network: None, asset: None, minimum_usd: Some(MicroUsd(1)) };
    let other = Payer::new(1).address();
    let receipt = ReceiptId::generate();
    fixture.payouts().set(&builder, &to(PAY_TO.to_owned()), None).await.unwrap();
    let posting = Posting::new(Cause::Sold(receipt.clone()), NOW).dollars(Dollars::Own, Dollars::Builder(builder.clone()), PRICE);
    let waits = UnpaidSale { net: PRICE.0, at_ms: NOW.0 }.stored(&Owner::Builder(builder.clone()), &receipt);
    waits.and(posting.stored()).commit(&*memory, Durability::Buffered).await.unwrap();
    let (settings, own, draft) = (fixture.payouts(), builder.clone(), to(other.clone()));
    let change = async move { _ = settings.set(&own, &draft, None).await.unwrap() };
    let store = InterleavingStore::before_commit(1, memory, change);
    let events = Arc::new(Events::new(Arc::clone(&fixture.store), fixture.clock.clone(), EventSettings::default()));
    let slower = Payouts::new(store, fixture.clock.clone(), events, Arc::clone(&fixture.signer), config().assets().collect());
    assert_eq!(slower.pay_out(&builder).await.unwrap().unwrap().address, other);
}
