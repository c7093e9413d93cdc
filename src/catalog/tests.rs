mod deletion;
mod follow;
mod fuzz;
mod misfit;
mod owned;
mod ready;
mod schedules;
mod snapshot;
mod source;

use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;
use tollhouse_account::first_key::FirstKeys;
use tollhouse_api::ReviewVerdict;
use tollhouse_base::{clock::Timestamp, cpu_share::CpuShares, id::BuilderId};
use tollhouse_capability::{Guard, GuardSettings, LogSettings, secret::Secrets};
use tollhouse_event::EventSettings;
use tollhouse_objects as objects;
use tollhouse_pool::PoolConfig;
use tollhouse_replica::Replica;
use tollhouse_store::{Batch, memory::MemoryStore};
use tollhouse_tool as tool;

use super::*;

/// Creates a catalog that needs no worker: its tools have fixed answers and accept any input.
async fn catalog() -> (Arc<Catalog>, tempfile::TempDir) {
    catalog_of(Arc::new(MemoryStore::new())).await
}

/// The same with an existing store.
async fn catalog_of(store: Arc<dyn Store>) -> (Arc<Catalog>, tempfile::TempDir) {
    catalog_with(store, CatalogCapacity::default()).await
}

/// The same with a size limit.
async fn catalog_with(store: Arc<dyn Store>, room: CatalogCapacity) -> (Arc<Catalog>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (catalog_in(&folder, store, room).await, folder)
}

fn bucket_in(folder: &tempfile::TempDir) -> objects::ObjectLayout {
    objects::ObjectLayout::at(&objects::BucketLocation::Folder(folder.path().join("objects"))).unwrap()
}

/// A folder that all hosts share.
struct Everywhere(objects::ObjectLayout);

#[async_trait::async_trait]
impl objects::Bucket for Everywhere {
    async fn put(&self, name: &str, content: bytes::Bytes) -> std::io::Result<()> {
        self.0.put(name, content).await
    }

    async fn get(&self, name: &str) -> std::io::Result<Option<bytes::Bytes>> {
        self.0.get(name).await
    }

    async fn delete(&self, name: &str) -> std::io::Result<()> {
        self.0.delete(name).await
    }

    fn is_everywhere(&self) -> bool {
        true
    }
}

/// The same with objects in this folder.
async fn catalog_in(folder: &tempfile::TempDir, store: Arc<dyn Store>, room: CatalogCapacity) -> Arc<Catalog> {
    catalog_on(Arc::new(Everywhere(bucket_in(folder))), store, room).await
}

