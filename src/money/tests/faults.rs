//! A store that fails at the worst moment, and random histories checked against invariants.

#![expect(clippy::print_stdout, reason = "seeds are printed")]

use tollhouse_store::{
    faulty::{Fault, FaultyStore},
    sled::{SledConfig, SledStore},
};

use super::{ledger::ledger_agrees, *};

const MODES: [Fault; 4] = [Fault::Before, Fault::After, Fault::Lost, Fault::Locked];

/// Checks the invariants that hold after any history, whenever nobody is settling.
async fn check(fixture: &Fixture, story: &str) {
    let spent = fixture.all(Space::LedgerNonces).await.len() as u64;
    let mut total = fixture.earned().await;
    assert_eq!(total, spent * PRICE.0, "{story}: each nonce moves the price once");
    for seed in 1..=3 {
        total += fixture.balance(&Payer::new(seed).address()).await;
    }
    assert_eq!(total, 3 * FUNDS.0, "{story}: money is conserved");
    let receipts = fixture.receipts().await;
    let mut settled = vec![];
    for (key, bytes) in fixture.all(Space::Payments).await {
        let Ok(id) = String::from_utf8(key).unwrap().parse::<PaymentId>() else { continue };
        let record = crate::payments::record::PaymentRecord::of_bytes(&bytes).unwrap();
        let paid = receipts.iter().filter(|receipt| Some(receipt.draft.receipt_id.as_str()) == record.receipt_id.as_deref()).count();
        assert_eq!(paid, usize::from(record.state == PaymentState::Settled), "{story}: {id} is {:?} and has {paid} receipts", record.state);
        if record.state == PaymentState::Settled {
            settled.extend(record.transaction);
        }
    }
    assert_eq!(settled.len(), receipts.len(), "{story}: a receipt without a payment");
    let transactions: Vec<_> = fixture.all(Space::LedgerNonces).await.into_iter().map(|(_, tx)| String::of_bytes(&tx).unwrap()).collect();
    assert!(settled.iter().all(|tx| transactions.contains(tx)), "{story}: settled without money");
    ledger_agrees(fixture, story).await;
}

/// Checks the invariants that hold once everything open was resolved.
async fn check_closed(fixture: &Fixture, story: &str) {
    check(fixture, story).await;
    assert!(fixture.all(Space::OpenIntents).await.is_empty(), "{story}: something is open");
    assert_eq!(fixture.payments.open_intents(), 0, "{story}: something counts as open");
    // Every spent nonce has its receipt: none was released or refused although its money had moved.
    assert_eq!(fixture.all(Space::LedgerNonces).await.len(), fixture.receipts().await.len(), "{story}: money without a receipt");
}

/// Checks that the movements of each credit add up to its balance step by step, and that each receipt has its debit.
pub(super) async fn check_movements(fixture: &Fixture, story: &str) {
    let mut debits = vec![];
    let mut seen = 0;
    for credit in fixture.payments.credits().list(None, 100).await.unwrap() {
        let mut page = fixture.payments.credits().movements(&credit.id, None, 10_000).await.unwrap().movements;
        seen += page.len();
        page.reverse();
        let mut balance = 0;
        for movement in page {
            balance += Movement::plain(movement.at, movement.kind, movement.amount_usd).change();
            assert_eq!(UsdChange::of(balance), movement.balance_usd, "{story}: a movement is missing before {movement:?}");
            debits.extend(movement.receipt_id);
        }
        assert_eq!(balance, credit.balance.0.into(), "{story}: the balance moved without a movement");
    }
    assert_eq!(seen, fixture.movements().await, "{story}: a movement of no credit");
    let mut receipts: Vec<_> = fixture.receipts().await.iter().map(|receipt| receipt.draft.receipt_id.to_string()).collect();
    receipts.sort();
    debits.sort();
    assert_eq!(debits, receipts, "{story}: a receipt without its debit");
    ledger_agrees(fixture, story).await;
}

/// Pays and settles, whatever fails. Returns true if the caller got a success.
async fn attempt(fixture: &Fixture, offered: OfferedPayment) -> bool {
    match fixture.admit(offered).await {
        Ok(Admit::Run(admission)) => fixture.settle(admission).await.is_ok(),
        Ok(Admit::Seen(SeenPayment::Stored(..))) => true,
        _ => false,
    }
}

