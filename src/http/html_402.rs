//! The page that a browser shows after following a link to a paid tool: the same error and headers, in a form for
//! people.

use maud::{DOCTYPE, Markup, html};
use tollhouse_base::invisible_chars;
use tollhouse_front::{ApiError, Code};
use tollhouse_tool::Endpoint;

use crate::{HeaderMap, HeaderValue, IntoResponse as _, Response, header};

/// Returns whether a person opened an address or a link. Programs do not send this header, and scripts of pages send
/// another value.
pub(super) fn is_browser_navigation(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-dest").is_some_and(|destination| destination == "document")
}

/// Returns a missing payment as a page, and other errors unchanged.
pub(super) fn page(refused: ApiError, endpoint: Option<&Endpoint>, base: &str) -> Response {
    let is_challenge = refused.code() == Code::PaymentRequired && refused.challenge().is_some();
    let Some(endpoint) = endpoint.filter(|_| is_challenge) else { return refused.into_response() };
    let mut response = refused.into_response();
    *response.body_mut() = document(endpoint, base).into_string().into();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    );
    headers.append(header::VARY, HeaderValue::from_static("sec-fetch-dest"));
    response
}

fn document(endpoint: &Endpoint, base: &str) -> Markup {
    let (slug, price) = (&endpoint.slug, endpoint.max_usd());
    let charged = if endpoint.settle.is_after() { "only for a result that fits" } else { "before it runs" };
    let max = if endpoint.metered() { "at most " } else { "" };
    html! {
        (DOCTYPE)
        html lang="en" {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width";
            title { "402 Payment required" }
            h1 { "Payment required" }
            p {
                bdi { (visible(&endpoint.title)) } " (" code { (slug) } ") is a paid tool: " (max) "$" (price) " a call, charged " (charged) "."
            }
            p {
                "Programs pay for it. This answer carries the terms in its header " code { "PAYMENT-REQUIRED" }
                "; a client of x402 sends the same request again with a payment."
            }
            p {
                a href={ (base) "/dashboard/tools/" (slug) "/try" } { "Try it here" } " · "
                a href={ (base) "/dashboard/tools/" (slug) } { "About this tool" } " · "
                a href={ (base) "/docs/first-paid-call" } { "How to call and pay" }
            }
        }
    }
}

/// Replaces invisible characters in a builder's text with a visible sign.
fn visible(text: &str) -> String {
    invisible_chars::marked(text).map(|(letter, is_invisible)| if is_invisible { '\u{241b}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_builders_are_escaped() {
        let words = |text: &str| html! { (visible(text)) }.into_string();
        assert_eq!(words("<script>alert(\"1\")</script>"), "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;");
        assert_eq!(words("a&b\u{202e}\u{0}"), "a&amp;b\u{241b}\u{241b}");
    }
}
