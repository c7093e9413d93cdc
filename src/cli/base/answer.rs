//! A host's responses, read with limits. A refusal becomes the command's error.

use std::time::Duration;

use reqwest::{
    StatusCode,
    header::{self, HeaderMap},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tollhouse_api::Charged;
use tollhouse_front::{Charged as ChargedByCode, Code};
use tollhouse_tool::finding::Finding;

use super::{Error, Exit, Result, found_at, name};

/// Maximum number of bytes that are read of a response, more than the host ever sends.
const MAX_BYTES: usize = 64 << 20;

/// A successful response of a host.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) headers: HeaderMap,
    pub(crate) body: T,
}

impl<T> Answer<T> {
    /// Returns the revision in the response's `ETag`.
    pub(crate) fn revision(&self) -> Option<u64> {
        let tag = self.headers.get(header::ETAG)?.to_str().ok()?;
        tag.trim_start_matches("W/").trim_matches('"').parse().ok()
    }
}

impl<T: DeserializeOwned> Answer<T> {
    /// Reads a response. Anything but success is an error.
    pub(crate) async fn of(response: reqwest::Response) -> Result<Self> {
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_redirection() {
            return Err(redirected(&headers));
        }
        let text = bytes(response, MAX_BYTES).await?;
        if !status.is_success() {
            return Err(refusal(status, &headers, serde_json::from_slice(&text).ok()));
        }
        let body = serde_json::from_slice(&text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => {
                let message = format!("the host's answer does not have the format that this version expects: {error}");
                Error::refused(message).hint("compare the host's version with `tollhouse --version`")
            }
            _ => Error::refused("the host's answer is not JSON").hint("is this the address of a Tollhouse host?"),
        })?;
        Ok(Self { headers, body })
    }
}

/// Returns the error for a redirect. Neither a credential nor a request made with one follows a redirect.
pub(crate) fn redirected(headers: &HeaderMap) -> Error {
    let to = headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
    Error::refused(format!("the host redirects this request: {to}")).hint("if the host has moved there, set that address with --url")
}

/// Reads a response of at most `max` bytes.
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

/// Returns the innermost cause of an error, which is the most specific.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let last = std::iter::successors(std::error::Error::source(error), |&cause| cause.source()).last();
    last.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the error for a missing or incomplete response.
pub(crate) fn is_unavailable(error: &reqwest::Error) -> Error {
    let reason = if error.is_timeout() { "timed out".to_owned() } else { cause(error) };
    let position = error.url().map(|url| url.origin().ascii_serialization()).unwrap_or_default();
    Error::new(Exit::Unavailable, format!("the host at {position} does not answer: {reason}"))
}

/// Returns the error for a response that is not a success.
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
        let exit = if matches!(status.as_u16(), 502..=504) { Exit::Unavailable } else { Exit::Refused };
        let error = Error::new(exit, format!("the host answered {status} without an error message"));
        return error.hint("is this the address of a Tollhouse host, and is its proxy working?");
    };
    let details = ErrorBody::of(&message);
    let mut error = Error::new(exit(status, &details), details.message.as_deref().unwrap_or("the host refused the request"));
    error.more = details.lines();
    error.hint = details.hint;
    if let Some(wait) = retry_after(headers) {
        error.more.push(format!("again in {} s", wait.as_secs()));
    }
    error.reported = Box::new(message);
    in_commands(error)
}

/// Replaces hints about the host's API with commands of this program.
fn in_commands(error: Error) -> Error {
    match error.code() {
        "unauthorized" => error.hint("sign in with another credential: tollhouse login"),
        "invalid_request" => with_flags(error),
        "unknown_endpoint" => error.hint("find it: tollhouse list --search WORDS"),
        "unknown_payment" => {
            error.hint("before you pay again, look for the charge: tollhouse credits show, or the transfers of your address")
        }
        "wrong_credit" => error.hint("sign in with another developer credit: tollhouse login"),
        "insufficient_credit" => error.hint("use another credit, or ask an admin to top it up: tollhouse credits top-up"),
        "budget_exceeded" => error.hint("set the budget again with all its limits: tollhouse credits budget   see it: tollhouse credits"),
        "credit_frozen" => error.hint("set the same budget again, without --frozen: tollhouse credits budget"),
        "credit_revoked" => error.hint("ask an admin to restore it: tollhouse credits restore"),
        "payment_in_progress" | "settlement_unknown" => {
            let payment = error.reported.get("paymentId").and_then(Value::as_str).unwrap_or("PAYMENT").to_owned();
            error.hint(format!("see the result before you pay again: tollhouse payment {payment}"))
        }
        "payout_settings_missing" => {
            Error { message: "no payout address is set".to_owned(), ..error }.hint("tollhouse payouts settings --address 0x…")
        }
        // The message has the amounts.
        "refund_too_large" => error.hint("no refund was made; refund less with --amount"),
        _ => error,
    }
}

