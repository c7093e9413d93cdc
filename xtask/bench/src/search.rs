//! Measures the quality of the search with the tools of the fixture, and its speed with five times
//! as many.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use tollhouse::catalog::search::{Index, Item, Query, Slot, Text};

use crate::{
    Failure,
    corpus::{Corpus, SampleQuery, Tool},
    load::{Figures, latencies},
};

/// Copies of each tool in the index for the speed.
const TIMES: usize = 5;
/// Number of best hits that count.
const BEST: usize = 10;
/// Rounds of all queries.
const ROUNDS: usize = 5;

/// The slug of a tool.
#[derive(Clone)]
struct Named(String);

impl Item for Named {
    fn name(&self) -> &str {
        &self.0
    }
}

pub(crate) fn measure() -> Result<(), Failure> {
    let corpus: Corpus = include_str!("../../../fixtures/search/tools.txt").parse()?;
    let mut index = Index::default();
    for tool in &corpus.tools {
        put(&mut index, tool, &tool.slug);
    }
    println!("{} tools; recall@{BEST}          looked at   measured only", index.len());
    for (what, request) in [("questions", &corpus.questions), ("keywords", &corpus.keywords)] {
        let [in_sample, only_measured] = [true, false].map(|in_sample| recall(&index, request, in_sample));
        println!("  {what:<28}{in_sample:>9.2}{only_measured:>16.2}");
    }

    let mut many = Index::default();
    let started = Instant::now();
    let mut slots = Vec::new();
    for time in 0..TIMES {
        slots = corpus.tools.iter().map(|tool| put(&mut many, tool, &format!("{}-{time}", tool.slug))).collect();
    }
    println!("\n{} tools, put in within {:.0} ms              p50        p99", many.len(), started.elapsed().as_secs_f64() * 1e3);
    let request = || (0..ROUNDS).flat_map(|_| corpus.questions.iter().chain(&corpus.keywords));
    let searched = request().map(|request| timed(|| best(&many, &request.words).len())).collect();
    println!("  a search{:30}{}", "", latencies(&Figures::of(searched, Duration::from_secs(1))));
    let changed = corpus.tools.iter().zip(slots).map(|(tool, slot)| {
        timed(|| {
            many.remove(slot);
            put(&mut many, tool, &tool.slug)
        })
    });
    println!("  a change of one{:23}{}", "", latencies(&Figures::of(changed.collect(), Duration::from_secs(1))));
    Ok(())
}

fn put(index: &mut Index<Named>, tool: &Tool, key: &str) -> Slot {
    let text = Text { slug: key, title: &tool.title, tags: &tool.tags, description: &tool.description };
    let mut position = 0;
    index.put(&text, |slot| {
        position = slot;
        Named(key.to_owned())
    });
    position
}

fn best(index: &Index<Named>, words: &str) -> Vec<String> {
    let found = Query::parse(words).map(|query| index.search(&query, 0, BEST, |_| true).items).unwrap_or_default();
    found.into_iter().map(|named| named.0).collect()
}

/// Returns the share of questions whose tool is among the best hits.
fn recall(index: &Index<Named>, queries: &[SampleQuery], in_sample: bool) -> f64 {
    let queries: Vec<_> = queries.iter().filter(|query| query.in_sample == in_sample).collect();
    let found = queries.iter().filter(|query| best(index, &query.words).contains(&query.requested)).count();
    found as f64 / queries.len() as f64
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    black_box(work());
    started.elapsed()
}
