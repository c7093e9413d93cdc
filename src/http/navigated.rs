//! What a browser shows that was led to a paid tool: the same refusal with the same headers, in a form for people.

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse as _, Response},
};

use crate::{
    front::{Code, Fault},
    tool::Endpoint,
};

/// Whether a person asks, by an address or a link: a program says nothing of the kind, and a script of a page says something else.
pub(super) fn by_a_person(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-dest").is_some_and(|destination| destination == "document")
}

/// The refusal as a page, where it is for want of a payment; else as it is.
pub(super) fn page(refused: Fault, endpoint: Option<&Endpoint>, base: &str) -> Response {
    let is_challenge = refused.code() == Code::PaymentRequired && refused.challenge().is_some();
    let Some(endpoint) = endpoint.filter(|_| is_challenge) else { return refused.into_response() };
    let (slug, price) = (&endpoint.slug, endpoint.most_usd());
    let most = if endpoint.metered() { "at most " } else { "" };
    let title = escaped(&endpoint.title);
    let text = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>402 Payment required</title>\
         <h1>Payment required</h1><p><bdi>{title}</bdi> (<code>{slug}</code>) is a paid tool: {most}${price} a call, charged only for a result that fits.\
         <p>Programs pay for it. This answer carries the terms in its header <code>PAYMENT-REQUIRED</code>; a client of x402 sends the same request again with a payment.\
         <p><a href=\"{base}/dashboard/tools/{slug}\">About this tool</a> · <a href=\"{base}/docs/agents\">How to call and pay</a>"
    );
    let mut response = refused.into_response();
    *response.body_mut() = text.into();
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

/// Words of a builder as text of HTML: none of them is markup, and what turns the direction of writing is no part of them.
fn escaped(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => told += "&amp;",
            '<' => told += "&lt;",
            '>' => told += "&gt;",
            '"' => told += "&quot;",
            '\'' => told += "&#39;",
            letter
                if letter.is_control()
                    || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                told.push('\u{241b}')
            }
            letter => told.push(letter),
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_builders_are_text_of_a_page() {
        assert_eq!(escaped("<script>alert('1')</script>"), "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
        assert_eq!(escaped("a&b\"\u{202e}\u{0}"), "a&amp;b&quot;\u{241b}\u{241b}");
    }
}