/// Query parameters of the API that a flag with the same name sets.
const FLAGS: [&str; 12] = ["actor", "kind", "level", "limit", "outcome", "owner", "since", "sort", "state", "status", "step", "until"];
/// Query parameters of the API that a flag with another name sets.
const OTHER_FLAGS: [(&str, &str); 3] = [("builderId", "builder"), ("callId", "call"), ("maxPriceUsd", "max-price")];

/// Replaces names of query parameters with flags. An error about a body has a `pointer`, and stays as it is.
fn with_flags(mut error: Error) -> Error {
    if error.reported.contains_key("pointer") {
        return error;
    }
    for (parameter, flag) in FLAGS.map(|name| (name, name)).into_iter().chain(OTHER_FLAGS) {
        error.message = error.message.replacen(&format!("`{parameter}`"), &format!("`--{flag}`"), 1);
    }
    match error.reported.get("parameter").and_then(Value::as_str) {
        Some("builderId") => error.hint("name the builder: --builder bld_…"),
        Some("creditId") => error.hint("name the credit by its id"),
        Some(_) | None => error,
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

fn exit(status: StatusCode, details: &ErrorBody) -> Exit {
    let code = details.code.as_str();
    let known = Code::ALL.iter().find(|known| known.row().name == code && known.row().status == status);
    if details.charged == Some(Charged::Unknown) || known.is_some_and(|code| matches!(code.row().charged, ChargedByCode::Unknown)) {
        return Exit::Unknown;
    }
    match code {
        "unauthorized" | "builder_suspended" | "not_owner" | "forbidden" => Exit::Credential,
        "payment_required" | "budget_exceeded" | "insufficient_credit" | "credit_frozen" | "credit_revoked" => Exit::Payment,
        "payment_reused" | "quote_expired" | "quote_invalid" => Exit::Payment,
        // The outcome of the payment is unknown, because another request is using it.
        "payment_in_progress" => Exit::Unknown,
        "busy" | "store_unavailable" | "not_ready" | "facilitator_unavailable" => Exit::Unavailable,
        _ => match status.as_u16() {
            401 => Exit::Credential,
            402 => Exit::Payment,
            502..=504 if code.is_empty() => Exit::Unavailable,
            _ => Exit::Refused,
        },
    }
}

/// An error object, or one of the problems in it. Every field is optional, because a proxy or another program may have
/// written it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorBody {
    pub(crate) code: String,
    pub(crate) message: Option<String>,
    hint: Option<String>,
    charged: Option<Charged>,
    /// JSON Pointer to the wrong field.
    pub(crate) pointer: String,
    /// The wrong place in the uploaded source.
    pub(crate) at: SourcePosition,
    pub(crate) problems: Vec<Self>,
    pub(crate) findings: Vec<Finding>,
    /// The accepted values.
    known: Vec<String>,
}

/// A place in an uploaded source, from 1.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SourcePosition {
    pub(crate) line: Option<u64>,
    pub(crate) column: Option<u64>,
}

impl ErrorBody {
    /// Reads an error object. One with fields of other types is read as an empty one.
    pub(crate) fn of(object: &Map<String, Value>) -> Self {
        serde_json::from_value(Value::Object(object.clone())).unwrap_or_default()
    }

