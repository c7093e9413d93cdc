//! The target of a call: a tool of the profile's host, or any address that takes payments.

use reqwest::{Method, Url};
use serde_json::Value;
use tollhouse_money::receipt::bytes_hash;
use tollhouse_tool::Slug;

use super::{Request, body_file::BodyFile};
use crate::base::{Error, Result, Session, first, same_place};

/// A request, and the host that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct PaymentTarget {
    /// The name shown to people.
    pub(crate) name: String,
    /// The tool's slug on the host, if the address looks like that of a tool on a Tollhouse host.
    pub(crate) slug: Option<Slug>,
    pub(crate) request: Request,
    /// The host whose payments and receipts are looked up.
    pub(crate) host: Url,
    /// Whether that is the profile's host.
    pub(crate) own: bool,
}

/// The input of a call: JSON, a file, or nothing.
#[derive(Debug, Default)]
pub(crate) struct CallInput {
    pub(crate) json: Option<String>,
    pub(crate) file: Option<BodyFile>,
}

impl PaymentTarget {
    /// Returns the target that `target` names: a slug, or an address. An address is requested with GET unless there is
    /// an input.
    ///
    /// # Errors
    ///
    /// Neither a slug nor an address.
    pub(crate) fn at(session: &Session, target: &str, input: CallInput, stream: bool) -> Result<Self> {
        let CallInput { json: input, file } = input;
        if !target.contains("://") {
            let slug: Slug = target.parse().map_err(|error| Error::usage(format!("`{}` is not a tool: {error}", first(target, 80))))?;
            let url = session.client.at(&["tools", slug.as_str()]);
            let host = session.client.base().clone();
            let request =
                Request { method: Method::POST, url, body: input.or_else(|| file.is_none().then(|| "{}".to_owned())), file, stream };
            return Ok(Self { name: slug.to_string(), slug: Some(slug), request, host, own: true });
        }
        let url = Url::parse(target).map_err(|error| Error::usage(format!("`{}` is not an address: {error}", first(target, 80))))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !url.username().is_empty() || url.password().is_some() {
            return Err(Error::usage("an address must begin with http:// or https:// and a host, without user name and password"));
        }
        let (host, slug) = below(&url);
        let own = same_place(&host, session.client.base());
        let method = if input.is_some() || file.is_some() { Method::POST } else { Method::GET };
        let name = match &slug {
            Some(slug) if own => slug.to_string(),
            Some(_) | None => first(&format!("{}{}", url.host_str().unwrap_or_default(), url.path()), 120),
        };
        Ok(Self { name, slug, request: Request { method, url, body: input, file, stream }, host, own })
    }

    /// Returns a hash that identifies the request. The same request is not paid for twice without `--again`.
    pub(crate) fn request_hash(&self, by: &str) -> String {
        let Request { method, url, body, file, .. } = &self.request;
        if let Some(BodyFile { content_type, hash, .. }) = file {
            return bytes_hash(format!("{by}\n{method}\n{url}\n{content_type}\n{hash}").as_bytes());
        }
        let input = body.as_deref().unwrap_or_default();
        let input = serde_json::from_str::<Value>(input).map_or_else(|_| input.to_owned(), |value| value.to_string());
        bytes_hash(format!("{by}\n{method}\n{url}\n{input}").as_bytes())
    }
}

/// Returns the host that an address is on, and the tool that it names there if it has the form of a Tollhouse address.
fn below(url: &Url) -> (Url, Option<Slug>) {
    let mut host = url.clone();
    host.set_query(None);
    host.set_fragment(None);
    let found = url.path().rsplit_once("/tools/").and_then(|(before, slug)| Some((before.to_owned(), slug.parse().ok()?)));
    match found {
        Some((before, slug)) => {
            host.set_path(&before);
            (host, Some(slug))
        }
        None => {
            host.set_path("");
            (host, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_the_address_before_tools() {
        for (url, host, slug) in [
            ("http://a.test/tools/echo?x=1", "http://a.test/", Some("echo")),
            ("http://a.test:4020/below/tools/echo", "http://a.test:4020/below", Some("echo")),
            ("https://a.test/weather/today?d=1#f", "https://a.test/", None),
            ("https://a.test/tools/no/slug", "https://a.test/", None),
        ] {
            let (found, name) = below(&Url::parse(url).unwrap());
            assert_eq!((found.as_str(), name.as_ref().map(Slug::as_str)), (host, slug), "{url}");
        }
    }
}
