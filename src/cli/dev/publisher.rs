//! Handles saves, and keeps track of the version that serves.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tollhouse_base::clock::Clock;

use super::{
    keys::{self, RawKeys},
    save_cycle::{self, CheckedFolder, SaveStep, StepListener},
    stream::{DevEvent, Stream},
    watch::{FolderWatcher, is_blocking},
    workspace::Workspace,
};
use crate::{
    base::{
        changed::short,
        error::{Error, Result},
        output::Style,
        sanitize::{first, line},
        text::{any, list, price, text},
    },
    open,
    tool::{position::Problem, types::TypesOutcome},
};

/// The version that serves.
struct ServedHost {
    slug: String,
    id: String,
    version: String,
    stream: Stream,
}

/// The saves, one after the other. A new save aborts an unfinished one.
pub(super) struct Publisher {
    fixture: Arc<Workspace>,
    reporter: StepListener,
    number: u64,
    round: Option<JoinHandle<()>>,
    calls: Option<JoinHandle<()>>,
    serving: Option<ServedHost>,
    /// The header line that was last printed.
    head: String,
    /// A publish that has not been reported yet, so that it can be reported together with its check results.
    unreported: Option<(String, Duration)>,
    /// The problems of the last refused save, which were already reported.
    refused: Vec<Problem>,
    since: String,
}

