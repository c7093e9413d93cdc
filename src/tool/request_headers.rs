//! `requestHeaders`: the request headers that a tool wants to see, in addition to those that every tool sees.

/// Maximum number of headers of one tool.
pub const MAX_REQUEST_HEADERS: usize = 16;

/// Maximum length of a name, in bytes.
const MAX_BYTES: usize = 64;

/// Words of names that credentials and payments have.
const WORDS: &[&str] = &["auth", "authentication", "authorization", "bearer", "credit", "csrf", "jwt", "key", "quote", "session", "xsrf"];

/// The same within a word.
const PARTS: &[&str] = &["apikey", "cookie", "credential", "passwd", "password", "payment", "secret", "token", "x402"];

/// Headers about the connection, which a proxy may change.
const OF_CONNECTIONS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Words in names of headers with addresses, in the spellings of many proxies.
const ADDRESS_WORDS: &[&str] = &["addr", "address", "forwarded", "ip", "ipv4", "ipv6", "via"];

/// The same within a word.
const ADDRESS_PARTS: &[&str] = &["clientip", "connectingip", "forwardedfor", "realip", "remoteaddr", "remoteip", "socketip", "userip"];

/// Returns why `name` cannot be one of a tool's request headers, as a sentence without its period.
pub fn request_header_problem(name: &str) -> Option<String> {
    let is_token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > MAX_BYTES || !name.bytes().all(is_token) {
        return Some(format!(
            "a request header must be a name in lower case with 1 to {MAX_BYTES} characters, for example `stripe-signature`"
        ));
    }
    let has_word = |words: &[&str]| name.split(['-', '_', '.']).any(|word| words.contains(&word));
    if has_word(WORDS) || PARTS.iter().any(|part| name.contains(part)) {
        return Some(format!("`{name}` can contain a credential or a payment of the caller, which no handler sees"));
    }
    if OF_CONNECTIONS.contains(&name) {
        return Some(format!("`{name}` is about the connection, which the host ends"));
    }
    let has_address = has_word(ADDRESS_WORDS) || ADDRESS_PARTS.iter().any(|part| name.contains(part));
    has_address.then(|| format!("`{name}` can contain the address of the caller, which no handler sees"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_webhooks_are_taken() {
        for name in [
            "stripe-signature",
            "x-hub-signature-256",
            "x-github-event",
            "svix-id",
            "svix-signature",
            "x-shopify-hmac-sha256",
            "x-twilio-signature",
            "paypal-transmission-sig",
            "if-none-match",
            "referer",
        ] {
            assert_eq!(request_header_problem(name), None, "{name}");
        }
    }

    #[test]
    fn credentials_payments_and_addresses_are_refused() {
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "payment-signature",
            "x-payment",
            "x-payment-id",
            "x-developer-credit",
            "x-admin-token",
            "x-builder-key",
            "x-api-key",
            "api-key",
            "idempotency-key",
            "ocp-apim-subscription-key",
            "x-auth",
            "x-amz-security-token",
            "x-quote-id",
        ] {
            assert!(request_header_problem(name).is_some_and(|why| why.contains("credential or a payment")), "{name}");
        }
        for name in [
            "x-forwarded-for",
            "x-vercel-forwarded-for",
            "forwarded",
            "via",
            "cf-connecting-ip",
            "cf-connecting-ipv6",
            "cf-pseudo-ipv4",
            "x-real-ip",
            "remote-addr",
            "x-appengine-user-ip",
            "x-azure-clientip",
            "x-azure-socketip",
            "x-envoy-external-address",
        ] {
            assert!(request_header_problem(name).is_some_and(|why| why.contains("address")), "{name}");
        }
        assert!(request_header_problem("transfer-encoding").is_some_and(|why| why.contains("connection")));
        for name in ["", "Stripe-Signature", "a b", "a:b", "a\r\nb", "\u{e4}", &"a".repeat(65)] {
            assert!(request_header_problem(name).is_some_and(|why| why.contains("name in lower case")), "{name:?}");
        }
    }
}
