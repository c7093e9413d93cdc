//! Handles saves, and keeps track of the version that serves.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tollhouse_api::{OwnEndpoint, SignInLink};
use tollhouse_base::id::EndpointId;
use tollhouse_tool::Slug;

use super::{
    keys::{self, RawKeys},
    save_cycle::{self, CheckedFolder, SaveStep, StepListener},
    stream::{DevEvent, Stream},
    watch::{FolderWatcher, is_blocking},
    workspace::Workspace,
};
use crate::{
    base::{Error, Result, Style, first, line, now, price, short, usd},
    open,
    tool::{Problem, TypesOutcome},
};

/// The version that serves.
struct ServedHost {
    slug: Slug,
    id: EndpointId,
    version: String,
    stream: Stream,
}

/// The saves, one after the other. A new save aborts an unfinished one.
pub(super) struct Publisher {
    workspace: Arc<Workspace>,
    listener: StepListener,
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
    pub(super) fn new(workspace: Arc<Workspace>, report: StepListener) -> Self {
        Self {
            workspace,
            listener: report,
            number: 0,
            round: None,
            calls: None,
            serving: None,
            head: String::new(),
            unreported: None,
            refused: vec![],
            since: now().to_string(),
        }
    }

    /// Publishes the folder's current state.
    pub(super) fn begin(&mut self) {
        if let Some(round) = self.round.take() {
            round.abort();
        }
        self.number += 1;
        self.round = Some(tokio::spawn(save_cycle::run(Arc::clone(&self.workspace), self.number, self.listener.clone())));
    }

    /// Runs the cases again.
    pub(super) fn start_cases(&mut self) {
        self.refused.clear();
        self.begin();
    }

    /// Reports a step. Of a round that was replaced, reports only the version that is now served.
    ///
    /// # Errors
    ///
    /// Nobody reads the output, or the host has failed.
    pub(super) fn ended(&mut self, (number, step): (u64, SaveStep), watch: &FolderWatcher, keys: &RawKeys) -> Result {
        let (is_past, reporter) = (number != self.number, self.workspace.reporter);
        match step {
            SaveStep::Published { upload, published, elapsed, problems } => {
                let (record, warnings) = (published.endpoint, published.warnings);
                let warnings: Vec<_> = warnings.iter().map(|warning| upload.warning(warning)).collect();
                self.print_unreported()?;
                self.refused.clear();
                watch.add(upload.files(), BTreeSet::new());
                if let Some(bundle) = &upload.bundle {
                    bundle.map.keep(&self.workspace.folder, &record.version);
                }
                self.serve(&record);
                self.print_head(&record, keys)?;
                let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
                if reporter.out().json {
                    let members = json!({ "slug": record.common.slug, "version": record.version, "url": record.common.url, "tookMs": millis, "warnings": warnings });
                    reporter.event("published", members, "")?;
                } else {
                    for warning in &warnings {
                        reporter.line(&format!("{}  {}", reporter.out().paint(Style::Warning, "  warn"), line(warning)))?;
                    }
                    self.unreported = Some((record.version, elapsed));
                }
                reporter.problems(&problems)?;
            }
            _ if is_past => {}
            SaveStep::Same { upload } => {
                self.refused.clear();
                watch.add(upload.files(), BTreeSet::new());
            }
            SaveStep::Refused { problems, files } => {
                let hindering = is_blocking(&self.workspace.folder, &problems);
                // A bundle is retried even without a save, so report only a different outcome.
                let is_reported = !hindering.is_empty() && problems == self.refused;
                watch.add(files, hindering);
                if is_reported {
                    return Ok(());
                }
                self.print_unreported()?;
                reporter.problems(&problems)?;
                reporter.aside(&match &self.serving {
                    Some(serving) => format!("          {} keeps serving", short(&serving.version)),
                    None => format!("          not serving yet; address: {}", self.workspace.host.url),
                })?;
                self.refused = problems;
            }
            SaveStep::Late => self.print_unreported()?,
            SaveStep::Checked(checked) => self.print_check(&checked)?,
            SaveStep::HostFailed(error) => return Err(error),
        }
        Ok(())
    }

    /// Follows the published tool, if it is a different one.
    fn serve(&mut self, record: &OwnEndpoint) {
        let (slug, version) = (record.common.slug.clone(), record.version.clone());
        self.serving = Some(match self.serving.take() {
            Some(serving) if serving.id == record.common.id => ServedHost { version, ..serving },
            before => {
                // If the tool was renamed, remove the one with the old name.
                if let Some(other) = before.filter(|other| other.slug != slug).map(|other| other.slug) {
                    let host = Arc::clone(&self.workspace.host);
                    tokio::spawn(async move { host.remove(other.as_str()).await });
                }
                let stream = Stream::of(&self.workspace.host, slug.as_str(), &self.since, self.workspace.reporter.out());
                ServedHost { slug, id: record.common.id.clone(), version, stream }
            }
        });
    }

