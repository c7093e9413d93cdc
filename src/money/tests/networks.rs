//! A host that is paid on several networks, in several tokens.

use super::*;
use crate::{
    network::{ARBITRUM, BASE, CELO, SOLANA},
    x402::svm::tests::{FEE_PAYER, PAY_TO as SOLANA_PAY_TO, PAYER, VERSION_0},
};

/// A facilitator that settles every payment on one network, and counts.
struct Willing {
    fee_payer: Option<&'static str>,
    verified: AtomicUsize,
    settled: AtomicUsize,
    unsure: bool,
}

impl Willing {
    fn new(fee_payer: Option<&'static str>) -> Arc<Self> {
        Arc::new(Self { fee_payer, verified: AtomicUsize::new(0), settled: AtomicUsize::new(0), unsure: false })
    }

    fn request_counts(&self) -> (usize, usize) {
        (self.verified.load(Ordering::SeqCst), self.settled.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Facilitator for Willing {
    async fn verify(&self, _payment: &OfferedX402) -> VerifyResult {
        self.verified.fetch_add(1, Ordering::SeqCst);
        VerifyResult::Valid
    }

    async fn settle(&self, payment: &OfferedX402, _begun: &StartedSettlement) -> SettleOutcome {
        self.settled.fetch_add(1, Ordering::SeqCst);
        if self.unsure {
            return SettleOutcome::Unknown("a test".to_owned());
        }
        SettleOutcome::Settled(super::super::facilitator::settlement(payment, format!("moved by {}", payment.id())))
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        self.settle(payment, started).await
    }

    fn name(&self) -> &'static str {
        "willing"
    }

    fn fee_payer(&self, _network: &Network) -> Option<String> {
        self.fee_payer.map(str::to_owned)
    }

    fn status(&self) -> Option<Value> {
        self.fee_payer.map(|payer| json!({ "feePayer": payer }))
    }
}

fn several() -> PaymentConfig {
    let taken = [
        ("base", None, PAY_TO),
        ("celo", None, PAY_TO),
        ("celo", Some("USDT"), PAY_TO),
        ("arbitrum", None, PAY_TO),
        ("solana", None, SOLANA_PAY_TO),
    ];
    let accepted = taken.map(|(network, asset, pay_to)| AcceptedToken::new(network, asset, pay_to).unwrap());
    PaymentConfig { accepted: accepted.into(), ..config() }
}

/// A gate with a facilitator for Base, one for Celo and one for Solana; none for Arbitrum.
struct Several {
    payments: Arc<Payments>,
    base: Arc<Willing>,
    celo: Arc<Willing>,
    solana: Arc<Willing>,
}

impl Several {
    fn over(store: Arc<dyn Store>, solana: Arc<Willing>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (base, celo) = (Willing::new(None), Willing::new(None));
        let clock = Clock::fixed(NOW);
        let events = Arc::new(Events::new(Arc::clone(&store), clock.clone(), EventSettings::default()));
        let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
        let finisher = Arc::new(ReceiptFinisher::new(signer, false, events, Sales::new(Arc::clone(&store))));
        let each: [(_, Arc<dyn Facilitator>); 3] =
            [(&BASE, Arc::clone(&base) as _), (&CELO, Arc::clone(&celo) as _), (&SOLANA, Arc::clone(&solana) as _)];
        let facilitators: Facilitators = each.into_iter().collect();
        let replica = Replica::new(Arc::clone(&store));
        let objects = Objects::in_folder(Arc::clone(&store), folder.path());
        Self { payments: Payments::new(store, facilitators, clock, several(), finisher, replica, objects), base, celo, solana }
    }

    fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new()), Willing::new(Some(FEE_PAYER)))
    }

    /// Returns the entry of the challenge for a token.
    fn entry(&self, terms: &CallTerms, version: WireVersion, network: &Network, symbol: &str) -> Value {
        let asset = Asset::named(network, symbol).unwrap();
        let name = if version == WireVersion::V2 { network.caip2 } else { network.name };
        let mut entries = self.payments.accepts(terms, version).into_iter();
        entries.find(|entry| entry["network"] == name && entry["asset"] == asset.address).unwrap()
    }

    async fn admit(&self, version: WireVersion, payload: &Value) -> Result<Admit, Refusal> {
        self.payments.admit(&terms(), OfferedPayment::X402 { version, header: payload.to_string() }, REQUEST).await
    }

    async fn buy(&self, version: WireVersion, payload: &Value) -> Result<StoredAnswer, SettleError> {
        let admission = run(self.admit(version, payload).await);
        self.payments.settle(admission, answer(ANSWER), &draft()).await
    }
}

