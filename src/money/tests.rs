//! A gate with a simulated ledger, and payers with their own keys.

mod alarms;
mod answers;
mod budget;
mod chain;
mod crash;
mod credit;
mod decisions;
mod eip712;
mod evm;
mod faults;
mod fuzz;
mod gate;
mod interrupted;
mod large;
mod ledger;
mod left;
mod money_kind;
mod moody;
mod networks;
mod node;
mod open;
mod reads;
mod reconcile;
mod refund;
mod remote;
mod replicas;
mod retention;
mod routes;
mod sales;
mod simulated;
mod streamed;
mod unpaid;
mod unresolved;
mod upfront;
mod upto;
mod wire;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy_primitives::Address;
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{CallId, CreditId, ReceiptId},
};
use tollhouse_event::{EventSettings, Events};
use tollhouse_objects::{BucketLocation, ObjectLayout as Bucket, Objects};
use tollhouse_replica::Replica;
use tollhouse_store::{
    Batch, Direction, Durability, KeyRange, Space, Store, StoreError, Value as _, Write, memory::MemoryStore, test_wrappers::StoreWrapper,
};
use tollhouse_tool::{MicroUsd, Owner, SettleTime, UsdChange};

use self::{
    interrupted::Interrupted,
    moody::{FacilitatorMood, MoodyFacilitator},
};
use super::{
    asset::ASSETS,
    facilitator::kind::simulated::SimulatedFacilitator,
    receipt::{self, ReceiptSigner},
    sale::Sales,
    x402::{eip3009::Transfer, offer::ShownPayment, permit2::Permit, signed::Order},
    *,
};
use crate::{ReceiptContext, ReceiptFinisher};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const PRICE: MicroUsd = MicroUsd(10_000);
/// Initial balance of the test's payers.
const FUNDS: MicroUsd = MicroUsd(1_000_000);
const REQUEST: &str = "the hash of a request";
const ANSWER: &[u8] = b"{\"answer\":42}";

impl OfferedX402 {
    /// Returns the signed transfer and its signature, if the payer signed one.
    pub(crate) fn transfer(&self) -> Option<(Transfer, &str)> {
        match self.order()? {
            (Order::Transfer(transfer), signature) => Some((transfer, signature)),
            (Order::Permit(_), _) => None,
        }
    }

    /// Returns the signed permit and its signature, if the payer signed one.
    pub(crate) fn permit(&self) -> Option<(Permit, &str)> {
        match self.order()? {
            (Order::Permit(permit), signature) => Some((permit, signature)),
            (Order::Transfer(_), _) => None,
        }
    }
}

/// A payer with a key.
pub(super) struct Payer(SigningKey);

impl Payer {
    pub(super) fn new(seed: u8) -> Self {
        Self(SigningKey::from_slice(&[seed; 32]).unwrap())
    }

    fn address(&self) -> String {
        Address::from_private_key(&self.0).to_checksum(None)
    }

    /// Returns an authorization of the price that is valid now.
    fn authorization(&self, nonce: u64) -> Authorization {
        Authorization {
            from: self.address(),
            to: PAY_TO.to_owned(),
            value: PRICE.0.to_string(),
            valid_after: "0".to_owned(),
            valid_before: (NOW.as_secs() + 300).to_string(),
            nonce: format!("0x{nonce:064x}"),
        }
    }

