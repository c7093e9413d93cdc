//! Handles saves, and keeps track of the version that serves.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tollhouse_base::clock::Clock;

use super::{
    bench::Bench,
    keys::{self, Keys},
    round::{self, Looked, Step, Tell},
    stream::{Happened, Stream},
    watch::{Watched, hindering},
};
use crate::{
    base::{
        changed::short,
        clean::{first, line},
        error::{Error, Result},
        out::Paint,
        words::{any, list, price, text},
    },
    open,
    tool::{place::Problem, types::Types},
};

/// The version that serves.
struct Serving {
    slug: String,
    id: String,
    version: String,
    stream: Stream,
}

/// The saves, one after the other. A new save aborts an unfinished one.
pub(super) struct Publishes {
    bench: Arc<Bench>,
    tell: Tell,
    number: u64,
    round: Option<JoinHandle<()>>,
    calls: Option<JoinHandle<()>>,
    serving: Option<Serving>,
    /// The header line that was last printed.
    head: String,
    /// A publish that has not been reported yet, so that it can be reported together with its check results.
    untold: Option<(String, Duration)>,
    /// The problems of the last refused save, which were already reported.
    refused: Vec<Problem>,
    since: String,
}

impl Publishes {
    pub(super) fn new(bench: Arc<Bench>, tell: Tell) -> Self {
        let now = i64::try_from(Clock::default().now().0).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
        let since = now.map(|now| now.to_string()).unwrap_or_default();
        let none = (None, None, None, None);
        Self {
            bench,
            tell,
            number: 0,
            round: none.0,
            calls: none.1,
            serving: none.2,
            head: String::new(),
            untold: none.3,
            refused: vec![],
            since,
        }
    }

    /// Publishes the folder's current state.
    pub(super) fn begin(&mut self) {
        if let Some(round) = self.round.take() {
            round.abort();
        }
        self.number += 1;
        self.round = Some(tokio::spawn(round::run(Arc::clone(&self.bench), self.number, self.tell.clone())));
    }

    /// Runs the cases again.
    pub(super) fn begin_cases(&mut self) {
        self.refused.clear();
        self.begin();
    }

    /// Reports a step. For a round that was replaced, only reports what serves.
    ///
    /// # Errors
    ///
    /// Nobody reads the output, or the host has failed.
    pub(super) fn ended(&mut self, (number, step): (u64, Step), watch: &Watched, keys: &Keys) -> Result {
        let is_past = number != self.number;
        match step {
            Step::Published { upload, record, took, problems } => {
                self.tell_untold()?;
                self.refused.clear();
                watch.add(upload.files(), BTreeSet::new());
                let version = text(&record, "version").to_owned();
                if let Some(bundle) = &upload.bundle {
                    bundle.map.keep(&self.bench.folder, &version);
                }
                self.serve(&record)?;
                self.tell_head(&record, keys)?;
                let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                if self.bench.teller.out().json {
                    let members = json!({ "slug": record["slug"], "version": version, "url": record["url"], "tookMs": millis, "warnings": record["warnings"] });
                    self.bench.teller.event("published", members, "")?;
                } else {
                    for warning in list(&record, "warnings").filter_map(Value::as_str) {
                        self.bench.teller.event(
                            "",
                            json!({}),
                            &format!("{}  {}", self.bench.teller.out().paint(Paint::Odd, "  warn"), line(warning)),
                        )?;
                    }
                    self.untold = Some((version, took));
                }
                problems.iter().try_for_each(|problem| self.bench.teller.problem(problem))?;
            }
            _ if is_past => {}
            Step::Same { upload } => {
                self.refused.clear();
                watch.add(upload.files(), BTreeSet::new());
            }
            Step::Refused { problems, files } => {
                let hindering = hindering(&self.bench.folder, &problems);
                // A bundle is retried even without a save, so report only a different outcome.
                let is_told = !hindering.is_empty() && problems == self.refused;
                watch.add(files, hindering);
                if is_told {
                    return Ok(());
                }
                self.tell_untold()?;
                for problem in &problems {
                    self.bench.teller.problem(problem)?;
                }
                self.bench.teller.beside(&match &self.serving {
                    Some(serving) => format!("          {} serves on", short(&serving.version)),
                    None => format!("          nothing is served yet, on {}", self.bench.host.url),
                })?;
                self.refused = problems;
            }
            Step::Late => self.tell_untold()?,
            Step::Looked(looked) => self.tell_looked(&looked)?,
            Step::Broke(error) => return Err(error),
        }
        Ok(())
    }

    /// Follows the published tool, if it is a different one.
    fn serve(&mut self, record: &Value) -> Result {
        let (slug, id, version) = (text(record, "slug"), text(record, "id"), text(record, "version"));
        let before = self.serving.take();
        match before {
            Some(serving) if serving.id == id => self.serving = Some(Serving { version: version.to_owned(), ..serving }),
            before => {
                // If the tool was renamed, remove the one with the old name.
                if let Some(other) = before.filter(|other| other.slug != slug).map(|other| other.slug) {
                    let host = Arc::clone(&self.bench.host);
                    tokio::spawn(async move { host.remove(&other).await });
                }
                let stream = Stream::of(&self.bench.host, slug, &self.since, self.bench.teller.out());
                self.serving = Some(Serving { slug: slug.to_owned(), id: id.to_owned(), version: version.to_owned(), stream });
            }
        }
        Ok(())
    }

