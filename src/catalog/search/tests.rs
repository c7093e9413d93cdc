use super::{corpus::Corpus, *};

fn corpus() -> Corpus {
    include_str!("../../../fixtures/search/tools.txt").parse().unwrap()
}

fn index_of<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Index<&'a str> {
    let mut index = Index::default();
    for (key, title) in texts {
        index.put(key, &Text { slug: key, title, tags: &[], description: "" }, key);
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
        index.put(&tool.slug, &text, tool.slug.as_str());
    }
    assert!(index.len() >= 2_000, "{index:?}");
    let recall = |asked: &[corpus::Asked], looked_at: bool| {
        let asked: Vec<_> = asked.iter().filter(|asked| asked.looked_at == looked_at).collect();
        let answered = asked.iter().filter(|asked| found(&index, &asked.words).contains(&asked.wanted.as_str())).count();
        answered as f64 / asked.len() as f64
    };
    for looked_at in [true, false] {
        let [questions, keywords] = [&corpus.questions, &corpus.keywords].map(|asked| recall(asked, looked_at));
        assert!(questions >= 0.6, "questions {questions:.2}, looked at: {looked_at}");
        assert!(keywords >= 0.85, "keywords {keywords:.2}, looked at: {looked_at}");
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
    for (words, wanted) in [
        ("convert a temperature", "temperatures"),
        ("TEMPERATURES", "temperatures"),
        ("how do I shorten this", "summaries"),
        ("timezone", "time-zone"),
        ("time zone", "time-zone"),
        ("who is behind a website", "whois"),
        ("invoi", "invoicing"),
        ("the invoice", "invoicing"),
    ] {
        assert_eq!(found(&index, words).first(), Some(&wanted), "{words}");
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
    index.put("a", &text("a", "Cloud", &[], "rain"), "description");
    index.put("b", &text("b", "Cloud", &tags, ""), "tag");
    index.put("c", &text("c", "Rain", &[], ""), "title");
    index.put("d", &text("rain", "Cloud", &[], ""), "slug");
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
    let wanted: Vec<_> = keys.iter().map(String::as_str).filter(|key| *key != "tool-30").collect();
    assert_eq!(all, wanted);
    assert!(index.search(&query, usize::MAX, usize::MAX, |_| true).items.is_empty());
}

/// Whatever has been put in and taken out, an index is as one that was made of what is there now.
#[test]
fn a_changed_index_is_as_a_new_one() {
    const TITLES: [&str; 6] = ["Red apples", "Apple pie recipe", "Pies and cakes", "A red cake", "Recipe finder", "Find red pie recipes"];
    let keys: Vec<_> = (0..12).map(|n| format!("key-{n}")).collect();
    let mut random = fastrand::Rng::with_seed(0x5ea7c4);
    let mut there = BTreeMap::new();
    let mut index = Index::default();
    for step in 0..400 {
        let key = random.choice(&keys).unwrap().as_str();
        if random.u64(..3) == 0 {
            index.remove(key);
            there.remove(key);
        } else {
            let title = *random.choice(&TITLES).unwrap();
            index.put(key, &Text { slug: key, title, tags: &[], description: "" }, key);
            there.insert(key, title);
        }
        let (before, fresh) = (index.clone(), index_of(there.clone()));
        index.put("passing", &Text { slug: "passing", title: "apple cake pie recipe red", tags: &[], description: "" }, "passing");
        index.remove("passing");
        for words in ["red apple", "recipes", "cake", "find", "key"] {
            let wanted = found(&fresh, words);
            assert_eq!(found(&index, words), wanted, "{words} at {step}");
            assert_eq!(found(&before, words), wanted, "a clone changed: {words} at {step}");
        }
        assert_eq!(index.len(), there.len());
    }
    keys.iter().for_each(|key| index.remove(key));
    assert_eq!((index.len(), index.stems.size()), (0, 0), "nothing is left of what was taken out");
}

#[test]
fn rare_words_are_found_among_more_common_ones_than_are_read() {
    let common: Vec<_> = (0..32).map(|n| format!("common{n}x")).collect();
    let title = common.join(" ");
    let keys: Vec<_> = (0..MAX_POSTINGS / 32 + 500).map(|n| format!("key-{n}")).collect();
    let mut index = index_of(keys.iter().map(|key| (key.as_str(), title.as_str())));
    index.put("rare", &Text { slug: "rare", title: "needle", tags: &[], description: "" }, "rare");
    let asked = format!("{} needle", common[..14].join(" "));
    assert_eq!(found(&index, &asked)[0], "rare");
}

#[test]
fn a_query_has_an_end() {
    assert!(Query::parse(&"ä".repeat(Query::MAX_CHARS)).is_ok());
    assert!(Query::parse(&"ä".repeat(Query::MAX_CHARS + 1)).is_err());
}
