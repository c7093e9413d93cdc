//! A snapshot of many endpoints, compared with a simple scan over all of them.

use std::collections::BTreeMap;

use tollhouse_base::id::EndpointId;
use tollhouse_tool::{PricingMode, Slug};

use super::{
    super::{entry::Card, snapshot_builder::SnapshotBuilder},
    *,
};

const MANY: usize = 11_000;
const TAGS: [&str; 5] = ["common", "Half", "rare", "few", "nobodys"];

/// Creates endpoints that differ in every filter.
async fn many() -> Vec<Endpoint> {
    let (catalog, _folder) = catalog().await;
    let one = catalog.create(draft("one"), builder(), ChangedBy::Admin).await.unwrap().endpoint.clone();
    let mut random = fastrand::Rng::with_seed(0x5eed);
    let made = (0..MANY).map(|number| {
        let mut endpoint = one.clone();
        endpoint.slug = format!("tool-{number:05}-{}", ["weather", "summary", "echo"][number % 3]).parse().unwrap();
        endpoint.id = EndpointId::generate();
        endpoint.created_at = Timestamp(random.u64(..50));
        endpoint.price_usd = tool::MicroUsd(if number % 4 == 0 { 0 } else { random.u64(1..40) });
        endpoint.tags = vec!["common".to_owned()];
        let rest = [(number.is_multiple_of(2), "half"), (number.is_multiple_of(7), "Rare"), (number.is_multiple_of(900), "MAX_SORTED")];
        endpoint.tags.extend(rest.into_iter().filter(|(has, _)| *has).map(|(_, tag)| tag.to_owned()));
        if number.is_multiple_of(11) {
            endpoint.status = tool::Status::Paused;
        }
        endpoint
    });
    made.collect()
}

fn put(snapshot: &mut Snapshot, endpoint: &Endpoint) {
    let card = Card::of(endpoint);
    snapshot.put(card.entry(endpoint.slug.clone(), false), Some(&card.text(endpoint.slug.as_str())));
}

fn of(endpoints: &BTreeMap<Slug, Endpoint>) -> Snapshot {
    let mut builder = SnapshotBuilder::default();
    endpoints.values().for_each(|endpoint| builder.add(Card::of(endpoint).entry(endpoint.slug.clone(), false)));
    builder.build()
}

fn slugs<'e>(entries: impl Iterator<Item = &'e Arc<Entry>>) -> Vec<String> {
    entries.map(|entry| entry.slug.to_string()).collect()
}

/// Returns the filtered endpoints in an order, with a simple scan.
fn plainly(all: &Snapshot, filter: &EndpointFilter, order: Option<Order>) -> Vec<String> {
    let position = |entry: &Arc<Entry>| (order.map_or(0, |order| order.rank(entry)), entry.slug.clone());
    let mut taken: Vec<_> = all.values().filter(|entry| entry.listed() && filter.takes(entry)).collect();
    taken.sort_by_key(|entry| position(entry));
    slugs(taken.into_iter())
}