fn signed(payer: &Payer, asset: &Asset, authorization: &Authorization) -> Value {
    let hash = Transfer::parse(authorization).unwrap().signing_hash(asset);
    let (signature, recovery) = payer.0.sign_prehash_recoverable(hash.as_slice()).unwrap();
    let signature = format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte());
    json!({ "signature": signature, "authorization": authorization })
}

fn v2(accepted: &Value, payload: Value) -> Value {
    json!({ "x402Version": 2, "accepted": accepted, "payload": payload })
}

fn on_solana(host: &Several) -> Value {
    v2(&host.entry(&terms(), WireVersion::V2, &SOLANA, "USDC"), json!({ "transaction": VERSION_0 }))
}

fn networks(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["network"].as_str().unwrap()).collect()
}

#[test]
fn challenge_lists_accepted_payments_in_the_order_of_the_settings() {
    let host = Several::new();
    let (v1, v2) = (host.payments.accepts(&terms(), WireVersion::V1), host.payments.accepts(&terms(), WireVersion::V2));
    assert_eq!(networks(&v2), [BASE.caip2, CELO.caip2, CELO.caip2, ARBITRUM.caip2, SOLANA.caip2]);
    // V1 clients throw at names that they do not know.
    assert_eq!(networks(&v1), ["base", "solana"]);
    assert_eq!(v2[4]["extra"], json!({ "feePayer": FEE_PAYER }));
    assert_eq!((&v2[4]["payTo"], &v1[1]["payTo"]), (&json!(SOLANA_PAY_TO), &json!(SOLANA_PAY_TO)));
    assert_eq!(v2[2]["extra"], json!({ "name": "Tether USD", "version": "1" }));
    let challenge = host.payments.challenge(&terms(), EntryMethod::Post, "payment required");
    assert_eq!((&challenge.v2["accepts"], &challenge.v1["accepts"]), (&json!(v2), &json!(v1)));
}

#[test]
fn solana_is_not_offered_without_a_fee_payer_or_for_slow_tools() {
    let silent = Several::over(Arc::new(MemoryStore::new()), Willing::new(None));
    assert!(!networks(&silent.payments.accepts(&terms(), WireVersion::V2)).contains(&SOLANA.caip2));
    let slow = CallTerms { wall: Duration::from_secs(31), ..terms() };
    assert_eq!(networks(&Several::new().payments.accepts(&slow, WireVersion::V2)).len(), 4);
    // Without facilitators, nobody completes transactions or settles metered charges.
    let nobody: Facilitators = std::iter::empty().collect();
    assert_eq!(several().accepts(&nobody, &terms(), WireVersion::V2).len(), 4);
    assert!(several().accepts(&nobody, &CallTerms { metered: true, ..terms() }, WireVersion::V2).is_empty());
}

#[test]
fn each_payment_method_is_described_with_its_facilitator() {
    let described = Several::new().payments.describe();
    let listed: Vec<_> =
        described["accepts"].as_array().unwrap().iter().map(|method| [&method["network"], &method["facilitator"]]).collect();
    let settle = |network: &Network, name: &str| [json!(network.caip2), json!(name)];
    let willing = [&BASE, &CELO, &CELO].map(|network| settle(network, "willing"));
    assert_eq!(json!(listed), json!([&willing[..], &[settle(&ARBITRUM, "none"), settle(&SOLANA, "willing")]].concat()));
    assert_eq!(described["schemes"], json!(["exact"]), "no facilitator settles a charge");
}

#[test]
fn operators_see_how_each_facilitator_fares() {
    let payments = Several::new().payments;
    let (quiet, reported) = (json!({ "facilitator": "willing", "status": null }), json!({ "feePayer": FEE_PAYER }));
    let each = json!({ (BASE.caip2): quiet, (CELO.caip2): quiet, (SOLANA.caip2): { "facilitator": "willing", "status": reported } });
    assert_eq!((payments.facilitators().status(), payments.facilitators().statuses()), (Some(reported), each));
}