impl Publisher {
    pub(super) fn new(fixture: Arc<Workspace>, report: StepListener) -> Self {
        let now = i64::try_from(Clock::default().now().0).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
        let since = now.map(|now| now.to_string()).unwrap_or_default();
        let none = (None, None, None, None);
        Self {
            fixture,
            reporter: report,
            number: 0,
            round: none.0,
            calls: none.1,
            serving: none.2,
            head: String::new(),
            unreported: none.3,
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
        self.round = Some(tokio::spawn(save_cycle::run(Arc::clone(&self.fixture), self.number, self.reporter.clone())));
    }

    /// Runs the cases again.
    pub(super) fn start_cases(&mut self) {
        self.refused.clear();
        self.begin();
    }

    /// Reports a step. For a round that was replaced, only reports what serves.
    ///
    /// # Errors
    ///
    /// Nobody reads the output, or the host has failed.
    pub(super) fn ended(&mut self, (number, step): (u64, SaveStep), watch: &FolderWatcher, keys: &RawKeys) -> Result {
        let is_past = number != self.number;
        match step {
            SaveStep::Published { upload, record, elapsed, problems } => {
                self.print_unreported()?;
                self.refused.clear();
                watch.add(upload.files(), BTreeSet::new());
                let version = text(&record, "version").to_owned();
                if let Some(bundle) = &upload.bundle {
                    bundle.map.keep(&self.fixture.folder, &version);
                }
                self.serve(&record)?;
                self.print_head(&record, keys)?;
                let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
                if self.fixture.teller.out().json {
                    let members = json!({ "slug": record["slug"], "version": version, "url": record["url"], "tookMs": millis, "warnings": record["warnings"] });
                    self.fixture.teller.event("published", members, "")?;
                } else {
                    for warning in list(&record, "warnings").filter_map(Value::as_str) {
                        self.fixture.teller.event(
                            "",
                            json!({}),
                            &format!("{}  {}", self.fixture.teller.out().paint(Style::Odd, "  warn"), line(warning)),
                        )?;
                    }
                    self.unreported = Some((version, elapsed));
                }
                problems.iter().try_for_each(|problem| self.fixture.teller.problem(problem))?;
            }
            _ if is_past => {}
            SaveStep::Same { upload } => {
                self.refused.clear();
                watch.add(upload.files(), BTreeSet::new());
            }
            SaveStep::Refused { problems, files } => {
                let hindering = is_blocking(&self.fixture.folder, &problems);
                // A bundle is retried even without a save, so report only a different outcome.
                let is_told = !hindering.is_empty() && problems == self.refused;
                watch.add(files, hindering);
                if is_told {
                    return Ok(());
                }
                self.print_unreported()?;
                for problem in &problems {
                    self.fixture.teller.problem(problem)?;
                }
                self.fixture.teller.aside(&match &self.serving {
                    Some(serving) => format!("          {} serves on", short(&serving.version)),
                    None => format!("          nothing is served yet, on {}", self.fixture.host.url),
                })?;
                self.refused = problems;
            }
            SaveStep::Late => self.print_unreported()?,
            SaveStep::Looked(checked) => self.print_check(&checked)?,
            SaveStep::Broke(error) => return Err(error),
        }
        Ok(())
    }

    /// Follows the published tool, if it is a different one.
    fn serve(&mut self, record: &Value) -> Result {
        let (slug, id, version) = (text(record, "slug"), text(record, "id"), text(record, "version"));
        let before = self.serving.take();
        match before {
            Some(serving) if serving.id == id => self.serving = Some(ServedHost { version: version.to_owned(), ..serving }),
            before => {
                // If the tool was renamed, remove the one with the old name.
                if let Some(other) = before.filter(|other| other.slug != slug).map(|other| other.slug) {
                    let host = Arc::clone(&self.fixture.host);
                    tokio::spawn(async move { host.remove(&other).await });
                }
                let stream = Stream::of(&self.fixture.host, slug, &self.since, self.fixture.teller.out());
                self.serving = Some(ServedHost { slug: slug.to_owned(), id: id.to_owned(), version: version.to_owned(), stream });
            }
        }
        Ok(())
    }

    /// Prints the tool's address and price, once and whenever they change.
    fn print_head(&mut self, record: &Value, keys: &RawKeys) -> Result {
        let slug = text(record, "slug");
        let price = price(record, "priceUsd");
        let price = if price == "free" { price } else { format!("{price}, play money") };
        let max = any(record, "maxPriceUsd");
        let price = if max.is_empty() { price } else { format!("{price}, at most ${max}") };
        let head = format!("{slug}  {}  {price}   edit {}/dashboard/tools/{slug}/edit", text(record, "url"), self.fixture.host.url);
        if self.head != head {
            self.fixture.teller.aside(&head)?;
            if self.head.is_empty() && keys.are_there() {
                self.fixture.teller.out().note(keys::HELP);
            }
            self.head = head;
        }
        Ok(())
    }

    fn print_unreported(&mut self) -> Result {
        match self.unreported.take() {
            Some((version, elapsed)) => self.fixture.teller.event("", json!({}), &published(&version, elapsed)),
            None => Ok(()),
        }
    }

    fn print_check(&mut self, checked: &CheckedFolder) -> Result {
        let teller = self.fixture.teller;
        let mut parts = vec![];
        match &checked.types {
            None => {}
            Some(Ok(TypesOutcome::Checked(problems))) if problems.is_empty() => parts.push("types ok".to_owned()),
            Some(Ok(TypesOutcome::Checked(problems))) => {
                for problem in problems {
                    teller.problem(problem)?;
                }
            }
            Some(Ok(TypesOutcome::Unchecked(reason))) => parts.push(format!("types not checked: {reason}")),
            Some(Err(reason)) => parts.push(format!("types not checked: {}", line(reason))),
        }
        if let Some(problem) = &checked.problem {
            teller.problem(problem)?;
        }
        if let Some(tried) = &checked.cases {
            parts.push(format!("cases {}", tried.summary()));
            match &tried.problems[..] {
                [one] if one.position.line.is_none() => parts.push(line(&one.message)),
                several => {
                    for problem in several {
                        teller.problem(problem)?;
                    }
                }
            }
        }
        if teller.out().json {
            let cases = checked
                .cases
                .as_ref()
                .map(|tried| json!({ "passed": tried.passed, "failed": tried.problems.len(), "problems": tried.problems }));
            return teller.event("looked", json!({ "types": types_json(checked), "cases": cases }), "");
        }
        let found = parts.join("   ");
        match self.unreported.take() {
            Some((version, elapsed)) if found.is_empty() => teller.event("", json!({}), &published(&version, elapsed)),
            Some((version, elapsed)) => teller.event("", json!({}), &format!("{}   {found}", published(&version, elapsed))),
            None if found.is_empty() => Ok(()),
            None => teller.aside(&format!("          {found}")),
        }
    }

    /// Reports the next call or log line.
    ///
    /// # Errors
    ///
    /// Nobody reads the output.
    pub(super) async fn followed(&mut self) -> Result {
        let Some(serving) = &mut self.serving else { return std::future::pending().await };
        let (teller, folder) = (self.fixture.teller, &self.fixture.folder);
        match serving.stream.next().await {
            DevEvent::Call(call, logs) => {
                teller.call(&call)?;
                logs.iter().try_for_each(|log| teller.log(folder, log))
            }
            DevEvent::Log(log) => teller.log(folder, &log),
        }
    }

    /// Calls the tool as its owner. The call is reported like any other, together with the answer.
    pub(super) fn call(&mut self) {
        let Some(slug) = self.serving.as_ref().map(|serving| serving.slug.clone()) else { return };
        let fixture = Arc::clone(&self.fixture);
        self.calls = Some(tokio::spawn(async move {
            let words = match save_cycle::call(&fixture, &slug).await {
                Ok((case, status, answer)) => format!("answer of \"{}\"  {status}  {}", line(&case), first(&answer, 400)),
                Err(error) => line(&error.message),
            };
            _ = fixture.teller.event("answer", json!({}), &words);
        }));
    }

    /// Opens the tool's page, signed in.
    ///
    /// # Errors
    ///
    /// Nobody reads the output.
    pub(super) async fn open(&self) -> Result {
        let link = self.fixture.host.client.post(&["ai", "builders", "sign-in-links"]).send().await?;
        let url = text(&link.body, "url").parse().map_err(|_| Error::refused("the host answered with no address"))?;
        if !open::on_a_screen(&url) {
            self.fixture.teller.aside(&format!("          {url}"))?;
        }
        Ok(())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        for task in [self.round.take(), self.calls.take()].into_iter().flatten() {
            task.abort();
        }
    }
}

fn published(version: &str, elapsed: Duration) -> String {
    format!("published {} in {} ms", short(version), elapsed.as_millis())
}

fn types_json(checked: &CheckedFolder) -> Value {
    match &checked.types {
        None => Value::Null,
        Some(Ok(TypesOutcome::Checked(problems))) => json!({ "checked": true, "problems": problems }),
        Some(Ok(TypesOutcome::Unchecked(reason))) => json!({ "checked": false, "why": reason }),
        Some(Err(reason)) => json!({ "checked": false, "why": reason }),
    }
}
