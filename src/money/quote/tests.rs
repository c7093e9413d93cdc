use serde_json::json;
use tollhouse_base::{id::EndpointId, lock::Lock};

use super::*;
use crate::SignedOffers;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const LIFETIME: Duration = Duration::from_secs(60);

fn terms(price: u64) -> Arc<CallTerms> {
    Arc::new(CallTerms {
        slug: "some-tool".parse().unwrap(),
        endpoint_id: "ep_01M815SNBRFK5W9N9KTE3F3SM8".parse().unwrap(),
        owner: tollhouse_tool::Owner::Platform,
        version: String::new(),
        resource_url: "https://tools.example/tools/some-tool".to_owned(),
        description: String::new(),
        price: MicroUsd(price),
        metered: false,
        accepts: vec![],
        settle: Default::default(),
        input_schema: Arc::new(json!({})),
        output_schema: Arc::new(json!({})),
        tags: vec![],
        wall: Duration::from_secs(10),
        timeout_secs: 60,
        offers: SignedOffers::default(),
    })
}

fn key(byte: u8) -> QuoteKey {
    QuoteKey::new([byte; 32].into())
}

fn quotes(clock: &Clock) -> Quotes {
    Quotes::new(Box::new(|| vec![key(7)]), LIFETIME, clock.clone())
}

#[test]
fn quote_holds_until_it_expires_despite_price_changes() {
    let clock = Clock::fixed(NOW);
    let quotes = quotes(&clock);
    let quote = quotes.make(&terms(2_000));
    assert_eq!((quote.price, quote.expires_at), (MicroUsd(2_000), NOW.plus_millis(60_000)));
    let later = CallTerms { version: "another".to_owned(), ..CallTerms::clone(&terms(9_000)) };
    for request in [terms(2_000), terms(9_000), terms(1), Arc::new(later)] {
        let QuotedTerms { terms, id } = quotes.under(&request, Some(&quote.id)).unwrap();
        assert_eq!((terms.price, id.as_deref()), (MicroUsd(2_000), Some(&*quote.id)));
        assert_eq!(terms.version, request.version, "the running version is the current one");
    }
    clock.set(NOW.plus_millis(59_999));
    assert!(quotes.under(&terms(9_000), Some(&quote.id)).is_ok());
    clock.set(NOW.plus_millis(60_000));
    let refused = quotes.under(&terms(9_000), Some(&quote.id)).unwrap_err();
    assert_eq!(refused, QuoteRefusal::Expired { at: quote.expires_at });
}

#[test]
fn a_call_that_names_no_quote_or_costs_nothing_is_priced_as_it_is() {
    let quotes = quotes(&Clock::fixed(NOW));
    let quote = quotes.make(&terms(2_000));
    let priced = |price, named| quotes.under(&terms(price), named).map(|quoted| (quoted.terms.price.0, quoted.id));
    assert_eq!(priced(9_000, None), Ok((9_000, None)));
    for named in [&*quote.id, "nonsense", ""] {
        assert_eq!(priced(0, Some(named)), Ok((0, None)), "{named}");
    }
    let free = quotes.make(&terms(0));
    assert_eq!(priced(9_000, Some(&*free.id)), Ok((0, Some(free.id.clone()))));
}

#[test]
fn quoted_maximum_does_not_raise_a_lower_fixed_price() {
    let quotes = quotes(&Clock::fixed(NOW));
    let metered = |price| Arc::new(CallTerms { metered: true, ..CallTerms::clone(&terms(price)) });
    let (max, fixed) = (quotes.make(&metered(5_000)), quotes.make(&terms(5_000)));
    let priced = |terms: &_, quote: &Quote| quotes.under(terms, Some(&quote.id)).unwrap().terms.price.0;
    for (request, price) in [(terms(1_000), 1_000), (terms(9_000), 5_000), (metered(1_000), 5_000), (metered(9_000), 5_000)] {
        assert_eq!(priced(&request, &max), price, "{} {}", request.price, request.metered);
        assert_eq!(priced(&request, &fixed), 5_000, "{} {}", request.price, request.metered);
    }
}