#[tokio::test]
async fn whichever_write_fails_a_payment_settles_once() {
    for fault in MODES {
        for nth in 1..=8 {
            for restart in [true, false] {
                let story = format!("{fault:?} at {nth}, restart {restart}");
                let store = Arc::new(FaultyStore::new(MemoryStore::new()));
                let mut fixture = Fixture::over(Arc::clone(&store) as _);
                fixture.fund().await;
                store.fail_nth(nth, fault);
                let answer = attempt(&fixture, Payer::new(1).pays(1)).await;
                check(&fixture, &story).await;
                if restart {
                    fixture = fixture.restarted();
                }
                store.heal();
                fixture.payments.recover().await.unwrap();
                fixture.payments.tick().await.unwrap();
                check_closed(&fixture, &story).await;
                let earned = fixture.earned().await;
                assert!(!answer || earned == PRICE.0, "{story}: served without money");
                assert!(attempt(&fixture, Payer::new(1).pays(1)).await, "{story}: not served when it is shown again");
                check_closed(&fixture, &story).await;
                assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1), "{story}");
            }
        }
    }
}

#[tokio::test]
async fn unconfirmed_reservation_does_not_block_the_payment() {
    for fault in MODES {
        for nth in 1..=2 {
            let story = format!("{fault:?} at {nth}");
            let store = Arc::new(FaultyStore::new(MemoryStore::new()));
            let fixture = Fixture::over(Arc::clone(&store) as _);
            fixture.fund().await;
            // The store is down from then on, for a while.
            for n in nth..nth + 3 {
                store.fail_nth(n, if n == nth { fault } else { Fault::Before });
            }
            assert!(!attempt(&fixture, Payer::new(1).pays(1)).await, "{story}");
            store.heal();
            // Without a restart: the host's own sweep releases it or finds it settled, and reports that.
            let id = Payer::new(1).payment(1).id();
            fixture.payments.tick().await.unwrap();
            if fixture.state(&id).await == Some(PaymentState::Settling) {
                fixture.payments.recover().await.unwrap();
                fixture.payments.tick().await.unwrap();
            }
            assert!(
                !matches!(fixture.state(&id).await, Some(PaymentState::Reserved | PaymentState::Settling)),
                "{story}: {:?}",
                fixture.state(&id).await
            );
            assert!(attempt(&fixture, Payer::new(1).pays(1)).await, "{story}");
            check_closed(&fixture, &story).await;
            assert_eq!(fixture.earned().await, PRICE.0, "{story}");
        }
    }
}

/// No settlement was requested, so the caller learns that nothing was taken, not that it is unknown.
#[tokio::test]
async fn a_payment_whose_intent_was_not_written_is_not_in_doubt() {
    for (fault, always) in [(Fault::Lost, false), (Fault::Before, false), (Fault::Before, true)] {
        let story = format!("{fault:?}, always {always}");
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let fixture = Fixture::over(Arc::clone(&store) as _);
        fixture.fund().await;
        let admission = fixture.run(Payer::new(1).pays(1)).await;
        if always {
            store.fail_all(fault)
        } else {
            store.fail_nth(1, fault)
        };
        let settled = fixture.settle(admission).await;
        assert!(matches!(settled, Err(SettleError::Store(_))), "{story}: {settled:?}");
        assert_eq!((fixture.payments.open_intents(), fixture.earned().await), (0, 0), "{story}");
    }
}

#[tokio::test]
async fn whichever_write_fails_a_credit_is_debited_once() {
    for fault in MODES {
        for nth in 1..=4 {
            let story = format!("{fault:?} at {nth}");
            let store = Arc::new(FaultyStore::new(MemoryStore::new()));
            let fixture = Fixture::over(Arc::clone(&store) as _);
            let token = fixture.payments.credits().mint(FUNDS, "", None).await.unwrap().token.unwrap();
            let offered =
                || OfferedPayment::Credit(CreditOffer { token: token.clone(), idempotency_key: Some("key".to_owned()), observer: None });
            store.fail_nth(nth, fault);
            attempt(&fixture, offered()).await;
            store.heal();
            // Without a restart: a debit that was not confirmed is resolved at once or by the sweep.
            fixture.payments.tick().await.unwrap();
            assert!(attempt(&fixture, offered()).await, "{story}");
            let remaining = fixture.payments.credits().find(&token).await.unwrap().unwrap().balance.0;
            assert_eq!((remaining, fixture.receipts().await.len()), (FUNDS.0 - PRICE.0, 1), "{story}");
            check_movements(&fixture, &story).await;
        }
    }
}