/// The same with objects in this bucket.
async fn catalog_on(bucket: Arc<dyn objects::Bucket>, store: Arc<dyn Store>, room: CatalogCapacity) -> Arc<Catalog> {
    let clock = Clock::fixed(Timestamp(1_800_000_000_000));
    let guard = Guard::new(GuardSettings::default()).unwrap();
    let objects = Objects::new(Arc::clone(&store), clock.clone(), bucket);
    let (secrets, logs) = (Arc::new(Secrets::empty(Arc::clone(&store))), LogSettings::default());
    let (of_files, others) = (Arc::clone(&objects), Replica::new(Arc::new(MemoryStore::new())));
    let parts = CatalogParts {
        clock: clock.clone(),
        pool: Pool::start(PoolConfig { spares: 0, ..PoolConfig::new("/bin/false") }).unwrap(),
        services: CapabilityServices::new(Arc::clone(&store), clock.clone(), guard, of_files, logs, secrets, others),
        events: Arc::new(Events::new(Arc::clone(&store), clock.clone(), EventSettings::default())),
        scanner: Arc::new(Scanner::new(&Default::default())),
        builders: Arc::new(Builders::new(Arc::clone(&store), clock.clone(), FirstKeys::of_tests())),
        base_url: "https://tools.example".to_owned(),
        payment: PaymentConfig::for_network("eip155:84532", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C").unwrap(),
        make_form: Box::new(|_| None),
        room,
        objects,
    };
    Arc::new(Catalog::open(store, parts).await.unwrap())
}

fn draft(slug: &str) -> Draft {
    let draft = serde_json::from_value(json!({
        "slug": slug, "title": "A tool", "description": "Answers.", "handlerType": "static_json", "inputSchema": {},
        "handler": { "response": { "a": 1 } }, "safetyAttestation": { "accepted": true },
    }));
    draft.unwrap()
}

fn patch(body: serde_json::Value) -> Patch {
    serde_json::from_value(body).unwrap()
}

fn builder() -> Owner {
    Owner::Builder(BuilderId::generate())
}

/// Keeps an owner's scans busy as long as the value lives.
async fn slow_scans(catalog: &Catalog, owner: &Owner) -> Vec<tollhouse_fair::FairPermit<Owner>> {
    futures_util::future::join_all((0..MAX_UPLOAD_READS / 2).map(|_| catalog.reads.turn(owner.clone()))).await
}

#[tokio::test]
async fn price_below_the_gas_that_the_host_pays_for_its_settlement_causes_a_warning() {
    let (mut catalog, _folder) = catalog().await;
    let network = catalog.parts.payment.first().asset.network;
    let warned = |catalog: &Catalog, endpoint: &Endpoint| catalog.price_warnings(endpoint).len();
    let mut endpoint = catalog.create(draft("cheap"), builder(), ChangedBy::Builder).await.unwrap().endpoint.clone();
    endpoint.price_usd = tool::MicroUsd(999);
    assert_eq!(warned(&catalog, &endpoint), 0, "somebody else pays the gas");
    Arc::get_mut(&mut catalog).unwrap().parts.payment.least_settlements = vec![(network, tool::MicroUsd(1_000))];
    let reported = catalog.price_warnings(&endpoint);
    assert!(reported.len() == 1 && reported[0].contains("below 0.001 USD") && reported[0].contains(network.name), "{reported:?}");
    for (price, max, warnings) in [(1_000, 0, 0), (0, 0, 0), (0, 999, 1), (1, 1_000, 0)] {
        (endpoint.price_usd, endpoint.max_price_usd) = (tool::MicroUsd(price), tool::MicroUsd(max));
        assert_eq!(warned(&catalog, &endpoint), warnings, "{price} {max}");
    }
}

#[tokio::test]
async fn types_of_bodies_and_request_headers_are_checked() {
    let (catalog, _folder) = catalog().await;
    let mut endpoint = catalog.create(draft("files"), builder(), ChangedBy::Builder).await.unwrap().endpoint.clone();
    let problem = |endpoint: &Endpoint, body: serde_json::Value| match patch(body)
        .apply(&mut endpoint.clone(), &tollhouse_protocol::Limits::ceilings())
    {
        Err(PublishError::Field { pointer, message }) => (pointer, message),
        other => (String::new(), format!("{other:?}")),
    };
    let many: Vec<_> = (0..17).map(|at| format!("text/x-{at}")).collect();
    let (at, message) = problem(&endpoint, json!({ "requestTypes": ["text/csv"] }));
    assert!(at == "/requestTypes" && message.contains("js_request_response"), "{at} {message}");
    endpoint.handler_type = tool::HandlerType::JsRequestResponse;
    for (body, pointer) in [
        (json!({ "requestTypes": ["text/csv", "image/*"], "requestHeaders": ["stripe-signature"] }), ""),
        (json!({ "requestTypes": ["text/csv", "application/json"] }), "/requestTypes/1"),
        (json!({ "requestTypes": many }), "/requestTypes"),
        (json!({ "requestHeaders": ["x-github-event", "authorization"] }), "/requestHeaders/1"),
        (json!({ "requestTypes": ["a/b"], "inputSchema": { "properties": { "body": {} } } }), "/inputSchema/properties/body"),
        (json!({ "inputSchema": { "properties": { "body": {} } } }), ""),
        (json!({ "requestTypes": ["a/b"], "inputSchema": { "allOf": [{ "properties": { "body": {} } }] } }), "/inputSchema"),
        (
            json!({ "requestTypes": ["a/b"], "inputSchema": { "anyOf": [{ "$ref": "#/$defs/A" }], "$defs": { "A": { "properties": { "body": {} } } } } }),
            "/inputSchema",
        ),
        (json!({ "requestTypes": ["a/b"], "inputSchema": { "allOf": [{ "properties": { "text": {} } }] } }), ""),
    ] {
        let (found, message) = problem(&endpoint, body.clone());
        assert_eq!(found, pointer, "{body}: {message}");
    }
}

#[tokio::test]
async fn slow_scan_does_not_delay_other_owners() {
    let (catalog, _folder) = catalog().await;
    let [slow, other] = [(); 2].map(|()| builder());
    catalog.create(draft("slow"), slow.clone(), ChangedBy::Builder).await.unwrap();
    let reading = slow_scans(&catalog, &slow).await;
    let mut create = Box::pin(catalog.create(draft("slow-too"), slow.clone(), ChangedBy::Builder));
    let mut change = Box::pin(catalog.update("slow", patch(json!({ "title": "Another" })), None, ChangedBy::Builder));
    let mut rescan = Box::pin(catalog.rescan());
    for _ in 0..64 {
        assert!((&mut create).now_or_never().is_none() && (&mut change).now_or_never().is_none());
        assert!((&mut rescan).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    // While these wait, another builder can publish and change, and so can an admin.
    catalog.create(draft("quick"), other, ChangedBy::Builder).await.unwrap();
    catalog.update("quick", patch(json!({ "title": "Quick" })), None, ChangedBy::Builder).await.unwrap();
    catalog.update("slow", patch(json!({ "status": "paused" })), None, ChangedBy::Admin).await.unwrap();
    assert!((&mut create).now_or_never().is_none() && (&mut change).now_or_never().is_none());
    drop(reading);
    let (created, changed, scanned) = tokio::join!(create, change, rescan);
    created.unwrap();
    let changed = changed.unwrap();
    assert_eq!((changed.endpoint.title.as_str(), changed.endpoint.status), ("Another", tool::Status::Paused), "made on top of it");
    assert_eq!(scanned.unwrap().endpoints, 1);
}

/// Regression: a builder who waited half a minute for others was charged for that time, and was
/// refused for minutes.
#[tokio::test]
async fn waiting_upload_is_not_billed_for_cpu() {
    let (catalog, _folder) = catalog().await;
    let owner = builder();
    let reading = slow_scans(&catalog, &owner).await;
    let turn = CpuShares::new(None).turn([127, 0, 0, 1].into(), Duration::ZERO).await.unwrap();
    let waits = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(reading);
    };
    let (created, ()) = tokio::join!(turn.during(catalog.create(draft("tool"), owner, ChangedBy::Builder)), waits);
    created.unwrap();
    assert!(!turn.total().is_zero() && turn.total() < Duration::from_secs(1), "{:?}", turn.total());
}

#[tokio::test]
async fn findings_are_weighed_when_the_upload_is_stored() {
    let (catalog, _folder) = catalog().await;
    let owner = builder();
    let reading = slow_scans(&catalog, &owner).await;
    let mut create = Box::pin(catalog.create(draft("tool"), owner.clone(), ChangedBy::Builder));
    for _ in 0..64 {
        assert!((&mut create).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    catalog.create(draft("tool"), builder(), ChangedBy::Builder).await.unwrap();
    let strict: PolicyDraft = serde_json::from_value(json!({ "requireReview": true })).unwrap();
    drop(reading);
    assert!(matches!(create.await, Err(PublishError::SlugTaken(_))));
    let reading = slow_scans(&catalog, &owner).await;
    let mut create = Box::pin(catalog.create(draft("second"), owner, ChangedBy::Builder));
    for _ in 0..64 {
        assert!((&mut create).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    catalog.set_policy(strict, None).await.unwrap();
    drop(reading);
    assert!(create.await.unwrap().endpoint.review.hold.is_some());
}

#[tokio::test]
async fn approved_version_sells_again_after_a_rollback() {
    let (catalog, _folder) = catalog().await;
    let strict: PolicyDraft = serde_json::from_value(json!({ "requireReview": true })).unwrap();
    catalog.set_policy(strict, None).await.unwrap();
    let decide = async |decision: &str| {
        let verdict: ReviewVerdict = serde_json::from_value(json!({ "decision": decision })).unwrap();
        catalog.decide("tool", &verdict, None).await.unwrap()
    };
    let change = async |body: serde_json::Value| catalog.update("tool", patch(body), None, ChangedBy::Builder).await.unwrap();
    let is_held = |live: &Arc<LiveEndpoint>| live.endpoint.review.hold.is_some();
    let first = catalog.create(draft("tool"), builder(), ChangedBy::Builder).await.unwrap().endpoint.version.clone();
    assert!(!is_held(&decide("approve").await));
    let second = change(json!({ "handler": { "response": { "a": 2 } } })).await;
    assert!(is_held(&second));
    assert!(!is_held(&change(json!({ "version": first })).await));
    // A title that nobody has approved keeps the approved handler waiting.
    assert!(is_held(&change(json!({ "version": second.endpoint.version, "title": "Another" })).await));
    assert!(is_held(&change(json!({ "version": first })).await));
    assert!(!is_held(&change(json!({ "title": "A tool" })).await));
    // A rejection is about the rejected content. Other new content still waits.
    change(json!({ "version": second.endpoint.version })).await;
    assert!(is_held(&decide("reject").await));
    assert!(!is_held(&change(json!({ "version": first })).await));
    assert!(is_held(&change(json!({ "handler": { "response": { "a": 3 } } })).await));
}

/// Records slugs as deleted by `owner`.
async fn deletes(catalog: &Catalog, owner: &Owner, slugs: usize) {
    let mut rows = Batch::new();
    (0..slugs).for_each(|number| _ = rows.put(&retired::RETIRED_OF, &(retired::owner_key(owner), format!("gone-{number}")), &()));
    rows.commit(&*catalog.store, Durability::Buffered).await.unwrap();
}

#[tokio::test]
async fn owner_with_many_deleted_slugs_must_reuse_one() {
    let (catalog, _folder) = catalog().await;
    let [many, other] = [(); 2].map(|()| builder());
    let create =
        async |slug, owner: &Owner, by| catalog.create(draft(slug), owner.clone(), by).await.map(|live| live.endpoint.owner.clone());
    deletes(&catalog, &many, retired::MAX_RETIRED - 1).await;
    create("last", &many, ChangedBy::Builder).await.unwrap();
    catalog.delete("last", None, ChangedBy::Builder).await.unwrap();
    assert!(matches!(create("another", &many, ChangedBy::Builder).await, Err(PublishError::TooManyRetired(retired::MAX_RETIRED))));
    create("another", &other, ChangedBy::Builder).await.unwrap();
    create("of-an-admin", &many, ChangedBy::Admin).await.unwrap();
    assert!(matches!(create("last", &other, ChangedBy::Builder).await, Err(PublishError::SlugTaken(_))));
    create("last", &many, ChangedBy::Builder).await.unwrap();
    create("third", &many, ChangedBy::Builder).await.unwrap();
    catalog.delete("third", None, ChangedBy::Builder).await.unwrap();
    assert!(matches!(create("fourth", &many, ChangedBy::Builder).await, Err(PublishError::TooManyRetired(_))));
    create("third", &other, ChangedBy::Admin).await.unwrap();
    create("fourth", &many, ChangedBy::Builder).await.unwrap();
}

#[tokio::test]
async fn source_has_an_owner_while_an_endpoint_uses_it() {
    let (catalog, _folder) = catalog().await;
    let owner = builder();
    let live = catalog.create(draft("tool"), owner.clone(), ChangedBy::Builder).await.unwrap();
    let version = &live.endpoint.version;
    scan::VERSION_OWNERS.put(version, &owner.share().to_owned()).commit(&*catalog.store, Durability::Buffered).await.unwrap();
    catalog.create(draft("copy"), builder(), ChangedBy::Builder).await.unwrap();
    let of = async || scan::VERSION_OWNERS.get(&*catalog.store, version).await.unwrap();
    catalog.delete("tool", None, ChangedBy::Builder).await.unwrap();
    assert_eq!(of().await.as_deref(), Some(owner.share()), "another has it yet");
    catalog.delete("copy", None, ChangedBy::Builder).await.unwrap();
    assert_eq!(of().await, None);
}

#[tokio::test]
async fn orders_and_counts_follow_every_change() {
    let (catalog, _folder) = catalog().await;
    let owner = builder();
    let create = async |slug: &str, price: f64| {
        let mut draft = draft(slug);
        draft.price_usd = tollhouse_tool::MicroUsd::from_usd(price).unwrap();
        catalog.create(draft, owner.clone(), ChangedBy::Admin).await.unwrap()
    };
    for (slug, price) in [("dear", 0.5), ("free", 0.0), ("cheap", 0.01), ("alike", 0.01)] {
        create(slug, price).await;
    }
    let in_order = |order, after: Option<OrderPosition>| {
        let all = catalog.all();
        all.filtered(&EndpointFilter::default(), Some(order), after.as_ref())
            .map(|entry| entry.slug.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    let count = |pricing| catalog.all().count(&EndpointFilter { pricing, ..EndpointFilter::default() });
    let counts =
        || (count(None), count(Some(tool::PricingMode::FreePublicUtility)), count(Some(tool::PricingMode::FixedPriceSuccessReceipt)));
    assert_eq!(in_order(Order::Price, None), ["free", "alike", "cheap", "dear"]);
    // All have the same time.
    assert_eq!(in_order(Order::Newest, None), ["alike", "cheap", "dear", "free"]);
    assert_eq!(counts(), (4, 1, 3));
    let cheap = Order::Price.place(catalog.all().get("cheap").unwrap());
    assert_eq!(in_order(Order::Price, Some(cheap.clone())), ["dear"]);
    catalog.update("dear", patch(json!({ "priceUsd": 0 })), None, ChangedBy::Builder).await.unwrap();
    assert_eq!(in_order(Order::Price, None), ["dear", "free", "alike", "cheap"]);
    catalog.delete("cheap", None, ChangedBy::Builder).await.unwrap();
    assert_eq!((in_order(Order::Price, None), counts()), (vec!["dear".to_owned(), "free".to_owned(), "alike".to_owned()], (3, 2, 1)));
    // A position stays valid if its endpoint is gone.
    assert_eq!(in_order(Order::Price, Some(cheap)), [""; 0]);
    let free = catalog.find("free").await.unwrap().unwrap();
    assert_eq!(catalog.all().of_id(&free.endpoint.id).unwrap().slug, free.endpoint.slug);
    catalog.delete("free", None, ChangedBy::Builder).await.unwrap();
    assert!(catalog.all().of_id(&free.endpoint.id).is_none());
    let again = create("free", 0.0).await;
    assert!(catalog.all().of_id(&free.endpoint.id).is_none() && catalog.all().of_id(&again.endpoint.id).is_some());
}
