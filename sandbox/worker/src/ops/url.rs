//! `URL` and `URLSearchParams`, with the parser that the host's guard uses too.

use deno_core::{
    op2,
    url::{Url, form_urlencoded, quirks},
};

/// Returns the parts of `text` as JSON, in the order of 06_url.js. Empty if it is not a valid URL.
#[op2]
#[string]
pub(super) fn op_url_parse(#[string] text: &str) -> String {
    Url::parse(text).map_or_else(|_| String::new(), |url| parts(&url))
}

/// Returns the parts of `text` relative to `base`, in the form of [`op_url_parse`].
#[op2]
#[string]
pub(super) fn op_url_join(#[string] text: &str, #[string] base: &str) -> String {
    Url::parse(base).and_then(|base| base.join(text)).map_or_else(|_| String::new(), |url| parts(&url))
}

/// Returns the parts of `href` after one was set, or an empty string if it is unchanged.
#[op2]
#[string]
pub(super) fn op_url_set(#[string] href: &str, #[smi] part: u32, #[string] value: &str) -> String {
    let Ok(mut url) = Url::parse(href) else { return String::new() };
    let set = match part {
        1 => quirks::set_protocol(&mut url, value),
        2 => quirks::set_username(&mut url, value),
        3 => quirks::set_password(&mut url, value),
        4 => quirks::set_host(&mut url, value),
        5 => quirks::set_hostname(&mut url, value),
        6 => quirks::set_port(&mut url, value),
        7 => {
            quirks::set_pathname(&mut url, value);
            Ok(())
        }
        8 => {
            quirks::set_search(&mut url, value);
            Ok(())
        }
        9 => {
            quirks::set_hash(&mut url, value);
            Ok(())
        }
        _ => Err(()),
    };
    if set.is_ok() { parts(&url) } else { String::new() }
}

/// Parses a query into rows of name and value, as JSON.
#[op2]
#[string]
pub(super) fn op_params_parse(#[string] text: &str) -> String {
    let rows: Vec<_> = form_urlencoded::parse(text.as_bytes()).collect();
    serde_json::to_string(&rows).unwrap_or_else(|_| "[]".into())
}

/// Serializes JSON rows of name and value as a query.
#[op2]
#[string]
pub(super) fn op_params_serialize(#[string] rows: &str) -> String {
    let rows: Vec<(String, String)> = serde_json::from_str(rows).unwrap_or_default();
    form_urlencoded::Serializer::new(String::new()).extend_pairs(rows).finish()
}

fn parts(url: &Url) -> String {
    let origin = quirks::origin(url);
    let parts = [
        quirks::href(url),
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
        origin.as_str(),
    ];
    serde_json::to_string(&parts).unwrap_or_default()
}
