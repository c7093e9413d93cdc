//! The path of the host's public URL: `--base-url https://a.example/tools` has a path, which a
//! proxy removes from requests.
//!
//! Pages are written without that path, and all comparisons ignore it. It is added to addresses on
//! the way to the browser: in documents, in targets of redirects and scripts, and in cookie paths.

use url::Url;

use crate::{HeaderMap, HeaderValue, header};

/// Attributes that contain an address.
const ADDRESSES: [&str; 7] = ["href", "src", "action", "formaction", "data-live", "data-page", "data-rows"];

/// The path of the public URL without a trailing slash. Empty if there is none.
#[derive(Debug, Clone, Default)]
pub struct BasePath(String);

impl BasePath {
    /// Returns the root of this public URL.
    #[must_use]
    pub fn of(base_url: &str) -> Self {
        Self(Url::parse(base_url).map(|url| url.path().trim_end_matches('/').to_owned()).unwrap_or_default())
    }

    /// Returns the path at which a browser finds `path`.
    pub(super) fn below(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Adds the root to the addresses in a document. Untrusted text contains neither quotes nor
    /// angle brackets in markup, so only real attributes match.
    pub(super) fn document(&self, markup: String) -> String {
        if self.0.is_empty() {
            return markup;
        }
        let mut text = String::with_capacity(markup.len() * 5 / 4);
        for (position, piece) in markup.split('<').enumerate() {
            let (tag, words) = if position > 0 { piece.split_at(piece.find('>').unwrap_or(piece.len())) } else { ("", piece) };
            text.extend((position > 0).then_some('<'));
            self.tag(tag, &mut text);
            text += words;
        }
        text
    }

    fn tag(&self, tag: &str, rendered: &mut String) {
        const BEGINS: &str = "=\"/";
        let mut rest = tag;
        while let Some((before, after)) = rest.split_once(BEGINS) {
            let name = before.rsplit(' ').next().unwrap_or_default();
            let leads = ADDRESSES.contains(&name) && !after.starts_with('/');
            rendered.extend([before, "=\"", if leads { &self.0 } else { "" }, "/"]);
            rest = after;
        }
        rendered.push_str(rest);
    }

    /// Adds the root to the target of a redirect.
    pub(super) fn redirect(&self, headers: &mut HeaderMap) {
        let to = headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).filter(|to| to.starts_with('/') && !self.0.is_empty());
        if let Some(to) = to.and_then(|to| HeaderValue::try_from(self.below(to)).ok()) {
            headers.insert(header::LOCATION, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    #[test]
    fn addresses_get_the_base_path() {
        let describe = |url: &str| {
            let page = html! {
                link rel="icon" href="/a.svg";
                form action="/b" { input name="back" value="/c"; button formaction="/d" { "=\"/e <a href=\"/f\">" } }
                a title="href=\"/g" data-gauge="/h" href={ "/i?" "to=/j" } { "k" }
                a href="#l" { "/m" }
                a href="//n.example" { "n" }
            };
            BasePath::of(url).document(page.into_string())
        };
        let plain = describe("https://x.example/");
        let below = describe("https://x.example:8443/y/z/");
        assert!(plain.contains(r#"<form action="/b"><input name="back" value="/c"><button formaction="/d">"#), "{plain}");
        let expected =
            ["/a.svg", "/b", "/d", "/i?"].iter().fold(plain, |page, path| page.replace(&format!("=\"{path}"), &format!("=\"/y/z{path}")));
        assert_eq!(below, expected);
    }

    #[test]
    fn redirect_gets_the_base_path_once() {
        let redirected = |url: &str, to: &'static str| {
            let mut headers = HeaderMap::from_iter([(header::LOCATION, HeaderValue::from_static(to))]);
            BasePath::of(url).redirect(&mut headers);
            headers[header::LOCATION].to_str().unwrap().to_owned()
        };
        assert_eq!(redirected("https://x.example", "/dashboard"), "/dashboard");
        assert_eq!(redirected("https://x.example/y", "/dashboard?a=/b"), "/y/dashboard?a=/b");
        assert_eq!(redirected("https://x.example/y", "https://z.example/"), "https://z.example/");
    }
}
