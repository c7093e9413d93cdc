//! The member `http` of a case: responses that a handler gets in place of real ones.

use bytes::Bytes;
use reqwest::{
    Method, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use tollhouse_capability::guard::RecordedAnswer;

/// Members that a response may have.
const MEMBERS: [&str; 6] = ["method", "url", "status", "headers", "json", "text"];

/// Reads the responses in their order.
///
/// # Errors
///
/// A response is malformed. The text is the end of a sentence about a case.
pub(super) fn answers(http: &Value) -> Result<Vec<RecordedAnswer>, String> {
    let Value::Array(answers) = http else { return Err("`http` must be a list of answers".to_owned()) };
    answers.iter().map(answer).collect()
}

fn answer(message: &Value) -> Result<RecordedAnswer, String> {
    let Value::Object(members) = message else { return Err("an answer in `http` must be an object".to_owned()) };
    if let Some(odd) = members.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
        return Err(format!("an answer in `http` cannot have `{odd}`; its fields are {}", MEMBERS.join(", ")));
    }
    let method = match message.get("method") {
        None => Some(Method::GET),
        Some(method) => method.as_str().and_then(|method| Method::from_bytes(method.as_bytes()).ok()),
    };
    let method = method.ok_or("a `method` in `http` must be the name of a method")?;
    let url = message["url"].as_str().ok_or("an answer in `http` needs a `url`")?;
    let url = Url::parse(url).map_err(|error| format!("a `url` in `http` is not valid: {error}"))?;
    let status = match message.get("status") {
        None => Some(StatusCode::OK),
        Some(status) => status.as_u64().and_then(|status| u16::try_from(status).ok()).and_then(|status| StatusCode::from_u16(status).ok()),
    };
    let status = status.filter(|status| !status.is_informational()).ok_or("a `status` in `http` must be a number from 200 to 999")?;
    let (body, kind) = match (message.get("json"), message.get("text")) {
        (None, None) => (Bytes::new(), None),
        (Some(json), None) => (Bytes::from(json.to_string()), Some("application/json")),
        (None, Some(Value::String(text))) => (Bytes::from(text.clone()), Some("text/plain;charset=UTF-8")),
        (None, Some(_)) => return Err("a `text` in `http` must be a string".to_owned()),
        (Some(_), Some(_)) => return Err("an answer in `http` cannot have both `json` and `text`".to_owned()),
    };
    let headers = match message.get("headers") {
        Some(headers) => headers_of(headers)?,
        None => kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind))).into_iter().collect(),
    };
    Ok(RecordedAnswer { method, url, status, headers, body })
}

fn headers_of(message: &Value) -> Result<HeaderMap, String> {
    let Value::Object(message) = message else { return Err("`headers` in `http` must be an object".to_owned()) };
    let header = |(name, value): (&String, &Value)| {
        let wrong = || format!("`{name}` in `http` is not a valid header with a text value");
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok()).ok_or_else(wrong)?;
        Ok((parsed, value))
    };
    message.iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recorded_response_defaults_to_an_empty_200() {
        let read = answers(&json!([{ "url": "https://a.example" }, { "url": "https://b.example/x?y=1", "json": { "n": 1 } }])).unwrap();
        assert_eq!(
            (read[0].url.as_str(), read[0].status, read[0].body.len(), read[0].headers.len()),
            ("https://a.example/", StatusCode::OK, 0, 0)
        );
        assert_eq!((&*read[1].body, &read[1].headers[CONTENT_TYPE]), (&b"{\"n\":1}"[..], &HeaderValue::from_static("application/json")));
        let full = json!([{ "url": "https://a.example", "status": 503, "headers": { "Retry-After": "1" }, "json": null }]);
        let read = answers(&full).unwrap();
        assert_eq!(
            (read[0].status.as_u16(), &read[0].headers["retry-after"], &*read[0].body),
            (503, &HeaderValue::from_static("1"), &b"null"[..])
        );
        assert!(answers(&json!([])).unwrap().is_empty());
    }

    #[test]
    fn recorded_response_answers_a_method_and_can_be_text() {
        let read = answers(&json!([{ "url": "https://a.example", "method": "POST", "text": "done" }])).unwrap();
        assert_eq!((&read[0].method, &*read[0].body), (&Method::POST, &b"done"[..]));
        assert_eq!(read[0].headers[CONTENT_TYPE], "text/plain;charset=UTF-8");
        assert_eq!(answers(&json!([{ "url": "https://a.example" }])).unwrap()[0].method, Method::GET);
    }

    #[test]
    fn malformed_recorded_response_is_rejected() {
        for (message, reported) in [
            (json!({}), "a list"),
            (json!([1]), "an object"),
            (json!([{ "body": 1 }]), "cannot have `body`"),
            (json!([{}]), "needs a `url`"),
            (json!([{ "url": "/relative" }]), "is not valid"),
            (json!([{ "url": "https://a.example", "method": "a b" }]), "a method"),
            (json!([{ "url": "https://a.example", "method": 1 }]), "a method"),
            (json!([{ "url": "https://a.example", "text": 1 }]), "a string"),
            (json!([{ "url": "https://a.example", "text": "a", "json": 1 }]), "cannot have both"),
            (json!([{ "url": "https://a.example", "status": 101 }]), "from 200"),
            (json!([{ "url": "https://a.example", "status": "200" }]), "from 200"),
            (json!([{ "url": "https://a.example", "headers": [] }]), "an object"),
            (json!([{ "url": "https://a.example", "headers": { "a b": "1" } }]), "`a b`"),
            (json!([{ "url": "https://a.example", "headers": { "a": 1 } }]), "`a`"),
            (json!([{ "url": "https://a.example", "headers": { "a": "\n" } }]), "`a`"),
        ] {
            let reason = answers(&message).unwrap_err();
            assert!(reason.contains(reported), "{message}: {reason}");
        }
    }
}
