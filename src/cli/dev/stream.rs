//! Follows events on the host: calls, each with the log lines of its handler.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde::de::DeserializeOwned;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tollhouse_api::{Call, LogLine};
use tollhouse_base::id::CallId;

use crate::{
    base::{Output, follow},
    local::LocalHost,
};

/// How long a log line waits for its call to end, so that it can be printed below it.
const WAIT: Duration = Duration::from_secs(1);
/// Number of reported calls that are remembered.
const REMEMBERED: usize = 256;

/// An event to report.
pub(super) enum DevEvent {
    Call(Box<Call>, Vec<LogLine>),
    Log(LogLine),
}

enum Entry {
    Call(Box<Call>),
    Log(LogLine),
}

/// The calls and log lines of a tool, from a given time on.
pub(super) struct Stream {
    entries: mpsc::UnboundedReceiver<Entry>,
    tasks: Vec<JoinHandle<()>>,
    waiting: VecDeque<(Instant, LogLine)>,
    seen: VecDeque<CallId>,
}

impl Stream {
    pub(super) fn of(host: &Arc<LocalHost>, slug: &str, since: &str, out: Output) -> Self {
        let (send, entries) = mpsc::unbounded_channel();
        let tasks = vec![
            spawn(host, slug, "calls", since, out, send.clone(), |call| Entry::Call(Box::new(call))),
            spawn(host, slug, "logs", since, out, send, Entry::Log),
        ];
        Self { entries, tasks, waiting: VecDeque::new(), seen: VecDeque::new() }
    }

    /// Returns the next event. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> DevEvent {
        loop {
            let until = self.waiting.front().map(|(since, _)| *since + WAIT);
            let late = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let entry = tokio::select! {
                entry = self.entries.recv() => entry,
                () = late => match self.waiting.pop_front() {
                    Some((_, log)) => return DevEvent::Log(log),
                    None => continue,
                },
            };
            match entry {
                Some(Entry::Call(call)) => {
                    let is_own = |(_, log): &(Instant, LogLine)| log.call_id.as_ref() == Some(&call.call_id);
                    let (own, others): (VecDeque<_>, _) = self.waiting.drain(..).partition(is_own);
                    self.waiting = others;
                    self.seen.push_back(call.call_id.clone());
                    if self.seen.len() > REMEMBERED {
                        self.seen.pop_front();
                    }
                    return DevEvent::Call(call, own.into_iter().map(|(_, log)| log).collect());
                }
                Some(Entry::Log(log)) if self.seen.iter().any(|id| Some(id) == log.call_id.as_ref()) => return DevEvent::Log(log),
                Some(Entry::Log(log)) => self.waiting.push_back((Instant::now(), log)),
                None => std::future::pending().await,
            }
        }
    }
}

/// Follows a list of a tool until the tool or the host ends.
fn spawn<T: DeserializeOwned + Send + 'static>(
    host: &Arc<LocalHost>,
    slug: &str,
    list: &'static str,
    since: &str,
    out: Output,
    send: mpsc::UnboundedSender<Entry>,
    entry: fn(T) -> Entry,
) -> JoinHandle<()> {
    let (host, slug, since) = (Arc::clone(host), slug.to_owned(), since.to_owned());
    tokio::spawn(async move {
        let ask = |_| host.client.get(&["ai", "endpoints", &slug, list]).query("since", &since);
        _ = follow(out, ask, |value| Ok(send.send(entry(value)).is_ok())).await;
    })
}

impl Drop for Stream {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