    /// Prints the tool's address and price, once and whenever they change.
    fn tell_head(&mut self, record: &Value, keys: &Keys) -> Result {
        let slug = text(record, "slug");
        let price = price(record, "priceUsd");
        let price = if price == "free" { price } else { format!("{price}, play money") };
        let most = any(record, "maxPriceUsd");
        let price = if most.is_empty() { price } else { format!("{price}, at most ${most}") };
        let head = format!("{slug}  {}  {price}   edit {}/dashboard/tools/{slug}/edit", text(record, "url"), self.bench.host.url);
        if self.head != head {
            self.bench.teller.beside(&head)?;
            if self.head.is_empty() && keys.are_there() {
                self.bench.teller.out().note(keys::HELP);
            }
            self.head = head;
        }
        Ok(())
    }

    fn tell_untold(&mut self) -> Result {
        match self.untold.take() {
            Some((version, took)) => self.bench.teller.event("", json!({}), &published(&version, took)),
            None => Ok(()),
        }
    }

    fn tell_looked(&mut self, looked: &Looked) -> Result {
        let teller = self.bench.teller;
        let mut parts = vec![];
        match &looked.types {
            None => {}
            Some(Ok(Types::Checked(problems))) if problems.is_empty() => parts.push("types ok".to_owned()),
            Some(Ok(Types::Checked(problems))) => {
                for problem in problems {
                    teller.problem(problem)?;
                }
            }
            Some(Ok(Types::Unchecked(why))) => parts.push(format!("types not checked: {why}")),
            Some(Err(why)) => parts.push(format!("types not checked: {}", line(why))),
        }
        if let Some(problem) = &looked.problem {
            teller.problem(problem)?;
        }
        if let Some(tried) = &looked.cases {
            parts.push(format!("cases {}", tried.told()));
            match &tried.problems[..] {
                [one] if one.place.line.is_none() => parts.push(line(&one.message)),
                several => {
                    for problem in several {
                        teller.problem(problem)?;
                    }
                }
            }
        }
        if teller.out().json {
            let cases = looked
                .cases
                .as_ref()
                .map(|tried| json!({ "passed": tried.passed, "failed": tried.problems.len(), "problems": tried.problems }));
            return teller.event("looked", json!({ "types": types_told(looked), "cases": cases }), "");
        }
        let found = parts.join("   ");
        match self.untold.take() {
            Some((version, took)) if found.is_empty() => teller.event("", json!({}), &published(&version, took)),
            Some((version, took)) => teller.event("", json!({}), &format!("{}   {found}", published(&version, took))),
            None if found.is_empty() => Ok(()),
            None => teller.beside(&format!("          {found}")),
        }
    }

    /// Reports the next call or log line.
    ///
    /// # Errors
    ///
    /// Nobody reads the output.
    pub(super) async fn followed(&mut self) -> Result {
        let Some(serving) = &mut self.serving else { return std::future::pending().await };
        let (teller, folder) = (self.bench.teller, &self.bench.folder);
        match serving.stream.next().await {
            Happened::Call(call, logs) => {
                teller.call(&call)?;
                logs.iter().try_for_each(|log| teller.log(folder, log))
            }
            Happened::Log(log) => teller.log(folder, &log),
        }
    }

    /// Calls the tool as its owner. The call is reported like any other, together with the answer.
    pub(super) fn call(&mut self) {
        let Some(slug) = self.serving.as_ref().map(|serving| serving.slug.clone()) else { return };
        let bench = Arc::clone(&self.bench);
        self.calls = Some(tokio::spawn(async move {
            let words = match round::call(&bench, &slug).await {
                Ok((case, status, answer)) => format!("answer of \"{}\"  {status}  {}", line(&case), first(&answer, 400)),
                Err(error) => line(&error.message),
            };
            _ = bench.teller.event("answer", json!({}), &words);
        }));
    }

    /// Opens the tool's page, signed in.
    ///
    /// # Errors
    ///
    /// Nobody reads the output.
    pub(super) async fn open(&self) -> Result {
        let link = self.bench.host.client.post(&["ai", "builders", "sign-in-links"]).send().await?;
        let url = text(&link.body, "url").parse().map_err(|_| Error::refused("the host answered with no address"))?;
        if !open::on_a_screen(&url) {
            self.bench.teller.beside(&format!("          {url}"))?;
        }
        Ok(())
    }
}

impl Drop for Publishes {
    fn drop(&mut self) {
        for task in [self.round.take(), self.calls.take()].into_iter().flatten() {
            task.abort();
        }
    }
}

fn published(version: &str, took: Duration) -> String {
    format!("published {} in {} ms", short(version), took.as_millis())
}

fn types_told(looked: &Looked) -> Value {
    match &looked.types {
        None => Value::Null,
        Some(Ok(Types::Checked(problems))) => json!({ "checked": true, "problems": problems }),
        Some(Ok(Types::Unchecked(why))) => json!({ "checked": false, "why": why }),
        Some(Err(why)) => json!({ "checked": false, "why": why }),
    }
}
