mod corpus;

use std::collections::{BTreeMap, BTreeSet};

use self::corpus::Corpus;
use super::*;

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
fn search_pages_contain_each_hit_once() {
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

/// After any additions and removals, an index finds the same as a new one with the same contents,
/// and once it is compacted, ranks the same.
#[test]
fn changed_index_equals_a_new_one() {
    let keys: Vec<_> = (0..12).map(|n| format!("key-{n}")).collect();
    let mut random = fastrand::Rng::with_seed(0x5ea7c4);
    let mut there = BTreeMap::new();
    let mut index = Index::default();
    let all = |index: &Index<_>, words: &str| {
        let found = index.search(&Query::parse(words).unwrap(), 0, usize::MAX, |_| true);
        (found.total, found.items.into_iter().collect::<BTreeSet<_>>())
    };
    for step in 0..400 {
        let key = random.choice(&keys).unwrap().as_str();
        if let Some((_, slot)) = there.remove(key) {
            index.remove(slot);
        }
        if random.u64(..3) != 0 {
            let title = *random.choice(&TITLES).unwrap();
            let mut here = 0;
            index.put(&titled(key, title), |slot| {
                here = slot;
                key
            });
            there.insert(key, (title, here));
        }
        let fresh = index_of(there.iter().map(|(key, (title, _))| (*key, *title)));
        let is_compacted = random.u64(..8) == 0;
        if is_compacted {
            index.compact();
            assert!(index.items.len() <= there.len() + index.free.len(), "slots are used again: {}", index.items.len());
        }
        for words in ["red apple", "recipes", "cake", "find", "key"] {
            assert_eq!(all(&index, words), all(&fresh, words), "{words} at {step}");
            if is_compacted {
                assert_eq!(found(&index, words), found(&fresh, words), "{words} at {step}");
            }
        }
        assert_eq!(index.len(), there.len());
    }
    assert!(index.items.len() <= 60, "slots are used again: {}", index.items.len());
    there.values().for_each(|(_, slot)| index.remove(*slot));
    index.compact();
    assert!(index.is_empty() && index.stems.is_empty() && index.length == 0);
}

#[test]
fn compaction_is_due_once_many_texts_were_removed() {
    let keys: Vec<_> = (0..4_000).map(|n| format!("key-{n}")).collect();
    let mut index = index_of(keys.iter().map(|key| (key.as_str(), "Equal words")));
    (0..2_000).for_each(|slot| index.remove(slot));
    assert!(!index.needs_compaction());
    (2_000..2_500).for_each(|slot| index.remove(slot));
    assert!(index.needs_compaction());
    let before = index.stems.values().map(Postings::len).sum::<usize>();
    index.compact();
    assert!(!index.needs_compaction() && index.stems.values().map(Postings::len).sum::<usize>() < before / 2);
}

#[test]
fn words_are_added_later_unless_their_item_has_changed() {
    let mut index = Index::of(vec!["one", "two", "three"]);
    let words = |key, title| WeighedText::of(&titled(key, title));
    index.remove(1);
    index.compact();
    index.put(&titled("four", "cake"), |slot| {
        assert_eq!(slot, 1);
        "four"
    });
    [(0, "one"), (1, "two"), (2, "three"), (1, "four")].into_iter().for_each(|(slot, key)| index.add_words(slot, key, words(key, "apple")));
    assert_eq!((found(&index, "apple"), found(&index, "cake")), (vec!["one", "three"], vec!["four"]));
}

#[test]
fn rare_words_are_found_beyond_the_posting_limit() {
    let common: Vec<_> = (0..32).map(|n| format!("common{n}x")).collect();
    let title = common.join(" ");
    let keys: Vec<_> = (0..MAX_POSTINGS / 32 + 500).map(|n| format!("key-{n}")).collect();
    let mut index = index_of(keys.iter().map(|key| (key.as_str(), title.as_str())));
    index.put(&titled("rare", "needle"), |_| "rare");
    let request = format!("{} needle", common[..14].join(" "));
    assert_eq!(found(&index, &request)[0], "rare");
}

#[test]
fn long_query_is_refused() {
    assert!(Query::parse(&"ä".repeat(Query::MAX_CHARS)).is_ok());
    assert!(Query::parse(&"ä".repeat(Query::MAX_CHARS + 1)).is_err());
}
