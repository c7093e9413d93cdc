//! Developer credit can be spent to the last micro-dollar and no further.

use std::{
    future::ready,
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{mpsc, oneshot};
use tollhouse_api::CreditMovement;
use tollhouse_store::faulty::{Fault, FaultyStore};
use tollhouse_store::test_wrappers::YieldingStore;
use tollhouse_tool::MicroUsd;

use super::*;
use crate::payments::record::PaymentRecord;

impl Fixture {
    /// Returns the number of movements of credits, without the balance rows.
    pub(super) async fn movements(&self) -> usize {
        let rows = self.all(Space::CreditMovements).await;
        rows.iter().filter(|(key, _)| !key.ends_with(&u64::MAX.to_be_bytes())).count()
    }
}

fn by_credit(token: &str, key: Option<&str>) -> OfferedPayment {
    OfferedPayment::Credit(CreditOffer { token: token.to_owned(), idempotency_key: key.map(str::to_owned), observer: None })
}

struct Fresh {
    token: String,
    id: CreditId,
}

async fn minted(fixture: &Fixture, calls: u64) -> Fresh {
    let MintedCredit { token, credit } = fixture.payments.credits().mint(MicroUsd(calls * PRICE.0), "a test", None).await.unwrap();
    Fresh { token: token.unwrap(), id: credit.id.clone() }
}

async fn remaining(fixture: &Fixture, token: &str) -> u64 {
    fixture.payments.credits().find(token).await.unwrap().unwrap().balance.0
}

#[tokio::test]
async fn token_is_not_stored_and_a_wrong_secret_is_refused() {
    let fixture = Fixture::new().await;
    let credit = minted(&fixture, 1).await;
    // `dc_`, the id, `_` and the secret, which may contain `_` too.
    let (head, secret) = (&credit.token[..29], &credit.token[30..]);
    assert!(secret.len() >= 40);
    for (_, stored) in fixture.all(Space::Credits).await {
        assert!(!String::from_utf8_lossy(&stored).contains(secret), "the store knows the secret");
    }
    let other = minted(&fixture, 1).await;
    let foreign = &other.token[30..];
    let wrong = [
        String::new(),
        "dc_".to_owned(),
        head.to_owned(),
        format!("{head}_"),
        format!("{head}_{foreign}"),
        format!("{head}_{}", secret.to_lowercase()),
        format!("{}x", credit.token),
        credit.token[..credit.token.len() - 1].to_owned(),
        credit.token[1..].to_owned(),
        format!("dc_01J00000000000000000000000_{secret}"),
    ];
    for token in wrong {
        assert!(matches!(fixture.admit(by_credit(&token, None)).await, Err(Refusal::CreditUnknown)), "{token}");
    }
    assert_eq!(remaining(&fixture, &credit.token).await, PRICE.0);
}

/// Counts wrong credentials, and permits lookups until there are two.
#[derive(Debug, Default, Clone)]
struct Counter(Arc<AtomicUsize>);

impl Counter {
    fn wrong(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl CredentialObserver for Counter {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn CredentialLookup>, RunLimitReached>> {
        let slowed = RunLimitReached { bound: RunLimit::Credentials, max: NonZeroU32::MIN, window: Duration::ZERO, wait: Duration::ZERO };
        let lookup = Box::new(self.clone()) as Box<dyn CredentialLookup>;
        Box::pin(ready(if self.wrong() < 2 { Ok(lookup) } else { Err(slowed) }))
    }
}

impl CredentialLookup for Counter {
    fn saw_wrong(self: Box<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn observer_sees_each_wrong_token_once_and_decides_on_each_lookup() {
    let fixture = Fixture::new().await;
    let (credit, counter) = (minted(&fixture, 2).await, Counter::default());
    let offer = |token: &str, key: Option<&str>| {
        let (token, idempotency_key) = (token.to_owned(), key.map(str::to_owned));
        OfferedPayment::Credit(CreditOffer { token, idempotency_key, observer: Some(Arc::new(counter.clone()) as _) })
    };
    fixture.buy(offer(&credit.token, Some("a-key"))).await;
    fixture.buy(offer(&credit.token, None)).await;
    assert!(matches!(fixture.admit(offer(&credit.token, None)).await, Err(Refusal::InsufficientCredit { .. })));
    assert_eq!(counter.wrong(), 0);
    for seen in 1..=2 {
        assert!(matches!(fixture.admit(offer("dc_wrong", None)).await, Err(Refusal::CreditUnknown)));
        assert_eq!(counter.wrong(), seen);
    }
    // No credential is looked up anymore, right or wrong.
    let is_slowed = |refusal: &Refusal| matches!(refusal, Refusal::Slowed(RunLimitReached { bound: RunLimit::Credentials, .. }));
    for token in [credit.token.as_str(), "dc_wrong"] {
        assert!(fixture.admit(offer(token, None)).await.is_err_and(|refusal| is_slowed(&refusal)));
        let earlier = fixture.payments.earlier(&offer(token, Some("a-key")), "a request").await;
        assert!(earlier.is_err_and(|refusal| is_slowed(&refusal)));
    }
    assert_eq!(counter.wrong(), 2);
}

#[tokio::test]
async fn a_credit_of_nothing_or_with_an_endless_label_is_not_minted() {
    let fixture = Fixture::new().await;
    assert!(matches!(fixture.payments.credits().mint(MicroUsd(0), "", None).await, Err(CreditError::Nothing)));
    assert!(matches!(fixture.payments.credits().mint(PRICE, &"x".repeat(121), None).await, Err(CreditError::Label)));
    assert_eq!(fixture.payments.credits().mint(PRICE, &"x".repeat(120), None).await.unwrap().credit.label, "x".repeat(120));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_calls_on_a_balance_for_ten_debit_ten() {
    let fixture = Arc::new(Fixture::new().await);
    let token = minted(&fixture, 10).await.token;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (fixture, token) = (Arc::clone(&fixture), token.clone());
            tokio::spawn(async move {
                // Like callers, retry until the credit is used up.
                loop {
                    match fixture.admit(by_credit(&token, None)).await {
                        Ok(Admit::Run(admission)) => {
                            tokio::task::yield_now().await;
                            return fixture.settle(admission).await.is_ok();
                        }
                        Err(Refusal::InsufficientCredit { balance, .. }) if balance < PRICE => return false,
                        Err(Refusal::InsufficientCredit { .. }) => tokio::task::yield_now().await,
                        other => panic!("{}", what(&other)),
                    }
                }
            })
        })
        .collect();
    let mut debited = 0;
    for task in tasks {
        debited += usize::from(task.await.unwrap());
    }
    assert_eq!((debited, remaining(&fixture, &token).await), (10, 0));
    assert_eq!(fixture.movements().await, 11, "one mint, ten debits");
    let receipts = fixture.receipts().await;
    assert_eq!(receipts.len(), 10);
    assert_eq!(receipts.iter().map(|receipt| receipt.draft.price_usd.0).sum::<u64>(), 10 * PRICE.0);
    assert!(receipts.iter().all(|receipt| receipt.kind == receipt::PaymentKind::Credit));
    assert_eq!(fixture.earned().await, 0, "credit moves no token");
}

/// Two replicas reserve separately. Only the balance in the store is shared.
#[tokio::test]
async fn two_replicas_debit_one_credit_without_losing_a_call() {
    // Before the debit. A call that can be repeated is reserved before it.
    for (calls, key, debit) in [(1, Some("a-key"), 2), (2, Some("a-key"), 2), (1, None, 1), (2, None, 1)] {
        let memory = Arc::new(MemoryStore::new());
        let other = Fixture::over(Arc::clone(&memory) as _);
        let token = minted(&other, calls).await.token;
        let interrupted = Interrupted::before_commit(debit, memory);
        let fixture = other.restarted_over(Arc::clone(&interrupted) as _);
        let (admission, payments) = (other.run(by_credit(&token, None)).await, Arc::clone(&other.payments));
        interrupted.by(async move { _ = payments.settle(admission, answer(ANSWER), &draft()).await.unwrap() });
        let admission = fixture.run(by_credit(&token, key)).await;
        let id = admission.id().clone();
        let settled = fixture.settle(admission).await;
        if calls == 1 {
            assert!(matches!(settled, Err(SettleError::Refused { .. })), "{settled:?}");
            assert_eq!(fixture.state(&id).await, key.map(|_| PaymentState::Released));
        }
        assert_eq!((remaining(&fixture, &token).await, fixture.receipts().await.len() as u64), (0, calls));
    }
}

#[tokio::test]
async fn every_movement_is_stored_and_read_in_pages() {
    let fixture = Fixture::new().await;
    let (credit, other) = (minted(&fixture, 2).await, minted(&fixture, 1).await);
    fixture.buy(by_credit(&other.token, None)).await;
    let bought = fixture.buy(by_credit(&credit.token, None)).await;
    let credits = fixture.payments.credits();
    assert_eq!(credits.top_up(&credit.id, PRICE, None).await.unwrap().balance.0, 2 * PRICE.0);
    let (mut before, mut seen) = (None, vec![]);
    loop {
        let page = credits.movements(&credit.id, before, 1).await.unwrap();
        let describe =
            |movement: CreditMovement| (movement.kind, movement.amount_usd.0 / PRICE.0, movement.balance_usd.0.unsigned_abs() / PRICE.0);
        seen.extend(page.movements.into_iter().map(describe));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    use MovementKind::{Debit, Mint};
    assert_eq!(seen, [(Mint, 1, 2), (Debit, 1, 1), (Mint, 2, 2)]);
    assert!(credits.movements(&credit.id, None, 3).await.unwrap().next.is_none(), "nothing is before the first");
    let all = credits.movements(&credit.id, None, 10).await.unwrap();
    assert!(all.next.is_none());
    let debit = &all.movements[1];
    assert_eq!((debit.receipt_id.as_ref(), debit.slug.as_ref()), (Some(&bought.receipt_id), Some(&terms().slug)));
    assert_eq!((&all.movements[0].receipt_id, &all.movements[0].slug), (&None, &None));
}

#[tokio::test]
async fn a_minting_with_a_name_happens_once_and_shows_its_token_once() {
    // All concurrent requests read before one of them writes.
    let fixture = Fixture::over(Arc::new(YieldingStore::default()));
    let credits = fixture.payments.credits();
    let once = |key: &str, request: &str| IdempotencyKey::new(key.to_owned(), request.to_owned()).unwrap();
    let (made, more) = (once("made", "a credit"), once("more", "a top-up"));
    let answers = join_all((0..20).map(|_| credits.mint(PRICE, "", Some(&made)))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let tokens: Vec<_> = answers.iter().filter_map(|minted| minted.token.clone()).collect();
    assert_eq!(tokens.len(), 1);
    let credit = answers[0].credit.clone();
    assert!(answers.iter().all(|minted| minted.credit == credit));
    let topped = join_all((0..20).map(|_| credits.top_up(&credit.id, PRICE, Some(&more)))).await;
    assert!(topped.into_iter().all(|credit| credit.unwrap().balance.0 == 2 * PRICE.0));
    assert_eq!(remaining(&fixture, &tokens[0]).await, 2 * PRICE.0);
    assert_eq!(credits.mint(PRICE, "", Some(&made)).await.unwrap().credit, credit, "as it was then");
    assert!(matches!(credits.mint(PRICE, "", Some(&once("made", "another"))).await, Err(CreditError::Reused)));
    assert!(matches!(credits.top_up(&credit.id, PRICE, Some(&once("more", "another"))).await, Err(CreditError::Reused)));
    assert_eq!(credits.list(None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn invalid_top_ups_are_refused() {
    let fixture = Fixture::new().await;
    let (credit, credits) = (minted(&fixture, 1).await, fixture.payments.credits());
    assert!(matches!(credits.top_up(&credit.id, MicroUsd::ZERO, None).await, Err(CreditError::Nothing)));
    assert!(matches!(credits.top_up(&credit.id, MicroUsd::MAX, None).await, Err(CreditError::TooMuch)));
    assert!(matches!(credits.top_up(&CreditId::generate(), PRICE, None).await, Err(CreditError::Unknown)));
    assert_eq!((remaining(&fixture, &credit.token).await, fixture.movements().await), (PRICE.0, 1));
}

#[tokio::test]
async fn calls_in_flight_hold_their_maximum_price() {
    let fixture = Fixture::new().await;
    let token = minted(&fixture, 2).await.token;
    let (first, second) = (fixture.run(by_credit(&token, None)).await, fixture.run(by_credit(&token, None)).await);
    assert!(matches!(fixture.admit(by_credit(&token, None)).await, Err(Refusal::InsufficientCredit { .. })));
    first.release().await;
    let third = fixture.run(by_credit(&token, None)).await;
    assert!(matches!(fixture.admit(by_credit(&token, None)).await, Err(Refusal::InsufficientCredit { .. })), "the others still hold");
    fixture.settle(third).await.unwrap();
    fixture.settle(second).await.unwrap();
    assert_eq!((remaining(&fixture, &token).await, fixture.receipts().await.len()), (0, 2));
}

#[tokio::test]
async fn an_idempotency_key_buys_one_answer() {
    let fixture = Fixture::new().await;
    let token = minted(&fixture, 2).await.token;
    let admission = fixture.run(by_credit(&token, Some("key-1"))).await;
    assert!(matches!(fixture.admit(by_credit(&token, Some("key-1"))).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))));
    let first = fixture.settle(admission).await.unwrap();
    assert_eq!(stored(fixture.admit(by_credit(&token, Some("key-1"))).await), first);
    assert_eq!(remaining(&fixture, &token).await, PRICE.0);
    let other = fixture.payments.admit(&terms(), by_credit(&token, Some("key-1")), "another request").await;
    assert!(matches!(other, Err(Refusal::Reused)));
    fixture.buy(by_credit(&token, Some("key-2"))).await;
    // The credit is used up, but bought answers are still available.
    assert_eq!(stored(fixture.restarted().admit(by_credit(&token, Some("key-1"))).await), first);
    assert!(matches!(fixture.admit(by_credit(&token, Some("key-3"))).await, Err(Refusal::InsufficientCredit { .. })));
    assert_eq!((remaining(&fixture, &token).await, fixture.receipts().await.len()), (0, 2));
}

#[tokio::test]
async fn one_key_of_two_credits_is_two_calls() {
    let fixture = Fixture::new().await;
    let (one, two) = (minted(&fixture, 1).await.token, minted(&fixture, 1).await.token);
    let first = fixture.buy(by_credit(&one, Some("key"))).await;
    let second = fixture.buy(by_credit(&two, Some("key"))).await;
    assert_ne!(first.receipt_id, second.receipt_id);
}

#[tokio::test]
async fn idempotency_keys_that_are_none_are_refused() {
    let fixture = Fixture::new().await;
    let token = minted(&fixture, 1).await.token;
    for key in ["", "a b", "a\nb", "schlüssel", &"k".repeat(256)] {
        assert!(matches!(fixture.admit(by_credit(&token, Some(key))).await, Err(Refusal::KeyInvalid(_))), "{key}");
    }
    fixture.buy(by_credit(&token, Some(&"k".repeat(255)))).await;
}

fn verdict(decision: CreditDecision) -> CreditVerdict {
    CreditVerdict { decision, reason: None }
}

#[tokio::test]
async fn a_call_that_was_admitted_by_a_credit_since_revoked_is_refused() {
    let fixture = Fixture::new().await;
    let credit = minted(&fixture, 2).await;
    let credits = Arc::clone(fixture.payments.credits());
    let Ok(Admit::Run(admission)) = fixture.admit(by_credit(&credit.token, Some("paid"))).await else { panic!("it admits") };
    fixture.settle(admission).await.unwrap();
    let Ok(Admit::Run(admission)) = fixture.admit(by_credit(&credit.token, None)).await else { panic!("it admits") };
    credits.decide(&credit.id, &verdict(CreditDecision::Revoke)).await.unwrap();
    assert!(matches!(fixture.settle(admission).await, Err(SettleError::Refused { .. })));
    assert!(matches!(fixture.admit(by_credit(&credit.token, None)).await, Err(Refusal::CreditRevoked)));
    let paid = fixture.admit(by_credit(&credit.token, Some("paid"))).await;
    assert!(matches!(paid, Ok(Admit::Seen(SeenPayment::Stored(..)))), "earlier purchases stay");
    assert!(matches!(credits.decide(&credit.id, &verdict(CreditDecision::Revoke)).await, Err(CreditError::Revoked)));
    assert!(matches!(credits.top_up(&credit.id, PRICE, None).await, Err(CreditError::Revoked)));
    credits.decide(&credit.id, &verdict(CreditDecision::Restore)).await.unwrap();
    assert!(matches!(credits.decide(&credit.id, &verdict(CreditDecision::Restore)).await, Err(CreditError::NotRevoked)));
    assert_eq!(remaining(&fixture, &credit.token).await, PRICE.0, "the rest returns");
    let Ok(Admit::Run(admission)) = fixture.admit(by_credit(&credit.token, None)).await else { panic!("it admits again") };
    fixture.settle(admission).await.unwrap();
    assert_eq!(remaining(&fixture, &credit.token).await, 0);
}

#[tokio::test]
async fn reason_of_a_revocation_has_at_most_1000_characters() {
    let fixture = Fixture::new().await;
    let credit = minted(&fixture, 1).await;
    let revoke = async |length| {
        let verdict = CreditVerdict { decision: CreditDecision::Revoke, reason: Some("ä".repeat(length)) };
        fixture.payments.credits().decide(&credit.id, &verdict).await
    };
    assert!(matches!(revoke(1_001).await, Err(CreditError::Reason)));
    assert_eq!(revoke(1_000).await.unwrap().holder.revoked.unwrap().reason, Some("ä".repeat(1_000)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn credit_revoked_during_calls_loses_only_its_remaining_balance() {
    let fixture = Arc::new(Fixture::new().await);
    let Fresh { token, id } = minted(&fixture, 1_000).await;
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let (fixture, token) = (Arc::clone(&fixture), token.clone());
            tokio::spawn(async move {
                let mut settled = 0;
                while let Ok(Admit::Run(admission)) = fixture.admit(by_credit(&token, None)).await {
                    settled += u64::from(fixture.settle(admission).await.is_ok());
                }
                settled
            })
        })
        .collect();
    while remaining(&fixture, &token).await > 950 * PRICE.0 {
        tokio::task::yield_now().await;
    }
    let revoked = fixture.payments.credits().decide(&id, &verdict(CreditDecision::Revoke)).await.unwrap();
    let mut settled = 0;
    for call in calls {
        settled += call.await.unwrap();
    }
    assert_eq!((remaining(&fixture, &token).await, fixture.receipts().await.len() as u64), (0, settled));
    assert_eq!(revoked.holder.revoked.unwrap().amount_usd.0, (1_000 - settled) * PRICE.0);
    faults::check_movements(&fixture, "revoked among calls").await;
}

/// A memory store as slow as a disk: concurrent commits share a sync, and later ones wait for the next.
struct SlowDisk {
    held: Arc<MemoryStore>,
    queue: mpsc::UnboundedSender<(Batch, Durability, oneshot::Sender<Outcome>)>,
}

type Outcome = Result<Vec<i128>, StoreError>;

impl SlowDisk {
    fn new(sync: Duration) -> Self {
        let held = Arc::new(MemoryStore::new());
        let (queue, mut jobs) = mpsc::unbounded_channel::<(Batch, Durability, oneshot::Sender<Outcome>)>();
        let store = Arc::clone(&held);
        tokio::spawn(async move {
            let mut queued = Vec::new();
            while jobs.recv_many(&mut queued, 256).await > 0 {
                let mut waiting = Vec::new();
                for (batch, durability, answer) in queued.drain(..) {
                    match (store.apply(batch, durability).await, durability) {
                        (Ok(sums), Durability::Durable) => waiting.push((answer, sums)),
                        (outcome, _) => _ = answer.send(outcome),
                    }
                }
                if !waiting.is_empty() {
                    tokio::time::sleep(sync).await;
                }
                waiting.into_iter().for_each(|(answer, sums)| _ = answer.send(Ok(sums)));
            }
        });
        Self { held, queue }
    }
}

#[async_trait]
impl StoreWrapper for SlowDisk {
    fn inner(&self) -> &dyn Store {
        &*self.held
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.queue.send((batch, durability, answer)).unwrap_or_else(|_| panic!("the writer is there"));
        outcome.await.unwrap()
    }
}

#[tokio::test]
async fn calls_of_one_credit_that_end_together_are_all_debited() {
    const CALLS: usize = 300;
    let fixture = Arc::new(Fixture::over(Arc::new(SlowDisk::new(Duration::from_millis(10)))));
    let token = minted(&fixture, CALLS as u64).await.token;
    let admitted = join_all((0..CALLS).map(|_| fixture.run(by_credit(&token, None)))).await;
    let mut calls = tokio::task::JoinSet::new();
    for admission in admitted {
        let fixture = Arc::clone(&fixture);
        calls.spawn(async move { fixture.settle(admission).await });
    }
    let ended = calls.join_all().await;
    let uncharged: Vec<_> = ended.iter().filter_map(|ended| ended.as_ref().err()).collect();
    assert!(uncharged.is_empty(), "{} of {CALLS}, such as {:?}", uncharged.len(), uncharged[0]);
    assert_eq!(remaining(&fixture, &token).await, 0);
}

/// Nobody can request the answer of a call without an idempotency key, so neither a reservation nor the answer is
/// stored.
#[tokio::test]
async fn a_call_that_nobody_can_repeat_is_one_commit_and_keeps_no_answer() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let fixture = Fixture::over(Arc::clone(&store) as _);
    let credit = minted(&fixture, 3).await;
    let records = async || {
        let rows = fixture.all(Space::Payments).await;
        rows.iter().map(|(_, bytes)| PaymentRecord::of_bytes(bytes).unwrap()).collect::<Vec<_>>()
    };
    for (key, commits) in [(None, 1), (Some("a-key"), 2)] {
        let (before, known) = (store.commits(), records().await.len());
        let admission = fixture.run(by_credit(&credit.token, key)).await;
        let id = admission.id().clone();
        assert_eq!(fixture.state(&id).await, key.map(|_| PaymentState::Reserved));
        let answer = fixture.settle(admission).await.unwrap();
        assert_eq!(store.commits() - before, commits, "{key:?}");
        let state = fixture.payments.state(&id).await.unwrap().unwrap();
        assert_eq!((state.state, state.receipt_id), (PaymentState::Settled, Some(answer.receipt_id)), "it learns the outcome");
        assert_eq!(records().await.len(), known + 1);
        assert_eq!(records().await.iter().filter(|record| record.has_answer).count(), usize::from(key.is_some()));
    }
    // A call without a result stores nothing.
    let before = store.commits();
    fixture.run(by_credit(&credit.token, None)).await.release().await;
    drop(fixture.run(by_credit(&credit.token, None)).await);
    assert_eq!((store.commits(), records().await.len()), (before, 2));
    assert_eq!(remaining(&fixture, &credit.token).await, PRICE.0);
    // A debit that was not confirmed may have been made, and is not repeated.
    fixture.payments.credits().top_up(&credit.id, PRICE, None).await.unwrap();
    for fault in [Fault::After, Fault::Lost] {
        let admission = fixture.run(by_credit(&credit.token, None)).await;
        let id = admission.id().clone();
        store.fail_nth(1, fault);
        assert!(matches!(fixture.settle(admission).await, Err(SettleError::Unknown { payment }) if payment == id));
        assert_eq!(fixture.state(&id).await, (fault == Fault::After).then_some(PaymentState::Settled));
    }
}

#[test]
fn only_a_call_on_credit_that_has_no_name_is_given_one() {
    let named = |mut offered: OfferedPayment| {
        offered.name(|| "given".to_owned());
        match offered {
            OfferedPayment::Credit(credit) => credit.idempotency_key,
            OfferedPayment::Nothing | OfferedPayment::X402 { .. } => None,
        }
    };
    let on_credit = |key: Option<&str>| {
        OfferedPayment::Credit(CreditOffer { token: String::new(), idempotency_key: key.map(str::to_owned), observer: None })
    };
    assert_eq!(named(on_credit(None)).as_deref(), Some("given"));
    assert_eq!(named(on_credit(Some("own"))).as_deref(), Some("own"));
    assert_eq!(named(Payer::new(1).pays(1)), None);
    let repeatable =
        [on_credit(None), on_credit(Some("own")), Payer::new(1).pays(1), OfferedPayment::Nothing].map(|offered| offered.repeatable());
    assert_eq!(repeatable, [false, true, true, false]);
}
