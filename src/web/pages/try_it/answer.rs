//! A tool's answer, and the page that shows it.

use axum::body::to_bytes;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_api::{Receipt, ReceiptKind, ReceiptResponse};
use tollhouse_front::{ApiError, Code, code_of};

use super::{call::PaymentSource, step, tool::CallRequest};
use crate::{
    ApiRefusal, Body, HeaderMap, HeaderValue, Page, PageResult, Response, StatusCode, facts, header, moment, money, page_links,
    parts::schema_form::{minified, spread},
    segment, set_security_headers, state, text,
};

/// Maximum size of an answer, in bytes. Larger than any tool's answer.
const MAX_BYTES: usize = 8 << 20;

/// Maximum shown characters of a result.
const SHOWN: usize = 20_000;

/// Maximum size of JSON that is formatted on several lines, in bytes.
const SPREAD_BYTES: usize = 64 << 10;

/// An unmodified answer.
pub(super) struct CallAnswer {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    pub(super) body: Bytes,
    /// The code of a refusal by the host.
    pub(super) code: Option<Code>,
}

impl CallAnswer {
    pub(super) async fn read(response: Response) -> Result<Self, ApiRefusal> {
        let code = code_of(&response);
        let (head, body) = response.into_parts();
        let body = to_bytes(body, MAX_BYTES).await.map_err(|_| ApiError::from(Code::Internal))?;
        Ok(Self { status: head.status, headers: head.headers, body, code })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Decodes a header that is JSON in base64.
    pub(super) fn decoded(&self, name: &str) -> Option<Value> {
        serde_json::from_slice(&STANDARD.decode(self.header(name)?).ok()?).ok()
    }

    fn media(&self) -> &str {
        self.header("content-type").unwrap_or_default()
    }

    /// Returns the body if it is text.
    fn text(&self) -> Option<&str> {
        let media = self.media().split(';').next().unwrap_or_default().trim();
        let is_text = media.starts_with("text/") || media == "application/json" || media.ends_with("+json");
        str::from_utf8(&self.body).ok().filter(|_| is_text)
    }

    /// Returns the answer as a download, which no browser renders as a page.
    pub(super) fn saved(self, slug: &str) -> Response {
        let kind = match self.text() {
            Some(_) if self.media().contains("json") => "json",
            Some(_) => "txt",
            None => "bin",
        };
        let mut response = Response::new(Body::from(self.body));
        let headers = response.headers_mut();
        set_security_headers(headers);
        let name: String = slug.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '-').collect();
        let rendered = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        headers.extend(rendered);
        if let Ok(value) = HeaderValue::try_from(format!("attachment; filename=\"{name}.{kind}\"")) {
            headers.insert(header::CONTENT_DISPOSITION, value);
        }
        response
    }
}

pub(super) async fn show(request: &CallRequest<'_>, pays: &PaymentSource, answer: &CallAnswer) -> PageResult {
    let receipt = match answer.header("x-receipt-id") {
        Some(id) => request.visitor.without_session().get::<ReceiptResponse>(&format!("/ai/receipts/{}", segment(id))).await.ok(),
        None => None,
    };
    // The stamp comes from the host, because a receipt paid by credit does not say that its money
    // is simulated.
    let stamp = html! { @if request.visitor.is_simulated().await? { " " span.stamp { (state("simulated")) } } };
    let main = request.visitor.render(|| view(request, pays, answer, receipt.as_ref().map(|answer| &answer.receipt), &stamp)).await?;
    let page = Page { unlisted: true, ..request.tool.page("Answer of", main) };
    Ok(request.visitor.show(page).await)
}

fn view(request: &CallRequest, pays: &PaymentSource, answer: &CallAnswer, receipt: Option<&Receipt>, stamp: &Markup) -> Markup {
    let (receipt_id, payment_id) = (answer.header("x-receipt-id"), answer.header("x-payment-id"));
    let is_stored = receipt.is_some_and(|receipt| was_bought_before(request, receipt));
    let settled = answer.decoded("payment-response").unwrap_or_default();
    html! {
        (charged(receipt_id.is_some(), receipt, is_stored, stamp))
        (facts::list(&[
            ("Status", Some(html! { (answer.status.as_u16()) })),
            ("Type", (!answer.media().is_empty()).then(|| text::first(answer.media(), 100))),
            ("Size", Some(html! { (answer.body.len()) " bytes" })),
            ("Receipt", receipt_id.map(page_links::receipt)),
            ("Payment", payment_id.map(|id| html! { a href={ "/dashboard/payments/" (segment(id)) } { code { (text::words(id)) } } })),
            ("Transaction", settled["transaction"].as_str().filter(|id| !id.is_empty()).map(facts::id)),
        ]))
        section {
            h2 { "Result" }
            (result(answer))
            div.buttons {
                (step::repeat_form(request, pays, "save", "Download"))
                @if is_stored { (step::restart(request, step::NEW_ANSWER)) }
                (step::other(request))
            }
            @if *pays == PaymentSource::Nothing { p.note { "The download calls the tool again." } }
        }
        section {
            h2 { "Raw answer" }
            details.way { summary { "Headers" } (boxed(&headers(answer))) }
            @if let Some(text) = answer.text() { details.way { summary { "Body" } (boxed(text)) } }
        }
    }
}

