//! Addresses of others.

use maud::{Markup, html};
use url::Url;

use super::text::{plain, words};

/// An address of somebody else's as a link, where it is one of https; as text otherwise.
pub(crate) fn link(address: &str) -> Markup {
    let is_safe = |url: &Url| url.scheme() == "https" && url.has_host() && url.username().is_empty() && url.password().is_none();
    match Url::parse(address).ok().filter(is_safe) {
        // As it was read, which is how it is asked for: what looks like another host is seen as what it is.
        Some(url) => html! { a href=(url) rel="noopener noreferrer nofollow ugc" { bdi { (plain(url.as_str())) } } },
        None => words(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_a_link() {
        assert!(link("https://a.test/x?y=1").into_string().starts_with("<a href=\"https://a.test/x?y=1\""));
        for text in ["http://a.test", "javascript:alert(1)", "data:text/html,x", "//a.test", "https://a:b@c.test", "https:///", "a", ""] {
            assert!(!link(text).into_string().contains("<a "), "{text}");
        }
        assert!(link("https://аpple.test/").into_string().contains("https://xn--pple-43d.test/"), "as it is asked for");
    }
}