    fn sign(&self, authorization: &Authorization) -> String {
        let hash = Transfer::parse(authorization).unwrap().signing_hash(&ASSETS[0]);
        let (signature, recovery) = self.0.sign_prehash_recoverable(hash.as_slice()).unwrap();
        format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte())
    }

    /// Returns an authorization that is valid for `millis` from now on.
    fn valid_for(&self, nonce: u64, millis: u64) -> Authorization {
        Authorization { valid_before: NOW.plus_millis(millis).as_secs().to_string(), ..self.authorization(nonce) }
    }

    /// Returns a payment as a stock v2 client makes it.
    fn payload(&self, authorization: &Authorization) -> Value {
        json!({
            "x402Version": 2,
            "resource": { "url": terms().resource_url, "description": "Adds", "mimeType": "application/json" },
            "accepted": requirements(),
            "payload": { "signature": self.sign(authorization), "authorization": authorization },
        })
    }

    /// Returns a payment as a stock v1 client makes it.
    fn payload_v1(&self, authorization: &Authorization) -> Value {
        json!({
            "x402Version": 1,
            "scheme": "exact",
            "network": "base-sepolia",
            "payload": { "signature": self.sign(authorization), "authorization": authorization },
        })
    }

    fn pays(&self, nonce: u64) -> OfferedPayment {
        offer(&self.payload(&self.authorization(nonce)))
    }

    /// Returns a payment with the client's own id.
    fn pays_as(&self, nonce: u64, name: &str) -> OfferedPayment {
        let mut payload = self.payload(&self.authorization(nonce));
        payload["extensions"] = json!({ "payment-identifier": { "info": { "required": false, "id": name } } });
        offer(&payload)
    }

    /// Returns the payment as a facilitator sees it.
    pub(super) fn payment(&self, nonce: u64) -> OfferedX402 {
        decode(&self.payload(&self.authorization(nonce))).unwrap()
    }
}

fn offer(payload: &Value) -> OfferedPayment {
    OfferedPayment::X402 { version: WireVersion::V2, header: STANDARD.encode(payload.to_string()) }
}

fn decode(payload: &Value) -> Result<OfferedX402, Refusal> {
    shown(WireVersion::V2, &STANDARD.encode(payload.to_string()), &terms(), &config())
}

fn shown(version: WireVersion, header: &str, terms: &CallTerms, config: &PaymentConfig) -> Result<OfferedX402, Refusal> {
    ShownPayment::decode(version, header)?.matching(terms, accepts(config, terms, version))
}

/// Returns the requirements of a challenge, independent of the facilitator.
fn accepts(config: &PaymentConfig, terms: &CallTerms, version: WireVersion) -> Vec<Value> {
    let extra = |asset: &Asset| json!({ "name": asset.name, "version": asset.version });
    config.accepted.iter().map(|accepted| accepted.requirements(terms, version, &extra(accepted.asset))).collect()
}

/// Returns the only way to pay.
fn requirements() -> Value {
    accepts(&config(), &terms(), WireVersion::V2).remove(0)
}

fn config() -> PaymentConfig {
    PaymentConfig::for_network("eip155:84532", PAY_TO).unwrap()
}

pub(crate) fn terms() -> CallTerms {
    CallTerms {
        slug: "sum-up".parse().unwrap(),
        endpoint_id: "ep_01J00000000000000000000000".parse().unwrap(),
        owner: Owner::Platform,
        version: "v".repeat(64),
        resource_url: "https://tools.example/tools/sum-up".to_owned(),
        description: "Adds numbers".to_owned(),
        price: PRICE,
        metered: false,
        accepts: Vec::new(),
        settle: SettleTime::After,
        input_schema: Arc::new(json!({ "type": "object", "properties": { "a": { "type": "number", "default": 1 } } })),
        output_schema: Arc::new(json!({ "type": "object" })),
        tags: vec!["maths".to_owned()],
        wall: Duration::from_secs(10),
        timeout_secs: 60,
        offers: SignedOffers::default(),
    }
}

fn draft() -> Vec<u8> {
    let receipt = receipt::ReceiptDraft {
        receipt_id: ReceiptId::generate(),
        slug: terms().slug,
        endpoint_id: terms().endpoint_id,
        version: terms().version,
        price_usd: PRICE,
        quote_id: None,
        max_price_usd: None,
        owner: false,
        resource_url: terms().resource_url,
        request_hash: REQUEST.to_owned(),
        result_hash: receipt::bytes_hash(ANSWER),
        streamed: false,
        settle: SettleTime::After,
        started_at: NOW,
        issued_at: NOW,
    };
    ReceiptFinisher::encode(&ReceiptContext {
        receipt,
        call: CallId::generate(),
        owner: Owner::Platform,
        fee: MicroUsd::ZERO,
        registered: None,
    })
}