#[tokio::test]
async fn mint_and_movement_are_atomic() {
    for fault in MODES {
        for nth in 1..=3 {
            let story = format!("{fault:?} at {nth}");
            let store = Arc::new(FaultyStore::new(MemoryStore::new()));
            let fixture = Fixture::over(Arc::clone(&store) as _);
            let credits = fixture.payments.credits();
            store.fail_nth(nth, fault);
            let first = credits.mint(FUNDS, "", None).await;
            let other = credits.mint(PRICE, "", None).await;
            let topped = match (&first, &other) {
                (Ok(minted), _) | (_, Ok(minted)) => credits.top_up(&minted.credit.id, PRICE, None).await,
                (Err(_), Err(_)) => unreachable!("one commit fails"),
            };
            // The last one is an update, which retries.
            let again = fault == Fault::Locked && nth == 3;
            let failed = [first.is_err(), other.is_err(), topped.is_err()].into_iter().filter(|failed| *failed).count();
            assert_eq!(failed, usize::from(!again), "{story}");
            store.heal();
            check_movements(&fixture, &story).await;
            let written = fixture.movements().await;
            assert_eq!(written, if fault == Fault::After || again { 3 } else { 2 }, "{story}");
        }
    }
}

/// Like the first test, with a store on disk that is reopened.
#[test]
fn whichever_write_fails_on_disk_a_payment_settles_once() {
    for fault in MODES {
        for nth in 1..=4 {
            let story = format!("{fault:?} at {nth}, on disk");
            let folder = tempfile::tempdir().unwrap();
            let config = SledConfig { cache_bytes: 1 << 20, lock_timeout: Duration::from_secs(5), ..SledConfig::default() };
            let open = || SledStore::open(folder.path(), config.clone()).unwrap();
            let phase = |future: std::pin::Pin<Box<dyn Future<Output = ()> + '_>>| {
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future);
            };
            let keys = Arc::new(tempfile::tempdir().unwrap());
            let signer = Arc::new(ReceiptSigner::open(keys.path()).unwrap());
            let over = |store: Arc<dyn Store>| {
                Fixture::assemble(super::config(), store, Clock::fixed(NOW), Arc::clone(&signer), Arc::clone(&keys))
            };
            phase(Box::pin(async {
                let store = Arc::new(FaultyStore::new(open()));
                let fixture = over(Arc::clone(&store) as _);
                fixture.fund().await;
                store.fail_nth(nth, fault);
                attempt(&fixture, Payer::new(1).pays(1)).await;
            }));
            phase(Box::pin(async {
                let fixture = over(Arc::new(open()));
                fixture.payments.recover().await.unwrap();
                fixture.payments.tick().await.unwrap();
                check_closed(&fixture, &story).await;
                assert!(attempt(&fixture, Payer::new(1).pays(1)).await, "{story}");
            }));
            phase(Box::pin(async {
                let fixture = over(Arc::new(open()));
                check_closed(&fixture, &story).await;
                assert_eq!(stored(fixture.admit(Payer::new(1).pays(1)).await).body, ANSWER, "{story}");
                assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1), "{story}");
            }));
        }
    }
}

/// A run that has been admitted: its nonce, its request, and its future answer.
struct AdmittedRun {
    admission: Admission,
    nonce: u64,
    request: String,
}

#[tokio::test]
async fn random_histories_keep_the_books() {
    let fresh = u64::from_str_radix(&PaymentId::of(&[ReceiptId::generate().as_str()]).as_str()[4..20], 16).unwrap();
    for seed in (1..=24).chain([fresh | 1]) {
        println!("seed {seed}");
        history(seed).await;
    }
}

