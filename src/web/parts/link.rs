//! Links to addresses from others.

use maud::{Markup, html};
use url::Url;

use super::{plain, words};

/// Shows an address as a link if it is a safe https address, else as text.
pub(crate) fn link(address: &str) -> Markup {
    let is_safe = |url: &Url| url.scheme() == "https" && url.has_host() && url.username().is_empty() && url.password().is_none();
    match Url::parse(address).ok().filter(is_safe) {
        // The parsed form is shown, so that an address which imitates another host is recognizable.
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