#[test]
fn builder_can_accept_a_subset_of_the_hosts_assets() {
    let host = Several::new();
    let describe = |accepts: &[&str]| {
        let terms = CallTerms { accepts: accepts.iter().map(ToString::to_string).collect(), ..terms() };
        host.payments.accepts(&terms, WireVersion::V2).iter().map(|entry| entry["asset"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let address = |network: &Network, symbol: &str| Asset::named(network, symbol).unwrap().address.to_owned();
    assert_eq!(describe(&["celo", "eip155:8453/USDC"]), [address(&BASE, "USDC"), address(&CELO, "USDC"), address(&CELO, "USDT")]);
    assert_eq!(describe(&["eip155:42220/usdt"]), [address(&CELO, "USDT")]);
    // Payouts cannot use networks that the host no longer accepts.
    assert_eq!(describe(&["eip155:137"]), Vec::<String>::new());
    let config = several();
    assert!(["base", "eip155:8453", "base/USDC", "celo/USDT", "solana"].into_iter().all(|entry| config.takes(entry)));
    assert!(
        ["", "base/", "base/USDT", "bas", "base-sepolia", "eip155:845", "eip155:84532", "/USDC"]
            .into_iter()
            .all(|entry| !config.takes(entry))
    );
}

#[tokio::test]
async fn a_payment_settles_with_the_facilitator_of_its_network() {
    let (host, payer) = (Several::new(), Payer::new(1));
    let celo = host.entry(&terms(), WireVersion::V2, &CELO, "USDT");
    let usdt = Asset::named(&CELO, "USDT").unwrap();
    let bought = host.buy(WireVersion::V2, &v2(&celo, signed(&payer, usdt, &payer.authorization(1)))).await.unwrap();
    assert_eq!((host.base.request_counts(), host.celo.request_counts()), ((0, 0), (1, 1)));
    let reported: Value = serde_json::from_str(&bought.settlement.unwrap().body).unwrap();
    assert_eq!(reported["network"], CELO.caip2);
    // There is no facilitator for it.
    let arbitrum = host.entry(&terms(), WireVersion::V2, &ARBITRUM, "USDC");
    let usdc = Asset::named(&ARBITRUM, "USDC").unwrap();
    let refused = host.admit(WireVersion::V2, &v2(&arbitrum, signed(&payer, usdc, &payer.authorization(1)))).await;
    assert!(matches!(refused, Err(Refusal::FacilitatorUnavailable(_))));
}

#[tokio::test]
async fn a_nonce_is_of_one_token_on_one_network() {
    let (host, payer) = (Several::new(), Payer::new(1));
    let mut ids = vec![];
    for (network, symbol) in [(&BASE, "USDC"), (&CELO, "USDC"), (&CELO, "USDT")] {
        let (entry, asset) = (host.entry(&terms(), WireVersion::V2, network, symbol), Asset::named(network, symbol).unwrap());
        let payload = v2(&entry, signed(&payer, asset, &payer.authorization(1)));
        ids.push(ShownPayment::decode(WireVersion::V2, &payload.to_string()).unwrap().known().unwrap().0.to_string());
        host.buy(WireVersion::V2, &payload).await.unwrap();
        assert!(matches!(host.admit(WireVersion::V2, &payload).await, Ok(Admit::Seen(SeenPayment::Stored(..)))), "{symbol} of {network:?}");
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

/// V1 names a network and no token. The signature determines the token.
#[tokio::test]
async fn a_payment_of_v1_moves_the_token_that_was_signed_for() {
    let payer = Payer::new(1);
    for symbol in ["USDC", "USDT"] {
        let asset = Asset::named(&CELO, symbol).unwrap();
        let payload = signed(&payer, asset, &payer.authorization(1));
        let shown = ShownPayment::decode(
            WireVersion::V1,
            &json!({ "x402Version": 1, "scheme": "exact", "network": "celo", "payload": payload }).to_string(),
        );
        let payment = shown.unwrap().matching(&terms(), accepts(&several(), &terms(), WireVersion::V1)).unwrap();
        assert_eq!((payment.asset, &payment.requirements["asset"]), (asset, &json!(asset.address)));
    }
}

#[tokio::test]
async fn a_transaction_of_solana_buys_one_run() {
    let host = Several::new();
    let payload = on_solana(&host);
    let bought = host.buy(WireVersion::V2, &payload).await.unwrap();
    let reported: Value = serde_json::from_str(&bought.settlement.unwrap().body).unwrap();
    assert_eq!((&reported["payer"], &reported["network"], &reported["amount"]), (&json!(PAYER), &json!(SOLANA.caip2), &json!("10000")));
    // A transaction that another fee payer completes is the same payment, because only unsigned parts differ.
    let mut completed = STANDARD.decode(VERSION_0).unwrap();
    completed[1..65].fill(9);
    let mut again = payload.clone();
    again["payload"]["transaction"] = json!(STANDARD.encode(completed));
    for payload in [&payload, &again] {
        assert!(matches!(host.admit(WireVersion::V2, payload).await, Ok(Admit::Seen(SeenPayment::Stored(..)))));
    }
    let v1 = json!({ "x402Version": 1, "scheme": "exact", "network": "solana", "payload": { "transaction": VERSION_0 } });
    assert!(matches!(host.admit(WireVersion::V1, &v1).await, Ok(Admit::Seen(SeenPayment::Stored(..)))));
    assert_eq!(host.solana.request_counts(), (1, 1));
}

#[tokio::test]
async fn solana_transaction_is_checked_against_price_and_token() {
    let host = Several::new();
    let terms = CallTerms { price: MicroUsd(PRICE.0 + 1), ..terms() };
    let dearer = v2(&host.entry(&terms, WireVersion::V2, &SOLANA, "USDC"), json!({ "transaction": VERSION_0 }));
    let refused = host.payments.admit(&terms, OfferedPayment::X402 { version: WireVersion::V2, header: dearer.to_string() }, REQUEST).await;
    assert_eq!(code(refused), "invalid_exact_svm_payload_transaction_amount_mismatch");
    let mut elsewhere = on_solana(&host);
    elsewhere["accepted"]["extra"]["feePayer"] = json!(SOLANA_PAY_TO);
    assert_eq!(code(host.admit(WireVersion::V2, &elsewhere).await), "invalid_payment_requirements");
    let mut unsigned = on_solana(&host);
    let mut bytes = STANDARD.decode(VERSION_0).unwrap();
    bytes[65..129].fill(0);
    unsigned["payload"]["transaction"] = json!(STANDARD.encode(bytes));
    assert_eq!(code(host.admit(WireVersion::V2, &unsigned).await), "invalid_payload");
    assert_eq!(host.solana.request_counts(), (0, 0));
}

/// Only its facilitator knows how it ended. It is asked again with the same transaction, even after a restart.
#[tokio::test]
async fn open_solana_settlement_is_queried_at_its_facilitator() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let unsure =
        Arc::new(Willing { unsure: true, fee_payer: Some(FEE_PAYER), verified: AtomicUsize::new(0), settled: AtomicUsize::new(0) });
    let host = Several::over(Arc::clone(&store), unsure);
    let payload = on_solana(&host);
    let SettleError::Unknown { payment } = host.buy(WireVersion::V2, &payload).await.unwrap_err() else { panic!("it ended") };
    let restarted = Several::over(store, Willing::new(Some(FEE_PAYER)));
    restarted.payments.recover().await.unwrap();
    restarted.payments.tick().await.unwrap();
    assert_eq!(restarted.payments.state(&payment).await.unwrap().unwrap().state, PaymentState::Settled);
    assert_eq!(restarted.solana.request_counts(), (0, 1));
    assert!(matches!(restarted.admit(WireVersion::V2, &payload).await, Ok(Admit::Seen(SeenPayment::Stored(..)))));
}

/// A host that no longer accepts payments there leaves an unknown outcome open.
#[tokio::test]
async fn an_open_settlement_of_a_network_without_a_facilitator_stays_open() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let host = Several::over(
        Arc::clone(&store),
        Arc::new(Willing { unsure: true, fee_payer: Some(FEE_PAYER), verified: AtomicUsize::new(0), settled: AtomicUsize::new(0) }),
    );
    let SettleError::Unknown { payment } = host.buy(WireVersion::V2, &on_solana(&host)).await.unwrap_err() else { panic!("it ended") };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::fixed(NOW);
    let events = Arc::new(Events::new(Arc::clone(&store), clock.clone(), EventSettings::default()));
    let finisher =
        ReceiptFinisher::new(Arc::new(ReceiptSigner::open(folder.path()).unwrap()), false, events, Sales::new(Arc::clone(&store)));
    let base: (_, Arc<dyn Facilitator>) = (&BASE, Willing::new(None));
    let replica = Replica::new(Arc::clone(&store));
    let objects = Objects::in_folder(Arc::clone(&store), folder.path());
    let payments =
        Payments::new(store, [base].into_iter().collect::<Facilitators>(), clock, config(), Arc::new(finisher), replica, objects);
    payments.recover().await.unwrap();
    payments.tick().await.unwrap();
    assert_eq!(payments.state(&payment).await.unwrap().unwrap().state, PaymentState::Settling);
}

/// Play money of every token is counted separately in micro-dollars, whatever its decimals are.
#[tokio::test]
async fn balances_of_different_tokens_do_not_mix() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (usdc, usdt) = (Asset::named(&CELO, "USDC").unwrap(), Asset::named(&CELO, "USDT").unwrap());
    let ledger = Ledger::new(Arc::clone(&store), usdc);
    let address = Payer::new(1).address();
    ledger.faucet_of(usdt, &address, FUNDS).await.unwrap();
    let has = async |asset: &Asset| ledger.balance_of(asset, &address).await.unwrap();
    assert_eq!([has(usdc).await, has(usdt).await, has(&ASSETS[0]).await], [MicroUsd(0), FUNDS, MicroUsd(0)]);
    assert_eq!(ledger.balance(&address).await.unwrap(), MicroUsd(0));
    ledger.faucet_of(usdc, &address, FUNDS).await.unwrap();
    let address = address.to_lowercase();
    for asset in [usdc, usdt] {
        let key = format!("{}/{}/{address}", CELO.caip2, asset.address.to_lowercase());
        assert!(store.get(Space::LedgerBalances, key.as_bytes()).await.unwrap().is_some(), "{key}");
    }
}