async fn history(seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let mut fixture = Fixture::over(Arc::clone(&store) as _);
    fixture.fund().await;
    let mut running: Vec<AdmittedRun> = vec![];
    // The model: the request and answer that each nonce has bought, once a caller got the answer.
    let mut bought = std::collections::BTreeMap::<u64, (String, StoredAnswer)>::new();
    for step in 0..120 {
        let story = format!("seed {seed}, step {step}");
        match dice.u64(..12) {
            0..=4 => {
                let (nonce, request) = (dice.u64(..6), format!("request {}", dice.u64(..2)));
                let named = dice.u64(..3) == 0;
                let payer = Payer::new(1);
                let offered = if named { payer.pays_as(nonce, &format!("{NAME}-{}", nonce / 2)) } else { payer.pays(nonce) };
                match fixture.payments.admit(&terms(), offered, &*request).await {
                    Ok(Admit::Run(admission)) => {
                        assert!(!bought.contains_key(&nonce), "{story}: nonce {nonce} runs again");
                        assert!(running.iter().all(|other| other.nonce != nonce), "{story}: nonce {nonce} runs twice at once");
                        running.push(AdmittedRun { admission, nonce, request });
                    }
                    Ok(Admit::Seen(SeenPayment::Stored(id, answer))) => {
                        let of = (0..6).find(|nonce| Payer::new(1).payment(*nonce).id() == id).unwrap();
                        assert!(named || of == nonce, "{story}");
                        let (for_request, first) = bought.entry(of).or_insert((request.clone(), answer.clone()));
                        assert_eq!((&*for_request, &*first), (&request, &answer), "{story}: nonce {of} has two answers");
                    }
                    Ok(Admit::Seen(SeenPayment::InFlight(_)))
                    | Err(Refusal::Reused | Refusal::Store(_) | Refusal::FacilitatorUnavailable(_)) => {}
                    // The nonce was spent by a payment with another name, or with none.
                    Err(Refusal::Invalid { reason, .. }) if reason == "invalid_exact_evm_nonce_already_used" => {}
                    other => panic!("{story}: {}", what(&other)),
                }
            }
            5 | 6 if !running.is_empty() => {
                let AdmittedRun { admission, nonce, request } = running.swap_remove(dice.usize(..running.len()));
                let moods = [
                    FacilitatorMood::Honest,
                    FacilitatorMood::Honest,
                    FacilitatorMood::SettlesUnsure,
                    FacilitatorMood::Unsure,
                    FacilitatorMood::Refuses,
                ];
                fixture.facilitator.feel(*dice.choice(&moods).unwrap());
                let body = format!("{{\"nonce\":{nonce},\"step\":{step}}}");
                if let Ok(answer) = fixture.payments.settle(admission, answer(body.as_bytes()), &draft()).await {
                    assert!(bought.insert(nonce, (request, answer)).is_none(), "{story}: nonce {nonce} is sold twice");
                }
                fixture.facilitator.feel(FacilitatorMood::Honest);
            }
            7 if !running.is_empty() => running.swap_remove(0).admission.release().await,
            8 => _ = fixture.payments.tick().await,
            9 => {
                // The host is killed: no destructor runs.
                running.drain(..).for_each(std::mem::forget);
                fixture = fixture.restarted();
                store.heal();
                fixture.payments.recover().await.unwrap();
                fixture.payments.tick().await.unwrap();
            }
            10 => store.fail_nth(1 + dice.u64(..4), *dice.choice(&MODES).unwrap()),
            _ => store.heal(),
        }
        if step % 4 == 0 {
            check(&fixture, &story).await;
        }
    }
    store.heal();
    let story = format!("seed {seed}, at the end");
    for AdmittedRun { admission, .. } in running {
        admission.release().await;
    }
    fixture.payments.tick().await.unwrap();
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    check_closed(&fixture, &story).await;
    for (nonce, (request, first)) in bought {
        // As it was sent when it was bought: with or without a name.
        let (named, nameless) = (Payer::new(1).pays_as(nonce, &format!("{NAME}-{}", nonce / 2)), Payer::new(1).pays(nonce));
        let (named, nameless) =
            (fixture.payments.admit(&terms(), named, &*request).await, fixture.payments.admit(&terms(), nameless, &*request).await);
        let again = stored(if nameless.is_ok() { nameless } else { named });
        assert_eq!(again, first, "{story}: nonce {nonce} lost its answer");
    }
}

const NAME: &str = "name-of-an-order";
