use std::collections::BTreeMap;

use super::{corpus::Corpus, *};

fn corpus() -> Corpus {
    include_str!("../../../fixtures/search/tools.txt").parse().unwrap()
}

impl Item for &str {
    fn name(&self) -> &str {
        self
    }
}

fn titled<'a>(slug: &'a str, title: &'a str) -> Text<'a> {
    Text { slug, title, tags: &[], description: "" }
}

fn index_of<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Index<&'a str> {
    let mut index = Index::default();
    for (key, title) in texts {
        index.put(&titled(key, title), |_| key);
    }
    index
}

/// Runs all due merges, as a host does in the background.
fn in_order<T: Item>(index: &mut Index<T>) {
    while let Some(merge) = index.due() {
        index.adopt(merge.run());
    }
}

fn found<'a>(index: &Index<&'a str>, words: &str) -> Vec<&'a str> {
    index.search(&Query::parse(words).unwrap(), 0, 10, |_| true).items
}

#[test]
fn questions_and_keywords_find_their_tool_among_two_thousand() {
    let corpus = corpus();
    let mut index = Index::default();
    for tool in &corpus.tools {
        let text = Text { slug: &tool.slug, title: &tool.title, tags: &tool.tags, description: &tool.description };
        index.put(&text, |_| tool.slug.as_str());
    }
    assert!(index.len() >= 2_000, "{index:?}");
    let recall = |request: &[corpus::SampleQuery], in_sample: bool| {
        let request: Vec<_> = request.iter().filter(|request| request.in_sample == in_sample).collect();
        let answered = request.iter().filter(|request| found(&index, &request.words).contains(&request.requested.as_str())).count();
        answered as f64 / request.len() as f64
    };
    for in_sample in [true, false] {
        let [questions, keywords] = [&corpus.questions, &corpus.keywords].map(|request| recall(request, in_sample));
        assert!(questions >= 0.6, "questions {questions:.2}, looked at: {in_sample}");
        assert!(keywords >= 0.85, "keywords {keywords:.2}, looked at: {in_sample}");
    }
}

#[test]
fn words_are_found_in_other_forms_and_other_words() {
    let index = index_of([
        ("temperatures", "Temperature conversion"),
        ("summaries", "Text summariser"),
        ("time-zone", "Local hours"),
        ("whois", "Domains"),
        ("invoicing", "Bills for clients"),
    ]);
    for (words, requested) in [
        ("convert a temperature", "temperatures"),
        ("TEMPERATURES", "temperatures"),
        ("how do I shorten this", "summaries"),
        ("timezone", "time-zone"),
        ("time zone", "time-zone"),
        ("who is behind a website", "whois"),
        ("invoi", "invoicing"),
        ("the invoice", "invoicing"),
    ] {
        assert_eq!(found(&index, words).first(), Some(&requested), "{words}");
    }
    for words in ["", "   ", "how do I", "?!", "in"] {
        assert!(found(&index, words).is_empty(), "{words}");
    }
}

#[test]
fn names_weigh_more_than_descriptions() {
    let tags = ["rain".to_owned()];
    let mut index = Index::default();
    let text = |slug, title, tags, description| Text { slug, title, tags, description };
    index.put(&text("a", "Cloud", &[], "rain"), |_| "description");
    index.put(&text("b", "Cloud", &tags, ""), |_| "tag");
    index.put(&text("c", "Rain", &[], ""), |_| "title");
    index.put(&text("rain", "Cloud", &[], ""), |_| "slug");
    let order = found(&index, "rain");
    assert_eq!((order.len(), order[0], order[3]), (4, "title", "description"), "{order:?}");
}

#[test]
fn pages_of_a_search_have_everything_once() {
    let keys: Vec<_> = (0..57).map(|n| format!("tool-{n:02}")).collect();
    let index = index_of(keys.iter().map(|key| (key.as_str(), "Equal words")));
    let query = Query::parse("equal").unwrap();
    let pages: Vec<_> = (0..6).map(|page| index.search(&query, page * 10, 10, |key| *key != "tool-30")).collect();
    assert!(pages.iter().all(|page| page.total == 56));
    let all: Vec<_> = pages.iter().flat_map(|page| &page.items).copied().collect();
    let requested: Vec<_> = keys.iter().map(String::as_str).filter(|key| *key != "tool-30").collect();
    assert_eq!(all, requested);
    assert!(index.search(&query, usize::MAX, usize::MAX, |_| true).items.is_empty());
}

const TITLES: [&str; 6] = ["Red apples", "Apple pie recipe", "Pies and cakes", "A red cake", "Recipe finder", "Find red pie recipes"];