#[test]
fn a_quote_is_of_one_endpoint() {
    let quotes = quotes(&Clock::fixed(NOW));
    let quote = quotes.make(&terms(2_000));
    let other = Arc::new(CallTerms { endpoint_id: EndpointId::generate(), ..CallTerms::clone(&terms(2_000)) });
    assert_eq!(quotes.under(&other, Some(&quote.id)).unwrap_err(), QuoteRefusal::OtherTool);
}

#[test]
fn an_id_fits_a_header_and_none_that_was_altered_in_any_place_holds() {
    let quotes = quotes(&Clock::fixed(NOW));
    let quote = quotes.make(&terms(2_000));
    let refused = |id: &str| quotes.under(&terms(9_000), Some(id)).unwrap_err() == QuoteRefusal::Unknown;
    assert_eq!(quote.id.len(), 68);
    assert!(quote.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'), "{}", quote.id);
    for position in 0..quote.id.len() {
        for other in ["A", "b", "7", "_", "-", "=", "+", "/", " ", ".", "\u{0}", "é", ""] {
            let altered = format!("{}{other}{}", &quote.id[..position], &quote.id[position + 1..]);
            assert!(altered == quote.id || refused(&altered), "{altered}");
        }
    }
    for altered in [
        "".to_owned(),
        "quo_".to_owned(),
        format!("{}A", quote.id),
        format!(" {}", quote.id),
        quote.id[4..].to_owned(),
        "A".repeat(1 << 20),
    ] {
        assert!(refused(&altered), "{}", altered.get(..80).unwrap_or(&altered));
    }
    let another_host = Quotes::new(Box::new(|| vec![key(8)]), LIFETIME, Clock::fixed(NOW)).make(&terms(1));
    assert!(refused(&another_host.id));
}

#[test]
fn quotes_survive_a_key_rotation_unless_the_old_key_signed_them_later() {
    static KEYS: Lock<Vec<u8>> = Lock::new(Vec::new());
    let set = |keys: &[u8]| keys.clone_into(&mut KEYS.lock());
    let in_force = || KEYS.lock().iter().copied().map(key).collect();
    let clock = Clock::fixed(NOW);
    let quotes = Quotes::new(Box::new(in_force), LIFETIME, clock.clone());
    let holds = |quote: &Quote| quotes.under(&terms(9), Some(&quote.id)).is_ok();
    set(&[1]);
    let first = quotes.make(&terms(2_000));
    set(&[2]);
    let second = quotes.make(&terms(2_000));
    set(&[3]);
    assert!(holds(&first) && holds(&second) && holds(&quotes.make(&terms(2_000))));
    for (millis, known) in [(59_999, true), (60_000, false)] {
        clock.set(NOW.plus_millis(millis));
        let late = Quotes::new(Box::new(|| vec![key(2)]), LIFETIME, clock.clone()).make(&terms(1));
        assert_eq!(holds(&late), known, "{millis} ms after it was rotated out");
    }
    let late = Clock::fixed(NOW.plus_millis(3_600_000));
    let stolen = Quotes::new(Box::new(|| vec![key(1)]), LIFETIME, late.clone()).make(&terms(1));
    clock.set(NOW.plus_millis(3_600_000));
    assert_eq!(quotes.under(&terms(9), Some(&stolen.id)).unwrap_err(), QuoteRefusal::Unknown);
    set(&[4, 3]);
    assert!(holds(&Quotes::new(Box::new(|| vec![key(3)]), LIFETIME, late).make(&terms(2_000))), "one that is in force still");
}

#[test]
fn largest_price_survives_the_quote_id() {
    let quotes = quotes(&Clock::fixed(NOW));
    let quote = quotes.make(&terms(MicroUsd::MAX.0));
    assert_eq!(quotes.under(&terms(1), Some(&quote.id)).unwrap().terms.price, MicroUsd::MAX);
}
