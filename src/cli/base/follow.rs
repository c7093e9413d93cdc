//! Follows a stream of a host. After an interruption it continues where it broke off, and reports missed entries.

use std::{
    io,
    time::{Duration, Instant},
};

use reqwest::header;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::{
    answer::Answer,
    client::{PendingRequest, SILENCE},
    error::{Error, Exit, Result},
    output::{Output, Style},
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

/// Follows the stream that `ask` requests, until Ctrl-C, until nobody reads the output, or until `told` returns that it
/// is enough. Each entry is passed to `told` once. If a connection breaks before any entry has come, `ask` gets the
/// time to start from.
///
/// # Errors
///
/// The host's refusal, or a host that was never reachable. A host that goes away later is waited for.
pub(crate) async fn follow<'c>(
    out: Output,
    ask: impl Fn(Option<String>) -> PendingRequest<'c>,
    mut reported: impl FnMut(Value) -> Result<bool>,
) -> Result {
    let following = Following { out, started: Instant::now(), last: None, retry: FIRST };
    tokio::select! {
        ended = following.run(ask, &mut reported) => ended,
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

struct Following {
    out: Output,
    started: Instant,
    /// Id of the last entry.
    last: Option<String>,
    /// Delay before the next attempt to reconnect.
    retry: Duration,
}

impl Following {
    async fn run<'c>(
        mut self,
        ask: impl Fn(Option<String>) -> PendingRequest<'c>,
        reported: &mut impl FnMut(Value) -> Result<bool>,
    ) -> Result {
        let mut lost: Option<Instant> = None;
        let mut wait = FIRST;
        loop {
            match self.connect(lost.is_some(), &ask).await {
                Ok(response) => {
                    if let Some(since) = lost.take() {
                        self.back(since);
                    }
                    let (started, position) = (Instant::now(), self.last.clone());
                    if let ConnectionEnd::Enough = self.read(response, reported).await? {
                        return Ok(());
                    }
                    // If it breaks at once repeatedly, reconnect less often.
                    wait = if started.elapsed() > STEADY || self.last != position { FIRST } else { (wait * 2).min(LAST) };
                }
                // Do not wait for a host that was never reachable or that refuses.
                Err(error) if lost.is_none() || error.exit != Exit::Away && error.code() != "rate_limited" => return Err(error),
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
        Answer::of(response).await?;
        Err(Error::refused("the host answered with no stream").hint("what stands before it may not let streams through"))
    }

    async fn read(&mut self, mut response: reqwest::Response, reported: &mut impl FnMut(Value) -> Result<bool>) -> Result<ConnectionEnd> {
        let mut reader = Reader::default();
        loop {
            let Ok(Ok(Some(chunk))) = tokio::time::timeout(SILENCE, response.chunk()).await else { return Ok(ConnectionEnd::Lost) };
            let events = reader.take(&chunk).map_err(|_| Error::refused("the host sent an event that is too large to be one"))?;
            self.retry = reader.retry.map_or(self.retry, |millis| Duration::from_millis(millis).min(LAST));
            for event in events {
                if let Some(ended) = self.event(event, reported)? {
                    return Ok(ended);
                }
            }
        }
    }

    fn event(&mut self, event: Event, reported: &mut impl FnMut(Value) -> Result<bool>) -> Result<Option<ConnectionEnd>> {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        match event.name.as_str() {
            "lagged" => {
                self.notify(&format!("{} were missed: they came faster than they were read, and are in the pages", data["missed"]));
            }
            // The host's store is unavailable. Reconnecting will deliver what was missed meanwhile.
            "error" => return Ok(Some(ConnectionEnd::Lost)),
            _ => {
                self.last = event.id.or(self.last.take());
                if !reported(data)? {
                    return Ok(Some(ConnectionEnd::Enough));
                }
            }
        }
        Ok(None)
    }

    /// Reports the reconnection. Nothing is missing, because the host sends everything after the last entry from its
    /// store.
    fn back(&self, since: Instant) {
        self.notify(&format!("connection lost, back after {:.1} s, nothing missed", since.elapsed().as_secs_f64()));
    }

    fn notify(&self, words: &str) {
        self.out.note(&self.out.paint(Style::Quiet, &format!("          — {words} —")));
    }
}