    /// Formats the further details for people.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.pointer.is_empty() {
            lines.push(format!("at {}", self.pointer));
        }
        if let SourcePosition { line: Some(line), column: Some(column) } = self.at {
            lines.push(format!("at {line}:{column}"));
        }
        lines.extend(self.problems.iter().map(|problem| {
            let position = if problem.pointer.is_empty() { "/" } else { &problem.pointer };
            format!("{position}  {}", problem.message.as_deref().unwrap_or_default())
        }));
        lines.extend(self.findings.iter().map(|finding| format!("{}  {} ({})", found_at(finding), finding.rule, name(finding.severity))));
        if !self.known.is_empty() {
            lines.push(format!("allowed: {}", self.known.join(", ")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(status: u16, body: Value) -> Exit {
        refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), Some(body)).exit
    }

    #[test]
    fn each_error_code_has_its_exit_code() {
        for code in Code::ALL {
            let row = code.row();
            let charged = if matches!(row.charged, ChargedByCode::Unknown) { json!("unknown") } else { json!(false) };
            let ended =
                end(row.status.as_u16(), json!({ "ok": false, "error": { "code": row.name, "message": "no", "charged": charged } }));
            match row.status.as_u16() {
                401 => assert_eq!(ended, Exit::Credential, "{}", row.name),
                402 => assert_eq!(ended, Exit::Payment, "{}", row.name),
                _ if matches!(row.charged, ChargedByCode::Unknown) => assert_eq!(ended, Exit::Unknown, "{}", row.name),
                _ => assert_ne!(ended, Exit::Usage, "{}", row.name),
            }
        }
        assert_eq!(end(503, json!({ "error": { "code": "busy" } })), Exit::Unavailable);
        assert_eq!(end(404, json!({ "error": { "code": "unknown_endpoint" } })), Exit::Refused);
    }

    #[test]
    fn hints_name_commands_instead_of_operations() {
        let describe = |code: &str, hint: &str| {
            let message = "say first where payouts go: POST /ai/x";
            let error = json!({ "error": { "code": code, "message": message, "hint": hint, "paymentId": "pmt_1" } });
            let error = refusal(StatusCode::CONFLICT, &HeaderMap::new(), Some(error));
            format!("{} {}", error.message, error.hint.unwrap_or_default())
        };
        for (code, hint, command) in [
            ("payout_settings_missing", "", "tollhouse payouts settings"),
            ("unauthorized", "send `X-Admin-Token`", "tollhouse login"),
            ("unknown_endpoint", "GET /ai/endpoints?near=NAME lists similar ones", "tollhouse list --search"),
            ("budget_exceeded", "`budget` has the limit. Raise it: PUT /ai/credits/budget", "tollhouse credits budget"),
            ("settlement_unknown", "Check GET /ai/payments/pmt_1 for the result", "tollhouse payment pmt_1"),
            ("unknown_payment", "look for the charge in GET /ai/credits", "tollhouse credits show"),
            ("refund_too_large", "`refund` has the amounts", "no refund was made; refund less with --amount"),
        ] {
            let describe = describe(code, hint);
            assert!(describe.contains(command), "{describe}");
            assert!(!["X-Admin-Token", "GET ", "PUT ", "`refund`", "`budget`"].iter().any(|name| describe.contains(name)), "{describe}");
        }
        assert!(describe("payout_settings_missing", "").starts_with("no payout address"));
    }

    #[test]
    fn no_hint_names_a_path_of_the_api() {
        for row in Code::ALL.iter().map(|code| code.row()) {
            let body = json!({ "error": { "code": row.name, "message": "no", "hint": row.hint } });
            let hint = refusal(row.status, &HeaderMap::new(), Some(body)).hint.unwrap_or_default();
            assert!(!hint.contains("/ai/"), "{}: {hint}", row.name);
        }
    }

    #[test]
    fn parameters_of_the_api_become_flags() {
        let read = |error: Value| refusal(StatusCode::BAD_REQUEST, &HeaderMap::new(), Some(json!({ "error": error })));
        let missing = json!({ "code": "invalid_request", "message": "The builder is missing", "parameter": "builderId", "hint": "Send `?builderId=bld_…`" });
        let missing = read(missing);
        assert_eq!((&*missing.message, missing.hint.as_deref()), ("The builder is missing", Some("name the builder: --builder bld_…")));
        let wrong = read(json!({ "code": "invalid_request", "message": "`maxPriceUsd` must be an amount" }));
        assert_eq!((&*wrong.message, wrong.hint), ("`--max-price` must be an amount", None));
        let in_body = json!({ "code": "invalid_request", "message": "`status` is wrong", "pointer": "/status" });
        assert_eq!(read(in_body).message, "`status` is wrong");
    }

    #[test]
    fn response_without_an_error_object_has_an_exit_code() {
        for body in [json!([]), json!({ "error": "text" }), json!(null)] {
            assert_eq!(end(502, body.clone()), Exit::Unavailable);
            assert_eq!(end(404, body), Exit::Refused);
        }
    }

    #[test]
    fn details_of_an_error_are_listed() {
        let body = json!({ "code": "invalid_input", "pointer": "/priceUsd", "at": { "line": 3, "column": 9 }, "problems": [{ "pointer": "", "message": "no" }],
            "findings": [{ "field": "/title", "rule": "code.eval", "severity": "review" }], "known": ["a", "b"] });
        let reported = ErrorBody::of(body.as_object().unwrap()).lines();
        assert_eq!(reported, ["at /priceUsd", "at 3:9", "/  no", "/title  code.eval (review)", "allowed: a, b"]);
    }
}
