//! A host's answers, read with limits. A refusal becomes the command's error.

use std::time::Duration;

use reqwest::{
    StatusCode,
    header::{self, HeaderMap},
};
use serde_json::{Map, Value, json};
use tollhouse_front::{Charged, Code};

use super::error::{Error, Exit, Result};

/// Maximum number of bytes that are read of an answer, more than the host ever sends.
const MAX_BYTES: usize = 64 << 20;

/// A successful answer of a host.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the revision in the answer's `ETag`.
    pub(crate) fn revision(&self) -> Option<u64> {
        let tag = self.headers.get(header::ETAG)?.to_str().ok()?;
        tag.trim_start_matches("W/").trim_matches('"').parse().ok()
    }

    /// Reads an answer. Anything but success is an error.
    ///
    /// # Errors
    ///
    /// The host's refusal, or an answer that is too large, incomplete or not JSON.
    pub(crate) async fn of(response: reqwest::Response) -> Result<Self> {
        Self::read(response, |text| serde_json::from_slice(text)).await
    }

    /// Reads an answer whose body `parse` reads. Anything but success is an error.
    ///
    /// # Errors
    ///
    /// The host's refusal, or an answer that is too large, incomplete or not JSON.
    pub(crate) async fn read(response: reqwest::Response, parse: impl FnOnce(&[u8]) -> serde_json::Result<Value>) -> Result<Self> {
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_redirection() {
            return Err(redirected(&headers));
        }
        let text = bytes(response, MAX_BYTES).await?;
        let body = parse(&text).ok();
        if !status.is_success() {
            return Err(refusal(status, &headers, body));
        }
        let body = body.ok_or_else(|| {
            Error::refused("the host answered with something that is no JSON").hint("is this the address of a Tollhouse host?")
        })?;
        Ok(Self { headers, body })
    }
}

/// Returns the error for a redirect. Neither a credential nor a request made with one follows a redirect.
pub(crate) fn redirected(headers: &HeaderMap) -> Error {
    let to = headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
    Error::refused(format!("the host sends this elsewhere: {to}")).hint("if that is where it is now, name it with --url")
}

/// Reads an answer of at most `most` bytes.
///
/// # Errors
///
/// An answer that is larger or incomplete.
pub(crate) async fn bytes(mut response: reqwest::Response, max: usize) -> Result<Vec<u8>> {
    let mut read = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| is_unavailable(&error))? {
        if read.len() + chunk.len() > max {
            return Err(Error::refused(format!("the host's answer has more than {max} bytes")));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read)
}

/// Returns the error for a missing or incomplete answer.
pub(crate) fn is_unavailable(error: &reqwest::Error) -> Error {
    let cause = std::iter::successors(std::error::Error::source(error), |&cause| cause.source()).last();
    let reason = match cause {
        _ if error.is_timeout() => "no answer in time".to_owned(),
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    };
    let position = error.url().map(|url| url.origin().ascii_serialization()).unwrap_or_default();
    Error::new(Exit::Away, format!("the host at {position} does not answer: {reason}"))
}

/// Returns the error for an answer that is not a success.
pub(crate) fn refusal(status: StatusCode, headers: &HeaderMap, body: Option<Value>) -> Error {
    let message = match body {
        Some(Value::Object(mut members)) => members.remove("error"),
        Some(_) | None => None,
    };
    // A payment challenge has the format of x402, for x402 clients.
    let message = match message {
        Some(Value::String(reason)) if status == StatusCode::PAYMENT_REQUIRED => Some(challenged(&reason, headers)),
        message => message,
    };
    let Some(Value::Object(message)) = message else {
        let exit = if matches!(status.as_u16(), 502..=504) { Exit::Away } else { Exit::Refused };
        let error = Error::new(exit, format!("the host answered {status}, in no form of its own"));
        return error.hint("is this the address of a Tollhouse host, and what stands before it well?");
    };
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let mut error = Error::new(exit(status, &message), text("message").unwrap_or("the host refused"));
    error.hint = text("hint").map(str::to_owned);
    error.more = details(&message);
    if let Some(wait) = retry_after(headers) {
        error.more.push(format!("again in {} s", wait.as_secs()));
    }
    error.reported = Box::new(message);
    in_commands(error)
}

/// Replaces hints about the host's API by commands of this program.
fn in_commands(error: Error) -> Error {
    match error.code() {
        "unauthorized" => error.hint("tollhouse login, with a credential that the host takes"),
        "payout_settings_missing" => {
            Error { message: "it was not said yet where payouts go".to_owned(), ..error }.hint("tollhouse payouts settings --address 0x…")
        }
        _ => error,
    }
}

fn challenged(reason: &str, headers: &HeaderMap) -> Value {
    let request = headers.get("x-request-id").and_then(|id| id.to_str().ok());
    json!({ "code": "payment_required", "fault": "caller", "message": reason, "charged": false, "requestId": request })
}

/// Returns how long the host asks to wait.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

