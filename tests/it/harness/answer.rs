//! Answers of a host.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tollhouse::front::{Charged, Code};

/// A complete answer.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A Server-Sent Event.
#[derive(Debug, Clone)]
pub struct Event {
    pub name: String,
    pub data: Value,
    /// The unparsed `data`.
    pub text: String,
}

impl Answer {
    pub async fn read(response: reqwest::Response) -> reqwest::Result<Self> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let answer = Self { status, headers, body: response.bytes().await? };
        answer.faults_are_of_the_table();
        Ok(answer)
    }

    /// Panics if the answer contains an error, in the form of any front end, that differs from its
    /// row in the table.
    fn faults_are_of_the_table(&self) {
        let text = String::from_utf8_lossy(&self.body);
        if !text.contains("\"fault\"") {
            return;
        }
        let message = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line)).chain([&*text]);
        for whole in message.filter_map(|json| serde_json::from_str::<Value>(json).ok()) {
            let mut open = vec![&whole];
            while let Some(value) = open.pop() {
                // A document may describe errors by a schema.
                let fault = value["code"].is_string() && ["fault", "charged", "message"].iter().all(|member| value.get(*member).is_some());
                assert!(!fault || is_row(value), "no row of the table: {value}");
                open.extend(value.as_array().into_iter().flatten());
                open.extend(value.as_object().into_iter().flatten().map(|(_, member)| member));
            }
            // An error at the end of a stream or in a JSON-RPC answer has no separate status.
            if whole["ok"] == false && self.status != 200 {
                let has_status = |code: &Code| code.row().name == whole["error"]["code"] && code.row().status.as_u16() == self.status;
                assert!(Code::ALL.iter().any(has_status), "no row of the table has this status: {self:?}");
            }
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the body as text.
    pub fn words(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns a header, which must be there.
    pub fn has(&self, name: &str) -> &str {
        self.header(name).unwrap_or_else(|| panic!("no `{name}`: {self:?}"))
    }

    /// Returns a header with base64-encoded JSON.
    pub fn decoded(&self, name: &str) -> Value {
        serde_json::from_slice(&STANDARD.decode(self.has(name)).unwrap()).unwrap()
    }

    /// Panics unless the status is `status`.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Panics unless this is the envelope of an uncharged error with this status, code and fault.
    /// Returns its `error`.
    #[track_caller]
    pub fn fails(&self, status: u16, code: &str, fault: &str) -> Value {
        self.fails_with(status, code, fault, &json!(false))
    }

    /// Panics unless this is the envelope of an error that does not claim whether anything was
    /// charged. Returns its `error`.
    #[track_caller]
    pub fn fails_unsure(&self, status: u16, code: &str, fault: &str) -> Value {
        self.fails_with(status, code, fault, &json!("unknown"))
    }

    #[track_caller]
    fn fails_with(&self, status: u16, code: &str, fault: &str, charged: &Value) -> Value {
        let body = self.json();
        assert_eq!((self.status, &body["error"]["code"], &body["error"]["fault"]), (status, &code.into(), &fault.into()), "{self:?}");
        assert_eq!(body["ok"], false);
        assert_eq!(body["error"]["charged"], *charged, "{self:?}");
        assert_eq!(body["error"]["requestId"], self.has("x-request-id"));
        assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        let wait = self.header("retry-after").map(|seconds| seconds.parse::<u64>().unwrap());
        assert_eq!(body["error"]["retryAfterSeconds"], json!(wait), "{self:?}");
        assert_eq!(self.header("x-receipt-id"), None, "an error has a receipt: {self:?}");
        body["error"].clone()
    }

    /// Returns the receipt id.
    #[track_caller]
    pub fn receipt_id(&self) -> String {
        self.has("x-receipt-id").to_owned()
    }

    /// Returns the body as Server-Sent Events.
    pub fn events(&self) -> Vec<Event> {
        assert!(self.has("content-type").starts_with("text/event-stream"), "{self:?}");
        let text = String::from_utf8(self.body.to_vec()).unwrap();
        text.split("\n\n").filter_map(event).collect()
    }
}

/// Returns whether code, fault and charge match one row.
fn is_row(error: &Value) -> bool {
    Code::ALL.iter().map(|code| code.row()).any(|row| {
        let charged = match row.charged {
            Charged::No => json!(false),
            Charged::Yes => json!(true),
            Charged::Unknown => json!("unknown"),
        };
        // These can come before the payment is looked up.
        let may_be_early = matches!(row.name, "rate_limited" | "not_ready" | "busy" | "store_unavailable");
        let is_charged = error["charged"] == charged || (may_be_early && error["charged"] == "unknown");
        error["code"] == row.name && error["fault"] == row.fault.as_str() && is_charged
    })
}

/// Parses an event of a stream; `None` for a comment.
fn event(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_start);
    let text = field("data")?.to_owned();
    Some(Event { name: field("event")?.to_owned(), data: serde_json::from_str(&text).unwrap(), text })
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.body);
        write!(f, "{} {:?}\n{}", self.status, self.headers, text.chars().take(2_000).collect::<String>())
    }
}