/// Returns whether the answer was bought before, and is only repeated.
fn was_bought_before(request: &CallRequest, receipt: &Receipt) -> bool {
    receipt.kind != ReceiptKind::Free && receipt.issued_at.0 < request.started_at.0
}

/// Shows whether anything was charged, and how much.
fn charged(has_receipt: bool, receipt: Option<&Receipt>, is_stored: bool, stamp: &Markup) -> Markup {
    let paid = receipt.filter(|receipt| receipt.kind != ReceiptKind::Free);
    html! {
        p.figure {
            @match (paid, receipt) {
                (Some(receipt), _) => { (money::usd(receipt.price_usd)) " " (state("settled")) (stamp) }
                (None, Some(_)) => (state("free")),
                (None, None) if has_receipt => (state("succeeded")),
                (None, None) => (state("failed")),
            }
        }
        p {
            @match (paid, receipt) {
                (Some(receipt), _) if is_stored => { "Charged once, at " (moment(receipt.issued_at)) ". Nothing was charged this time." }
                (Some(_), _) => "Charged once. If you send this form again, it is the same call and is not charged again.",
                (None, Some(_)) => "Nothing was charged.",
                (None, None) if has_receipt => "The receipt shows what was charged.",
                (None, None) => "The tool reported a failure. Nothing was charged.",
            }
        }
    }
}

/// Shows the result as text, or its size.
fn result(answer: &CallAnswer) -> Markup {
    let Some(whole) = answer.text() else {
        return html! { p { @if answer.body.is_empty() { "The answer has no body." } @else { "The answer is not text: " (answer.body.len()) " bytes." } } };
    };
    let spread =
        (whole.len() <= SPREAD_BYTES && answer.media().contains("json")).then(|| minified(whole).map(|json| spread(&json))).flatten();
    let shown = spread.as_deref().unwrap_or(whole);
    boxed(shown)
}

/// Shows text in a scrollable box, cut to the maximum.
fn boxed(text: &str) -> Markup {
    html! {
        div.code { pre tabindex="0" { code { (text::first(text, SHOWN)) } } }
        @if text.chars().nth(SHOWN).is_some() { p.note { "These are the first " (SHOWN) " characters. The download is complete." } }
    }
}

/// Returns the headers, one per line.
fn headers(answer: &CallAnswer) -> String {
    let lines = answer.headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(media: &'static str, body: &'static str) -> CallAnswer {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media))]);
        CallAnswer { status: StatusCode::OK, headers, body: Bytes::from_static(body.as_bytes()), code: None }
    }

    #[test]
    fn result_is_shown_as_text_or_as_a_size() {
        let shown = |media, body| result(&answer(media, body)).into_string();
        assert!(shown("application/json", r#"{"a":"<b>"}"#).contains("{\n  &quot;a&quot;: &quot;&lt;b&gt;&quot;\n}"));
        assert!(shown("text/html; charset=utf-8", "<script>x</script>").contains("&lt;script&gt;x"));
        assert!(shown("image/svg+xml", "<svg/>").contains("not text: 6 bytes"));
        assert!(shown("application/json", "\u{202e}").contains("U+202E"));
        assert!(shown("text/plain", "").contains("<code>"));
    }

    #[test]
    fn long_result_is_cut_with_a_note() {
        let long: &'static str = "x".repeat(SHOWN + 1).leak();
        let shown = result(&answer("text/plain", long)).into_string();
        assert!(shown.contains("The download is complete") && shown.len() < SHOWN + 500);
    }

    #[test]
    fn download_is_never_rendered_by_a_browser() {
        let response = answer("text/html", "<script>x</script>").saved("a-tool");
        let header = |name| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "application/octet-stream");
        assert_eq!(
            (header("content-disposition"), header("x-content-type-options")),
            ("attachment; filename=\"a-tool.txt\"".to_owned(), "nosniff".to_owned())
        );
    }
}