fn exit(status: StatusCode, message: &Map<String, Value>) -> Exit {
    let code = message.get("code").and_then(Value::as_str).unwrap_or_default();
    let known = Code::ALL.iter().find(|known| known.row().name == code && known.row().status == status);
    if message.get("charged").and_then(Value::as_str) == Some("unknown")
        || known.is_some_and(|code| matches!(code.row().charged, Charged::Unknown))
    {
        return Exit::Unknown;
    }
    match code {
        "unauthorized" | "builder_suspended" | "not_owner" | "forbidden" => Exit::Credential,
        "payment_required" | "budget_exceeded" | "credit_frozen" | "payment_reused" | "quote_expired" | "quote_invalid" => Exit::Payment,
        // The outcome of the payment is unknown, because another request is using it.
        "payment_in_progress" => Exit::Unknown,
        "busy" | "store_unavailable" | "not_ready" | "facilitator_unavailable" => Exit::Away,
        _ => match status.as_u16() {
            401 => Exit::Credential,
            402 => Exit::Payment,
            502..=504 if code.is_empty() => Exit::Away,
            _ => Exit::Refused,
        },
    }
}

/// Formats the further details of an error for people.
fn details(message: &Map<String, Value>) -> Vec<String> {
    let mut reported = Vec::new();
    if let Some(pointer) = message.get("pointer").and_then(Value::as_str).filter(|pointer| !pointer.is_empty()) {
        reported.push(format!("at {pointer}"));
    }
    if let Some(at) = message.get("at") {
        reported.push(format!("at {}:{}", at["line"], at["column"]));
    }
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    for problem in message.get("problems").and_then(Value::as_array).into_iter().flatten() {
        let position = text(problem, "pointer");
        reported.push(format!("{}  {}", if position.is_empty() { "/" } else { &position }, text(problem, "message")));
    }
    for finding in message.get("findings").and_then(Value::as_array).into_iter().flatten() {
        let line = finding["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
        reported.push(format!("{}{line}  {} ({})", text(finding, "field"), text(finding, "rule"), text(finding, "severity")));
    }
    if let Some(known) = message.get("known").and_then(Value::as_array) {
        reported.push(format!("known: {}", known.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")));
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(status: u16, body: Value) -> Exit {
        refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), Some(body)).exit
    }

    #[test]
    fn each_refusal_ends_with_the_code_of_its_kind() {
        for code in Code::ALL {
            let row = code.row();
            let charged = if matches!(row.charged, Charged::Unknown) { json!("unknown") } else { json!(false) };
            let ended =
                end(row.status.as_u16(), json!({ "ok": false, "error": { "code": row.name, "message": "no", "charged": charged } }));
            match row.status.as_u16() {
                401 => assert_eq!(ended, Exit::Credential, "{}", row.name),
                402 => assert_eq!(ended, Exit::Payment, "{}", row.name),
                _ if matches!(row.charged, Charged::Unknown) => assert_eq!(ended, Exit::Unknown, "{}", row.name),
                _ => assert_ne!(ended, Exit::Usage, "{}", row.name),
            }
        }
        assert_eq!(end(503, json!({ "error": { "code": "busy" } })), Exit::Away);
        assert_eq!(end(404, json!({ "error": { "code": "unknown_endpoint" } })), Exit::Refused);
    }

    #[test]
    fn commands_are_named_where_the_host_names_operations() {
        let describe = |code: &str, hint: &str| {
            let error = json!({ "error": { "code": code, "message": "say first where payouts go: POST /ai/x", "hint": hint } });
            let error = refusal(StatusCode::CONFLICT, &HeaderMap::new(), Some(error));
            format!("{} {}", error.message, error.hint.unwrap_or_default())
        };
        for (code, hint, command) in
            [("payout_settings_missing", "", "tollhouse payouts settings"), ("unauthorized", "send `X-Admin-Token`", "tollhouse login")]
        {
            let describe = describe(code, hint);
            assert!(describe.contains(command) && !describe.contains("X-Admin-Token"), "{describe}");
        }
        assert!(describe("payout_settings_missing", "").starts_with("it was not said yet"));
    }

    #[test]
    fn what_is_no_envelope_is_reported_as_such() {
        for body in [json!([]), json!({ "error": "text" }), json!(null)] {
            assert_eq!(end(502, body.clone()), Exit::Away);
            assert_eq!(end(404, body), Exit::Refused);
        }
    }

    #[test]
    fn what_an_error_says_besides_is_reported() {
        let body = json!({ "code": "invalid_input", "pointer": "/priceUsd", "at": { "line": 3, "column": 9 }, "problems": [{ "pointer": "", "message": "no" }],
            "findings": [{ "field": "/title", "rule": "code.eval", "severity": "review" }], "known": ["a", "b"] });
        let reported = details(body.as_object().unwrap());
        assert_eq!(reported, ["at /priceUsd", "at 3:9", "/  no", "/title  code.eval (review)", "known: a, b"]);
    }
}
