//! Compares the response heads of all paid tools' challenges with the maximum that proxies accept.

use std::time::Duration;

use reqwest::{StatusCode, header::RETRY_AFTER};
use serde_json::Value;
use tollhouse_api::Catalog;
use tollhouse_capability::guard::{FetchError, Fetched};
use tollhouse_operate::finding::Finding;

use super::asker::Asker;

/// nginx's default maximum for a response head, in bytes (`proxy_buffer_size`, one page of memory).
const STOCK: usize = 4 << 10;
/// Its maximum with the setting `2k`.
const SMALL: usize = 2 << 10;
/// A status line, the empty line after the headers, and the header that a host adds for a proxy that closes each
/// connection.
const BESIDE: usize = "HTTP/1.1 402 Payment Required\r\n\r\nconnection: close\r\n".len();
/// Maximum number of tools to call.
const MAX_TOOLS: usize = 500;
/// Maximum tries for a tool while the host answers 429, and the maximum wait between them.
const TRIES: usize = 5;
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The settings for heads that are too large.
const REMEDY: &str =
    "set `proxy_buffer_size 16k;`, `proxy_buffers 8 16k;` and `large_client_header_buffers 4 32k;` in nginx, or offer fewer networks";

/// The challenges received.
#[derive(Default)]
struct Heads {
    /// The largest head, in bytes, and the path of its tool.
    largest: Option<(usize, String)>,
    /// Tools for which a gateway answered instead, with its status.
    refused: Vec<(String, StatusCode)>,
    requested: usize,
    /// There are more tools than were called.
    has_more: bool,
}

/// Requests the challenge of each listed paid tool. Reports the largest head and the challenges that do not arrive.
pub(super) async fn examine(asker: &Asker) -> Vec<Finding> {
    match collect(asker).await {
        Ok(heads) => heads.findings(),
        Err(error) => vec![Finding::error("public", &error, "configure the proxy to pass on /ai/endpoints and /tools")],
    }
}

async fn collect(asker: &Asker) -> Result<Heads, FetchError> {
    let (mut heads, mut cursor) = (Heads::default(), String::new());
    loop {
        let page = asker.get(&format!("/ai/endpoints?price=paid&limit=100{cursor}")).await?;
        let Ok(page) = serde_json::from_slice::<Catalog>(&page.body) else { return Ok(heads) };
        for tool in page.endpoints {
            if heads.requested == MAX_TOOLS {
                heads.has_more = true;
                return Ok(heads);
            }
            let path = format!("/tools/{}", tool.common.slug);
            let answer = challenge(asker, &path).await?;
            heads.add(path, &answer);
        }
        match page.envelope.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(heads),
        }
    }
}

/// Makes an unpaid call, and repeats it after 429.
async fn challenge(asker: &Asker, path: &str) -> Result<Fetched, FetchError> {
    let mut answer = asker.challenge(path).await?;
    for _ in 1..TRIES {
        if answer.status != StatusCode::TOO_MANY_REQUESTS {
            break;
        }
        let wait = answer.headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()).and_then(|wait| wait.parse().ok());
        tokio::time::sleep(Duration::from_secs(wait.unwrap_or(1)).min(LONGEST_WAIT)).await;
        answer = asker.challenge(path).await?;
    }
    Ok(answer)
}

/// Returns the bytes of a response head, as a proxy reads it from the host over HTTP/1.
fn bytes_of(answer: &Fetched) -> usize {
    answer.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum::<usize>() + BESIDE
}

impl Heads {
    fn add(&mut self, path: String, answer: &Fetched) {
        self.requested += 1;
        if answer.status == StatusCode::PAYMENT_REQUIRED {
            let bytes = bytes_of(answer);
            if self.largest.as_ref().is_none_or(|(largest, _)| *largest < bytes) {
                self.largest = Some((bytes, path));
            }
        } else if answer.status == StatusCode::BAD_GATEWAY && !has_host_error(&answer.body) {
            self.refused.push((path, answer.status));
        }
    }

    fn findings(self) -> Vec<Finding> {
        let mut found = vec![];
        if let Some((path, status)) = self.refused.first() {
            let text = format!(
                "a proxy answers {} instead of the challenges of {} of {} paid tools: their headers are too large for it",
                status.as_u16(),
                self.refused.len(),
                self.requested
            );
            found.push(Finding::fail("public", text, REMEDY).of(path));
        }
        if let Some((bytes, path)) = self.largest {
            let text = format!("the largest headers of {} challenges have {bytes} bytes", self.requested);
            let finding = match bytes {
                bytes if bytes <= SMALL => {
                    Finding::ok("public", format!("{text}: nginx passes them on with its default settings, and with a buffer of 2k"))
                }
                bytes if bytes <= STOCK => {
                    Finding::ok("public", format!("{text}: nginx passes them on with its default settings, but not with a buffer of 2k"))
                }
                _ => Finding::fail("public", format!("{text}, more than the {STOCK} that nginx accepts by default"), REMEDY),
            };
            found.push(finding.of(&path));
        }
        if self.has_more {
            let text = format!("only the first {MAX_TOOLS} paid tools were checked");
            found.push(Finding::warn("public", text, "check tools with long descriptions and many tags yourself"));
        }
        found
    }
}

/// Returns whether a body comes from a host, whose own 502 reports a failed tool or facilitator.
fn has_host_error(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|body| body["error"]["code"].is_string())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use reqwest::{
        Url,
        header::{HeaderMap, HeaderValue},
    };
    use tollhouse_operate::finding::Level;

    use super::*;

    fn answer(status: StatusCode, head: usize, body: &'static str) -> Fetched {
        let mut headers = HeaderMap::new();
        let value = "x".repeat(head - BESIDE - "payment-required: \r\n".len());
        headers.insert("payment-required", HeaderValue::from_str(&value).unwrap());
        let url = Url::parse("https://host.example/").unwrap();
        Fetched { status, headers, body: Bytes::from_static(body.as_bytes()), ..Fetched::empty(url) }
    }

    #[test]
    fn largest_head_is_compared_with_the_limit_of_nginx() {
        for (bytes, level, words) in [
            (SMALL, Level::Ok, "with a buffer of 2k"),
            (SMALL + 1, Level::Ok, "not with a buffer of 2k"),
            (STOCK, Level::Ok, "not with a buffer of 2k"),
            (STOCK + 1, Level::Fail, "more than the 4096"),
        ] {
            let mut heads = Heads::default();
            for (path, bytes) in [("/tools/a", 500), ("/tools/b", bytes), ("/tools/c", 600)] {
                heads.add(path.to_owned(), &answer(StatusCode::PAYMENT_REQUIRED, bytes, "{}"));
            }
            let reported = heads.findings();
            assert_eq!((reported.len(), reported[0].level, reported[0].of.as_deref()), (1, level, Some("/tools/b")), "{bytes}");
            assert!(
                reported[0].text.contains(words) && reported[0].text.contains(&format!("{bytes} bytes")),
                "{bytes}: {}",
                reported[0].text
            );
        }
    }

    #[test]
    fn challenges_that_a_proxy_refuses_are_reported() {
        let mut heads = Heads::default();
        heads.add("/tools/a".to_owned(), &answer(StatusCode::BAD_GATEWAY, 200, "<html>"));
        heads.add(
            "/tools/b".to_owned(),
            &answer(StatusCode::BAD_GATEWAY, 200, r#"{"ok":false,"error":{"code":"facilitator_unavailable"}}"#),
        );
        let reported = heads.findings();
        assert!(reported.len() == 1 && reported[0].level == Level::Fail && reported[0].text.contains("1 of 2"), "{}", reported[0].text);
    }
}