/// Returns a settlement of [`MoodyFacilitator`] that begins now.
fn started_settlement() -> StartedSettlement {
    StartedSettlement { at: NOW, facilitator: Some("moody".to_owned()), transaction: None }
}

fn answer(body: &[u8]) -> StoredAnswer {
    StoredAnswer { status: 200, headers: vec![], body: Bytes::copy_from_slice(body), receipt_id: String::new(), settlement: None }
}

/// A gate with its dependencies.
struct Fixture {
    store: Arc<dyn Store>,
    clock: Clock,
    ledger: Arc<Ledger>,
    facilitator: Arc<MoodyFacilitator>,
    signer: Arc<ReceiptSigner>,
    replica: Arc<Replica>,
    payments: Arc<Payments>,
    /// In a folder, which survives restarts.
    objects: Arc<Objects>,
    _folder: Arc<tempfile::TempDir>,
}

impl Fixture {
    /// Constructs a gate over an empty store, and payers 1 to 3 with money.
    async fn new() -> Self {
        let fixture = Self::over(Arc::new(MemoryStore::new()));
        fixture.fund().await;
        fixture
    }

    fn over(store: Arc<dyn Store>) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
        Self::assemble(config(), store, Clock::fixed(NOW), signer, folder)
    }

    /// Restarts on the same store: memory is lost, and no destructor of a call has run.
    fn restarted(&self) -> Self {
        self.restarted_over(Arc::clone(&self.store))
    }

    fn restarted_over(&self, store: Arc<dyn Store>) -> Self {
        Self::assemble(config(), store, self.clock.clone(), Arc::clone(&self.signer), Arc::clone(&self._folder))
    }

    fn assemble(
        config: PaymentConfig,
        store: Arc<dyn Store>,
        clock: Clock,
        signer: Arc<ReceiptSigner>,
        folder: Arc<tempfile::TempDir>,
    ) -> Self {
        let ledger = Arc::new(Ledger::new(Arc::clone(&store), config.first().asset));
        let inner = SimulatedFacilitator::new(Arc::clone(&ledger), clock.clone());
        let (verified, settled, mood) = (AtomicUsize::default(), AtomicUsize::default(), Mutex::new(FacilitatorMood::Honest));
        let (identity, deaf, spent) = (Mutex::new("moody"), Mutex::default(), AtomicBool::default());
        let (burned, used, contracts) = (Mutex::default(), Mutex::default(), AtomicBool::default());
        let facilitator = Arc::new(MoodyFacilitator { inner, mood, verified, settled, identity, deaf, spent, burned, used, contracts });
        let events = Arc::new(Events::new(Arc::clone(&store), clock.clone(), EventSettings::default()));
        let replica = Replica::new(Arc::clone(&store));
        let finisher = Arc::new(ReceiptFinisher::new(Arc::clone(&signer), true, events, Sales::new(Arc::clone(&store))));
        let bucket = Bucket::at(&BucketLocation::Folder(folder.path().join("objects"))).unwrap();
        let objects = Objects::new(Arc::clone(&store), clock.clone(), Arc::new(bucket));
        let (others, apart) = (Arc::clone(&replica), Arc::clone(&objects));
        let payments = Payments::new(Arc::clone(&store), Arc::clone(&facilitator), clock.clone(), config, finisher, others, apart);
        Self { store, clock, ledger, facilitator, signer, replica, payments, objects, _folder: folder }
    }

    /// Returns a gate over the same store, which settles with this facilitator and not with play money.
    fn settling_with(&self, facilitator: impl Facilitator) -> Arc<Payments> {
        let events = Arc::new(Events::new(Arc::clone(&self.store), self.clock.clone(), EventSettings::default()));
        let finisher = Arc::new(ReceiptFinisher::new(Arc::clone(&self.signer), false, events, Sales::new(Arc::clone(&self.store))));
        let (replica, objects) = (Replica::new(Arc::clone(&self.store)), Arc::clone(&self.objects));
        Payments::new(Arc::clone(&self.store), Arc::new(facilitator), self.clock.clone(), config(), finisher, replica, objects)
    }

    async fn fund(&self) {
        for seed in 1..=3 {
            self.ledger.faucet(&Payer::new(seed).address(), FUNDS).await.unwrap();
        }
    }

    async fn admit(&self, offered: OfferedPayment) -> Result<Admit, Refusal> {
        self.payments.admit(&terms(), offered, REQUEST).await
    }

    async fn run(&self, offered: OfferedPayment) -> Admission {
        run(self.admit(offered).await)
    }

    async fn settle(&self, admission: Admission) -> Result<StoredAnswer, SettleError> {
        self.payments.settle(admission, answer(ANSWER), &draft()).await
    }

    /// Pays and settles.
    async fn buy(&self, offered: OfferedPayment) -> StoredAnswer {
        let admission = self.run(offered).await;
        self.settle(admission).await.unwrap()
    }

    async fn state(&self, id: &PaymentId) -> Option<PaymentState> {
        self.payments.state(id).await.unwrap().map(|state| state.state)
    }

    async fn balance(&self, address: &str) -> u64 {
        self.ledger.balance(address).await.unwrap().0
    }

    /// Returns the host's earnings.
    async fn earned(&self) -> u64 {
        self.balance(PAY_TO).await
    }

    async fn all(&self, space: Space) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.store.scan(space, KeyRange::prefix(b""), 10_000, Direction::Forward).await.unwrap()
    }

    /// Returns every receipt after verifying it as a stranger would.
    async fn receipts(&self) -> Vec<receipt::UnsignedReceipt> {
        let stored = self.all(Space::Receipts).await;
        let verify = |bytes: &[u8]| receipt::verify(&self.signer.present(bytes).unwrap(), &self.signer.jwks()).unwrap().record;
        stored.iter().map(|(_, bytes)| verify(&receipt::StoredReceipt::of_bytes(bytes).unwrap().json)).collect()
    }

    /// Waits until releases started by drops are done.
    async fn until(&self, id: &PaymentId, state: PaymentState) {
        let reached = async {
            while self.state(id).await != Some(state) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), reached).await.unwrap();
    }
}

fn run(admit: Result<Admit, Refusal>) -> Admission {
    match admit {
        Ok(Admit::Run(admission)) => admission,
        other => panic!("not admitted to a run: {}", what(&other)),
    }
}

fn stored(admit: Result<Admit, Refusal>) -> StoredAnswer {
    match admit {
        Ok(Admit::Seen(SeenPayment::Stored(_, answer))) => answer,
        other => panic!("no stored answer: {}", what(&other)),
    }
}

/// Returns the code of a refusal.
fn code(admit: Result<Admit, Refusal>) -> String {
    match admit {
        Err(Refusal::Invalid { reason, .. }) => reason,
        other => panic!("not refused with a code: {}", what(&other)),
    }
}

fn what(admit: &Result<Admit, Refusal>) -> String {
    match admit {
        Ok(Admit::Run(admission)) => format!("run {}", admission.id()),
        Ok(Admit::Seen(SeenPayment::Stored(id, _))) => format!("stored {id}"),
        Ok(Admit::Seen(SeenPayment::InFlight(id))) => format!("in flight {id}"),
        Ok(Admit::Seen(SeenPayment::Owed(owed))) => format!("owed {}", owed.payment()),
        Err(refusal) => format!("{refusal:?}"),
    }
}