/// After any additions and removals, an index equals a new one with the same contents.
#[test]
fn a_changed_index_is_as_a_new_one() {
    let keys: Vec<_> = (0..12).map(|n| format!("key-{n}")).collect();
    let mut random = fastrand::Rng::with_seed(0x5ea7c4);
    let (mut there, mut slots) = (BTreeMap::new(), BTreeMap::new());
    let mut index = Index::default();
    for step in 0..400 {
        let key = random.choice(&keys).unwrap().as_str();
        slots.remove(key).into_iter().for_each(|slot| index.remove(slot));
        if random.u64(..3) == 0 {
            there.remove(key);
        } else {
            let title = *random.choice(&TITLES).unwrap();
            index.put(&titled(key, title), |slot| {
                slots.insert(key, slot);
                key
            });
            there.insert(key, title);
        }
        let (before, fresh) = (index.clone(), index_of(there.clone()));
        let mut passing = 0;
        index.put(&titled("passing", "apple cake pie recipe red"), |slot| {
            passing = slot;
            "passing"
        });
        index.remove(passing);
        for words in ["red apple", "recipes", "cake", "find", "key"] {
            let requested = found(&fresh, words);
            assert_eq!(found(&index, words), requested, "{words} at {step}");
            assert_eq!(found(&before, words), requested, "a clone changed: {words} at {step}");
        }
        assert_eq!(index.len(), there.len());
    }
    slots.values().for_each(|slot| index.remove(*slot));
    assert_eq!((index.len(), index.recent.stems().count()), (0, 0), "nothing is left of what was taken out");
}

/// Search results do not depend on an index's history: built step by step, with merged segments,
/// from segments built at once, or with changes during a merge.
#[test]
fn what_is_packed_is_found_as_what_is_not() {
    let mut random = fastrand::Rng::with_seed(0x9ac7ed);
    let keys: Vec<_> = (0..30_000).map(|n| format!("key-{n}")).collect();
    let (mut there, mut index) = (BTreeMap::new(), Index::default());
    let mut merge = None;
    for step in 0..60_000 {
        let key = random.choice(&keys).unwrap().as_str();
        if let Some((_, slot)) = there.remove(key) {
            index.remove(slot);
        }
        if random.u64(..4) > 0 {
            let title = *random.choice(&TITLES).unwrap();
            let mut here = 0;
            index.put(&titled(key, title), |slot| {
                here = slot;
                key
            });
            there.insert(key, (title, here));
        }
        // Created from the state some hundred changes ago.
        if step % 300 == 0 {
            merge.take().into_iter().for_each(|merge: Merge<_>| index.adopt(merge.run()));
            merge = index.due();
        }
    }
    merge.into_iter().for_each(|merge| index.adopt(merge.run()));
    in_order(&mut index);
    assert!(index.segments.len() > 1 && index.recent.len() < 1_024, "{index:?}");
    assert!(index.items.len() < 2 * there.len() + 4_096, "slots are used again: {} for {}", index.items.len(), there.len());
    let mut packed = Index::of(there.keys().copied().collect::<Vec<_>>());
    let mut segments = Segments::default();
    for some in there.iter().zip(0..).collect::<Vec<_>>().chunks(700) {
        segments.push(Segment::of(some.iter().map(|((key, (title, _)), slot)| (*slot, titled(key, title)))));
    }
    packed.add(segments);
    let sizes: Vec<_> = packed.segments.iter().map(|segment| segment.len()).collect();
    assert!(sizes.len() < 16 && sizes.iter().sum::<usize>() == there.len(), "they become fewer as they come: {sizes:?}");
    let fresh = index_of(there.iter().map(|(key, (title, _))| (*key, *title)));
    let all = |index: &Index<_>, words: &str| {
        let found = index.search(&Query::parse(words).unwrap(), 0, usize::MAX, |_| true);
        (found.total, found.items.into_iter().collect::<BTreeSet<_>>())
    };
    for words in ["apple", "pies", "recipe", "find", "key 7", "key-77", "nothing"] {
        let requested = all(&fresh, words);
        assert!(all(&index, words) == requested && all(&packed, words) == requested, "{words}");
        // Nothing was removed from these, so they also rank the same.
        assert_eq!(found(&packed, words), found(&fresh, words), "{words}");
    }
    there.values().for_each(|(_, slot)| index.remove(*slot));
    in_order(&mut index);
    let remaining: usize = index.segments.iter().map(|segment| segment.len()).sum();
    assert!(index.is_empty() && remaining <= 1_024 && index.dead == remaining, "what was taken out of segments goes in time: {index:?}");
}

#[test]
fn rare_words_are_found_among_more_common_ones_than_are_read() {
    let common: Vec<_> = (0..32).map(|n| format!("common{n}x")).collect();
    let title = common.join(" ");
    let keys: Vec<_> = (0..MAX_POSTINGS / 32 + 500).map(|n| format!("key-{n}")).collect();
    let mut index = index_of(keys.iter().map(|key| (key.as_str(), title.as_str())));
    index.put(&titled("rare", "needle"), |_| "rare");
    let request = format!("{} needle", common[..14].join(" "));
    assert_eq!(found(&index, &request)[0], "rare");
}

#[test]
fn a_query_has_an_end() {
    assert!(Query::parse(&"ä".repeat(Query::MAX_CHARS)).is_ok());
    assert!(Query::parse(&"ä".repeat(Query::MAX_CHARS + 1)).is_err());
}