#[tokio::test]
async fn lists_agree_with_a_full_scan() {
    let endpoints = many().await;
    let all: BTreeMap<_, _> = endpoints.iter().map(|endpoint| (endpoint.slug.clone(), endpoint.clone())).collect();
    let at_once = of(&all);
    let mut one_by_one = Snapshot::default();
    let mut shuffled = endpoints.clone();
    fastrand::Rng::with_seed(7).shuffle(&mut shuffled);
    for endpoint in &shuffled {
        // First with other properties, of which nothing may remain.
        put(&mut one_by_one, &Endpoint { tags: vec!["nobodys".to_owned()], price_usd: tool::MicroUsd(77), ..endpoint.clone() });
        put(&mut one_by_one, endpoint);
    }
    let tags = [vec![], vec!["rare"], vec!["MAX_SORTED"], vec!["half", "common"], vec!["few", "half"], vec!["nobodys"]];
    let prices = [None, Some(PricingMode::FreePublicUtility), Some(PricingMode::FixedPriceSuccessReceipt)];
    for ((tags, pricing), max) in
        tags.iter().flat_map(|tags| prices.map(|pricing| (tags, pricing))).flat_map(|one| [None, Some(0), Some(9)].map(|max| (one, max)))
    {
        let filter =
            EndpointFilter { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), pricing, max_price: max.map(tool::MicroUsd) };
        for order in [None, Some(Order::Price), Some(Order::Newest)] {
            let requested = plainly(&at_once, &filter, order);
            for snapshot in [&at_once, &one_by_one] {
                assert_eq!(snapshot.count(&filter), requested.len(), "{filter:?}");
                assert!(slugs(snapshot.filtered(&filter, order, None)) == requested, "{filter:?} {order:?}");
                let Some(position) = requested.len().checked_div(3).filter(|position| *position < requested.len()) else { continue };
                let entry = snapshot.get(&requested[position]).unwrap();
                let after = OrderPosition { rank: order.map_or(0, |order| order.rank(entry)), slug: entry.slug.clone() };
                assert!(
                    slugs(snapshot.filtered(&filter, order, Some(&after))) == requested[position + 1..],
                    "{filter:?} {order:?} behind {position}"
                );
            }
        }
    }
    for tag in TAGS {
        let requested: Vec<_> = endpoints.iter().filter(|one| one.tags.iter().any(|has| has.eq_ignore_ascii_case(tag))).collect();
        assert_eq!(slugs(one_by_one.tagged(tag, "")), requested.iter().map(|one| one.slug.to_string()).collect::<Vec<_>>());
    }
    assert_eq!((at_once.counts(), at_once.len()), (one_by_one.counts(), MANY));
}

#[tokio::test]
async fn similar_names_share_a_prefix_or_words_among_many() {
    let mut all = Snapshot::default();
    many().await.iter().for_each(|endpoint| put(&mut all, endpoint));
    let nearest = |name: &str| slugs(all.nearest(name, |_| true).into_iter().take(1));
    assert_eq!(nearest("tool-00042-wether"), ["tool-00042-weather"]);
    assert_eq!(nearest("TOOL 10000 sumary"), ["tool-10000-summary"]);
    assert_eq!(nearest("otol-00044-echo"), ["tool-00044-echo"], "by its words");
    assert!(nearest("nothing-like-it").is_empty());
}

#[tokio::test]
async fn search_waits_until_all_words_are_indexed() {
    let endpoints = many().await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for some in endpoints.chunks(500) {
        let mut batch = Batch::new();
        some.iter().for_each(|endpoint| _ = batch.put_new(&super::super::entry::ENDPOINTS, &endpoint.slug.to_string(), endpoint));
        batch.commit(&*store, Durability::Buffered).await.unwrap();
    }
    let (catalog, _folder) = catalog_of(store).await;
    let words = search::Query::parse("weather").unwrap();
    let total = || catalog.all().search(&words, 0, 3, |_| true).map(|found| found.total);
    assert_eq!(total(), Err(IndexLoading));
    // Endpoints that change before their words are read are found with the new words, and only
    // once.
    let changed = endpoints[3].slug.to_string();
    catalog.update(&changed, patch(json!({ "title": "No forecast" })), None, ChangedBy::Admin).await.unwrap();
    catalog.delete(endpoints[6].slug.as_str(), None, ChangedBy::Admin).await.unwrap();
    catalog.load_index().await.unwrap();
    assert_eq!(total(), Ok(MANY.div_ceil(3) - 1));
    let forecast = search::Query::parse("forecast").unwrap();
    let found = catalog.all().search(&forecast, 0, usize::MAX, |entry| entry.slug.as_str() == changed).unwrap();
    assert_eq!(found.total, 1);
    catalog.all().index_mut().compact();
    assert_eq!(total(), Ok(MANY.div_ceil(3) - 1));
}
