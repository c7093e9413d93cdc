//! Random responses of foreign servers to a check.

use reqwest::{StatusCode, header::HeaderValue};
use serde_json::{Map, Value};
use tollhouse_capability::guard::Fetched;

use super::*;
use crate::run::builtin::readiness::notes::Notes;

#[test]
fn report_of_any_answer_is_short() {
    tollhouse_fuzz::check("readiness", |bytes| {
        let (head, body) = bytes.iter().position(|byte| *byte == b'\n').map_or((bytes, &b""[..]), |at| (&bytes[..at], &bytes[at + 1..]));
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        if let Ok(value) = HeaderValue::from_bytes(head) {
            headers.insert("payment-required", value);
        }
        let url = "https://seller.example/.well-known/x402".parse().unwrap();
        let fetched = Fetched { status: StatusCode::PAYMENT_REQUIRED, headers, body: Body::copy_from_slice(body), ..Fetched::empty(url) };
        let (mut notes, mut found) = (Notes::default(), Map::new());
        let shown = challenge::read(&fetched, &mut notes).shown();
        document::read(&fetched, &mut found, &mut notes);
        if let Ok(listed) = serde_json::from_slice::<Value>(body) {
            let mut about = json!({});
            mcp::tools(&listed, &mut about, &mut notes);
            found.insert("mcp".into(), about);
        }
        let notes = notes.into_vec();
        assert!(notes.len() <= 41 && notes.iter().all(|note| note.message.chars().count() < 1_000 && !note.message.contains('\0')));
        assert!(shown.to_string().len() < 64 << 10 && json!(found).to_string().len() < 128 << 10, "{shown} {found:?}");
    });
}
