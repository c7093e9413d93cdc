//! Follows a stream of a host. After an interruption it continues where it broke off, and reports missed entries.

use std::{
    io,
    time::{Duration, Instant},
};

use reqwest::header;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tollhouse_base::plural::plural;

use super::{
    Answer, Error, Exit, Output, PendingRequest, Result, Style,
    client::SILENCE,
    sse::{Event, Reader},
};

/// Delay before the first attempts to reconnect.
const FIRST: Duration = Duration::from_millis(200);
/// Maximum delay before an attempt to reconnect.
const LAST: Duration = Duration::from_secs(10);

/// How long a connection must last to count as stable.
const STEADY: Duration = Duration::from_secs(5);

/// How an established connection ended.
enum ConnectionEnd {
    /// It broke, or the host closed it.
    Lost,
    /// The reader has enough.
    Enough,
}

/// Follows the stream that `ask` requests, until Ctrl-C, until the output is closed, or until `report` returns
/// `false`. Each entry is passed to `report` once. If a connection breaks before any entry has come, `ask` gets the
/// time to start from.
///
/// # Errors
///
/// The host's refusal, or a host that was never reachable. A host that goes away later is waited for.
pub(crate) async fn follow<'c, T: DeserializeOwned>(
    out: Output,
    ask: impl Fn(Option<String>) -> PendingRequest<'c>,
    mut report: impl FnMut(T) -> Result<bool>,
) -> Result {
    let following = Following { out, started: Instant::now(), last: None, retry: FIRST };
    tokio::select! {
        ended = following.run(ask, &mut report) => ended,
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        () = is_reader_gone() => Ok(()),
    }
}

/// How often to check whether somebody reads standard output.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Waits until the reader of standard output has gone, such as `head`. Without new entries, no write would notice that.
pub(crate) async fn is_reader_gone() {
    let stdout = io::stdout();
    loop {
        let mut request = [PollFd::new(&stdout, PollFlags::empty())];
        // A file never reports that; a pipe or socket does.
        if poll(&mut request, Some(&Timespec::default())).is_ok() && request[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return;
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Data of the event `lagged`.
#[derive(Deserialize)]
struct Lagged {
    /// Number of entries that were not sent.
    missed: u64,
}

struct Following {
    out: Output,
    started: Instant,
    /// Id of the last entry.
    last: Option<String>,
    /// Delay before the next attempt to reconnect.
    retry: Duration,
}

impl Following {
    async fn run<'c, T: DeserializeOwned>(
        mut self,
        ask: impl Fn(Option<String>) -> PendingRequest<'c>,
        report: &mut impl FnMut(T) -> Result<bool>,
    ) -> Result {
        let mut lost: Option<Instant> = None;
        let mut wait = FIRST;
        loop {
            match self.connect(lost.is_some(), &ask).await {
                Ok(response) => {
                    if let Some(since) = lost.take() {
                        // Nothing is missing, because the host sends everything after the last entry from its store.
                        self.notify(&format!("reconnected after {:.1} s, nothing missed", since.elapsed().as_secs_f64()));
                    }
                    let (started, position) = (Instant::now(), self.last.clone());
                    if let ConnectionEnd::Enough = self.read(response, report).await? {
                        return Ok(());
                    }
                    // If it breaks at once repeatedly, reconnect less often.
                    wait = if started.elapsed() > STEADY || self.last != position { FIRST } else { (wait * 2).min(LAST) };
                }
                // Do not wait for a host that was never reachable or that refuses.
                Err(error) if lost.is_none() || error.exit != Exit::Unavailable && error.code() != "rate_limited" => return Err(error),
                Err(_) => wait = (wait * 2).min(LAST),
            }
            lost.get_or_insert_with(Instant::now);
            tokio::time::sleep(wait.max(self.retry)).await;
        }
    }

    async fn connect<'c>(&self, again: bool, ask: &impl Fn(Option<String>) -> PendingRequest<'c>) -> Result<reqwest::Response> {
        let (since, last) = match &self.last {
            Some(last) => (None, Some(last)),
            None if again => (Some(format!("{}s", self.started.elapsed().as_secs() + 1)), None),
            None => (None, None),
        };
        let mut asking = ask(since).header("accept", "text/event-stream");
        if let Some(last) = last {
            asking = asking.header("last-event-id", last);
        }
        let response = asking.open().await?;
        let is_stream = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if response.status().is_success() && is_stream {
            return Ok(response);
        }
        Answer::<Value>::of(response).await?;
        Err(Error::refused("the host did not answer with a stream").hint("a proxy in front of it can block streams"))
    }

    async fn read<T: DeserializeOwned>(
        &mut self,
        mut response: reqwest::Response,
        report: &mut impl FnMut(T) -> Result<bool>,
    ) -> Result<ConnectionEnd> {
        let mut reader = Reader::default();
        loop {
            let Ok(Ok(Some(chunk))) = tokio::time::timeout(SILENCE, response.chunk()).await else { return Ok(ConnectionEnd::Lost) };
            let events = reader.take(&chunk).map_err(|_| Error::refused("the host sent an event that is too large"))?;
            self.retry = reader.retry.map_or(self.retry, |millis| Duration::from_millis(millis).min(LAST));
            for event in events {
                if let Some(ended) = self.event(event, report)? {
                    return Ok(ended);
                }
            }
        }
    }

    fn event<T: DeserializeOwned>(&mut self, event: Event, report: &mut impl FnMut(T) -> Result<bool>) -> Result<Option<ConnectionEnd>> {
        let unreadable = |error| Error::refused(format!("the host sent an invalid event: {error}"));
        match event.name.as_str() {
            "lagged" => {
                let Lagged { missed } = serde_json::from_str(&event.data).map_err(unreadable)?;
                self.notify(&format!("skipped {} because they arrived too fast; list them without --follow", plural(missed, "entry")));
            }
            // The host's store is unavailable, and reconnecting will deliver the missed entries. Or the credential is
            // no longer valid, and the host will refuse the next request.
            "error" => return Ok(Some(ConnectionEnd::Lost)),
            _ => {
                let entry = serde_json::from_str(&event.data).map_err(unreadable)?;
                self.last = event.id.or(self.last.take());
                if !report(entry)? {
                    return Ok(Some(ConnectionEnd::Enough));
                }
            }
        }
        Ok(None)
    }

    fn notify(&self, words: &str) {
        self.out.note(&self.out.paint(Style::Dim, &format!("          — {words} —")));
    }
}