    /// Prints the tool's address and price, once and whenever they change.
    fn print_head(&mut self, record: &OwnEndpoint, keys: &RawKeys) -> Result {
        let (slug, url) = (&record.common.slug, &record.common.url);
        let price = price(record.common.price_usd);
        let price = if price == "free" { price } else { format!("{price}, play money") };
        let price = record.max_price_usd.map_or(price.clone(), |max| format!("{price}, at most {}", usd(max)));
        let head = format!("{slug}  {url}  {price}   edit {}/dashboard/tools/{slug}/edit", self.workspace.host.url);
        if self.head != head {
            self.workspace.reporter.aside(&head)?;
            if self.head.is_empty() && keys.are_there() {
                self.workspace.reporter.out().note(keys::HELP);
            }
            self.head = head;
        }
        Ok(())
    }

    fn print_unreported(&mut self) -> Result {
        match self.unreported.take() {
            Some((version, elapsed)) => self.workspace.reporter.line(&published(&version, elapsed)),
            None => Ok(()),
        }
    }

    fn print_check(&mut self, checked: &CheckedFolder) -> Result {
        let reporter = self.workspace.reporter;
        let mut parts = vec![];
        match &checked.types {
            None => {}
            Some(Ok(TypesOutcome::Checked(problems))) if problems.is_empty() => parts.push("types ok".to_owned()),
            Some(Ok(TypesOutcome::Checked(problems))) => reporter.problems(problems)?,
            Some(Ok(TypesOutcome::Unchecked(reason))) => parts.push(format!("types not checked: {reason}")),
            Some(Err(reason)) => parts.push(format!("types not checked: {}", line(reason))),
        }
        reporter.problems(&checked.problem)?;
        if let Some(tried) = &checked.cases {
            parts.push(format!("cases {}", tried.summary()));
            match &tried.problems[..] {
                [one] if one.position.line.is_none() => parts.push(line(&one.message)),
                several => reporter.problems(several)?,
            }
        }
        if reporter.out().json {
            let cases = checked
                .cases
                .as_ref()
                .map(|tried| json!({ "passed": tried.passed, "failed": tried.problems.len(), "problems": tried.problems }));
            return reporter.event("looked", json!({ "types": types_json(checked), "cases": cases }), "");
        }
        let found = parts.join("   ");
        match self.unreported.take() {
            Some((version, elapsed)) if found.is_empty() => reporter.line(&published(&version, elapsed)),
            Some((version, elapsed)) => reporter.line(&format!("{}   {found}", published(&version, elapsed))),
            None if found.is_empty() => Ok(()),
            None => reporter.aside(&format!("          {found}")),
        }
    }

    /// Reports the next call or log line.
    pub(super) async fn followed(&mut self) -> Result {
        let Some(serving) = &mut self.serving else { return std::future::pending().await };
        let (reporter, folder) = (self.workspace.reporter, &self.workspace.folder);
        match serving.stream.next().await {
            DevEvent::Call(call, logs) => {
                reporter.call(&call)?;
                logs.iter().try_for_each(|log| reporter.log(folder, log))
            }
            DevEvent::Log(log) => reporter.log(folder, &log),
        }
    }

    /// Calls the tool as its owner. The call is reported like any other, together with the answer.
    pub(super) fn call(&mut self) {
        let Some(slug) = self.serving.as_ref().map(|serving| serving.slug.clone()) else { return };
        let workspace = Arc::clone(&self.workspace);
        self.calls = Some(tokio::spawn(async move {
            let words = match save_cycle::call(&workspace, slug.as_str()).await {
                Ok((case, status, answer)) => format!("answer of \"{}\"  {status}  {}", line(&case), first(&answer, 400)),
                Err(error) => line(&error.message),
            };
            _ = workspace.reporter.event("answer", json!({}), &words);
        }));
    }

    /// Runs the tool's first schedule. The stream prints its log and its end.
    pub(super) fn run_schedule(&mut self) {
        let Some(slug) = self.serving.as_ref().map(|serving| serving.slug.clone()) else { return };
        let workspace = Arc::clone(&self.workspace);
        self.calls = Some(tokio::spawn(async move {
            let words = match workspace.host.run_schedule(slug.as_str()).await {
                Ok(true) => return,
                Ok(false) => "the tool has no schedule: add one to `schedules` in tool.json".to_owned(),
                Err(error) => line(&error.message),
            };
            _ = workspace.reporter.event("schedule", json!({}), &words);
        }));
    }

    /// Opens the tool's page, signed in.
    pub(super) async fn open(&self) -> Result {
        let link: SignInLink = self.workspace.host.client.post(&["ai", "builders", "sign-in-links"]).send().await?.body;
        let url = link.url.parse().map_err(|_| Error::refused("the host's answer has no address"))?;
        if !open::on_a_screen(&url) {
            self.workspace.reporter.aside(&format!("          {url}"))?;
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
