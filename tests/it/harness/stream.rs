//! Server-Sent Events, read as they come.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::Value;

/// Maximum time for an event.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A stream that is being read.
pub struct Stream {
    response: Response,
    text: String,
    /// The reconnection time that the host has set, in milliseconds.
    pub retry: Option<u64>,
}

/// An event of a stream.
#[derive(Debug, Clone)]
pub struct StreamEvent {
    pub id: Option<String>,
    pub name: String,
    pub data: Value,
}

impl Stream {
    /// Requests a stream, and panics if the answer is not one.
    pub async fn open(request: RequestBuilder) -> Self {
        let response = request.header("accept", "text/event-stream").send().await.unwrap();
        let kind = response.headers().get("content-type").cloned();
        assert_eq!((response.status().as_u16(), kind.unwrap().to_str().unwrap()), (200, "text/event-stream"));
        Self { response, text: String::new(), retry: None }
    }

    /// Reads the next event, skipping comments; `None` if the stream has ended.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        tokio::time::timeout(TIMEOUT, self.read()).await.expect("no event came in time")
    }

    async fn read(&mut self) -> Option<StreamEvent> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let reported = parse_event(block);
                self.retry = field(block, "retry").map(|wait| wait.parse().unwrap()).or(self.retry);
                self.text = rest.to_owned();
                if reported.is_some() {
                    return reported;
                }
            }
            let chunk = self.response.chunk().await.ok()??;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn parse_event(block: &str) -> Option<StreamEvent> {
    Some(StreamEvent { id: field(block, "id"), name: field(block, "event")?, data: serde_json::from_str(&field(block, "data")?).unwrap() })
}

fn field(block: &str, name: &str) -> Option<String> {
    block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|text| text.trim_start().to_owned())
}
