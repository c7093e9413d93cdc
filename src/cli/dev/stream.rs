//! Follows events on the host: calls, each with the log lines of its handler.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use crate::{
    base::{follow::follow, output::Output, text::text},
    local::LocalHost,
};

/// How long a log line waits for its call to end, so that it can be printed below it.
const WAIT: Duration = Duration::from_secs(1);
/// Number of reported calls that are remembered.
const REMEMBERED: usize = 256;

/// An event to report.
pub(super) enum DevEvent {
    Call(Value, Vec<Value>),
    Log(Value),
}

enum Entry {
    Call(Value),
    Log(Value),
}

/// The calls and log lines of a tool, from a given time on.
pub(super) struct Stream {
    entries: mpsc::UnboundedReceiver<Entry>,
    tasks: Vec<JoinHandle<()>>,
    waiting: VecDeque<(Instant, Value)>,
    seen: VecDeque<String>,
}

impl Stream {
    pub(super) fn of(host: &Arc<LocalHost>, slug: &str, since: &str, out: Output) -> Self {
        let (send, entries) = mpsc::unbounded_channel();
        let kinds: [(_, fn(_) -> _); 2] = [("calls", Entry::Call), ("logs", Entry::Log)];
        let tasks = kinds.map(|(name, entry)| {
            let (host, slug, since, send) = (Arc::clone(host), slug.to_owned(), since.to_owned(), send.clone());
            tokio::spawn(async move {
                let ask = |_| host.client.get(&["ai", "endpoints", &slug, name]).query("since", &since);
                // It ends with the tool or the host.
                _ = follow(out, ask, |value| Ok(send.send(entry(value)).is_ok())).await;
            })
        });
        Self { entries, tasks: tasks.into(), waiting: VecDeque::new(), seen: VecDeque::new() }
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
                    let id = text(&call, "callId").to_owned();
                    let (own, others) = self.waiting.drain(..).partition(|(_, log)| text(log, "callId") == id);
                    self.waiting = others;
                    let own: VecDeque<(Instant, Value)> = own;
                    self.seen.push_back(id);
                    if self.seen.len() > REMEMBERED {
                        self.seen.pop_front();
                    }
                    return DevEvent::Call(call, own.into_iter().map(|(_, log)| log).collect());
                }
                Some(Entry::Log(log)) if self.seen.iter().any(|id| id == text(&log, "callId")) => return DevEvent::Log(log),
                Some(Entry::Log(log)) => self.waiting.push_back((Instant::now(), log)),
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
