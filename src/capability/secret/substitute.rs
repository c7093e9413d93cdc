//! Puts the values of secrets in the place of their placeholders, in a request that is about to be sent.
//!
//! A value is put only into the places that its secret names, only for its hosts, and only if nobody can read the
//! request on its way. A placeholder anywhere else is an error, because the server could do nothing with it. One that
//! the handler has encoded in another way is not found, and is sent as it is: it is useless to whoever gets it.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT},
};
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tollhouse_api::SecretPlace;
use tollhouse_protocol::limits::REQUEST_BODY_BYTES;
use url::{Position, Url, form_urlencoded};

use super::granted::{DIGITS, PREFIX, Placeholder, Secret};
use crate::{Redactor, redact::UNRESERVED_SENT};

/// Maximum size of all header values after the values of secrets were put in, in bytes.
const HEADER_BYTES: usize = 16 << 10;

/// Maximum length of a URL after the values of secrets were put in, in bytes.
const URL_BYTES: usize = 8 << 10;

/// Why a request with a placeholder is not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstituteError {
    #[error("the secret `{name}` can only be sent to {hosts}")]
    Host { name: String, hosts: String },
    #[error("the secret `{name}` is not for the {place} of a request; set it with `--in {place}` to allow that")]
    Place { name: String, place: &'static str },
    #[error("the secret `{0}` can only be sent over https")]
    Insecure(String),
    #[error("the name of a header or of a host cannot contain the placeholder of a secret")]
    Name,
    #[error("the placeholder of a secret is valid only in the call that read it; read `ctx.env` in each call")]
    Stale,
    #[error("the secret `{0}` cannot be sent in a header")]
    HeaderValue(String),
    #[error("with the values of secrets, the {place} of the request has more than {max} bytes")]
    TooLarge { place: &'static str, max: usize },
}

impl SubstituteError {
    /// Returns the stable code of an op that failed with this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Host { .. } => "not_granted",
            Self::Insecure(_) => "forbidden_address",
            Self::Place { .. } | Self::Name | Self::Stale | Self::HeaderValue(_) | Self::TooLarge { .. } => "invalid_argument",
        }
    }
}

/// The server that a request is sent to.
pub(crate) struct Destination<'u> {
    pub(crate) url: &'u Url,
    /// Whether nobody can read the request on its way.
    pub(crate) is_private: bool,
    /// Whether it is a loopback upstream of `tollhouse dev`, which stands for the hosts of every secret.
    pub(crate) is_development: bool,
}

/// The parts of a request with the values of secrets.
pub(crate) struct FilledRequest {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// The placeholders of one call.
pub struct Placeholders<'s> {
    /// Finds a placeholder, or the start of an unknown one.
    finder: AhoCorasick,
    /// The secret of each pattern of the finder except the last.
    secrets: Vec<(&'s Secret, &'s Placeholder)>,
}

impl<'s> Placeholders<'s> {
    /// Returns the placeholders of a call's secrets, or `None` without any.
    pub(crate) fn of(secrets: &'s [Secret]) -> Option<Self> {
        let secrets: Vec<_> = secrets.iter().filter_map(|secret| Some((secret, secret.placeholder.as_ref()?))).collect();
        if secrets.is_empty() {
            return None;
        }
        let texts = secrets.iter().map(|(_, placeholder)| placeholder.text.as_str()).chain([PREFIX]);
        // The first pattern that matches at a place wins, and the prefix is the last one.
        let building =
            AhoCorasick::builder().kind(Some(AhoCorasickKind::NoncontiguousNFA)).match_kind(MatchKind::LeftmostFirst).build(texts);
        Some(Self { finder: building.expect("placeholders are far below the finder's limits"), secrets })
    }

    /// Returns a request with the values in the place of their placeholders.
    ///
    /// # Errors
    ///
    /// [`SubstituteError`] if a placeholder is in a place where its value must not be.
    pub(crate) fn fill(&self, to: &Destination<'_>, headers: &HeaderMap, body: Option<&Bytes>) -> Result<FilledRequest, SubstituteError> {
        let body = body.map(|body| self.fill_body(to, headers, body)).transpose()?;
        Ok(FilledRequest { url: self.fill_url(to)?, headers: self.fill_headers(to, headers)?, body })
    }

    fn fill_url(&self, to: &Destination<'_>) -> Result<String, SubstituteError> {
        let (before, sent) = (&to.url[..Position::BeforePath], &to.url[Position::BeforePath..Position::AfterQuery]);
        if self.finder.is_match(before) {
            return Err(SubstituteError::Name);
        }
        let filled = self.replace(sent.as_bytes(), SecretPlace::Url, to, URL_BYTES, percent_encoded)?;
        // Only ASCII was put in.
        let filled = filled.map(|filled| String::from_utf8_lossy(&filled).into_owned());
        Ok(format!("{before}{}", filled.as_deref().unwrap_or(sent)))
    }

    fn fill_headers(&self, to: &Destination<'_>, headers: &HeaderMap) -> Result<HeaderMap, SubstituteError> {
        let (mut filled, mut bytes) = (HeaderMap::with_capacity(headers.len()), 0);
        for (name, value) in headers {
            if self.finder.is_match(name.as_str()) {
                return Err(SubstituteError::Name);
            }
            let Some(sent) = self.fill_header(to, value.as_bytes())? else {
                filled.append(name.clone(), value.clone());
                continue;
            };
            bytes += sent.len();
            if bytes > HEADER_BYTES {
                return Err(SubstituteError::TooLarge { place: place_name(SecretPlace::Header), max: HEADER_BYTES });
            }
            let mut sent = HeaderValue::from_bytes(&sent).map_err(|_| SubstituteError::HeaderValue(self.first_in(value.as_bytes())))?;
            sent.set_sensitive(true);
            filled.append(name.clone(), sent);
        }
        Ok(filled)
    }

    /// Returns the value of a header with the values of secrets, or `None` if it contains no placeholder.
    fn fill_header(&self, to: &Destination<'_>, value: &[u8]) -> Result<Option<Vec<u8>>, SubstituteError> {
        if let Some((scheme, credentials)) = basic_credentials(value)
            && let Some(sent) = self.replace(&credentials, SecretPlace::Header, to, HEADER_BYTES, unchanged)?
        {
            return Ok(Some([scheme, STANDARD.encode(sent).as_bytes()].concat()));
        }
        self.replace(value, SecretPlace::Header, to, HEADER_BYTES, unchanged)
    }

    fn fill_body(&self, to: &Destination<'_>, headers: &HeaderMap, body: &Bytes) -> Result<Bytes, SubstituteError> {
        let filled = self.replace(body, SecretPlace::Body, to, REQUEST_BODY_BYTES, encoding_of(headers))?;
        Ok(filled.map_or_else(|| body.clone(), Bytes::from))
    }

    /// Returns `text` with encoded values in the place of their placeholders, or `None` if it contains none.
    fn replace(
        &self,
        text: &[u8],
        place: SecretPlace,
        to: &Destination<'_>,
        max: usize,
        encode: fn(&str) -> Cow<'_, str>,
    ) -> Result<Option<Vec<u8>>, SubstituteError> {
        let too_large = || SubstituteError::TooLarge { place: place_name(place), max };
        let (mut filled, mut done) = (Vec::new(), 0);
        for found in self.finder.find_iter(text) {
            let Some((secret, placeholder)) = self.secrets.get(found.pattern().as_usize()) else {
                // A body can be a text that somebody else wrote.
                if place != SecretPlace::Body && is_rest_of_placeholder(&text[found.end()..]) {
                    return Err(SubstituteError::Stale);
                }
                continue;
            };
            check(secret, placeholder, place, to)?;
            filled.extend_from_slice(&text[done..found.start()]);
            filled.extend_from_slice(encode(&secret.value).as_bytes());
            done = found.end();
            if filled.len() > max {
                return Err(too_large());
            }
        }
        if done == 0 {
            return Ok(None);
        }
        filled.extend_from_slice(&text[done..]);
        if filled.len() > max { Err(too_large()) } else { Ok(Some(filled)) }
    }

    /// Returns a URL with the name of each secret, as `$NAME`, in the place of its placeholder.
    pub(crate) fn named(&self, url: &Url) -> Url {
        let mut named = url.to_string();
        for (secret, placeholder) in &self.secrets {
            named = named.replace(&placeholder.text, &format!("${}", secret.name));
        }
        named.parse().unwrap_or_else(|_| url.clone())
    }

    /// Removes the headers that contain placeholders, because a redirect leads to another origin.
    pub(crate) fn remove_headers(&self, headers: &mut HeaderMap) {
        let contains = |value: &HeaderValue| {
            let decoded = basic_credentials(value.as_bytes());
            self.finder.is_match(value.as_bytes()) || decoded.is_some_and(|(_, credentials)| self.finder.is_match(&credentials))
        };
        let names: Vec<HeaderName> = headers.iter().filter(|(_, value)| contains(value)).map(|(name, _)| name.clone()).collect();
        for name in names {
            headers.remove(name);
        }
    }

    /// Returns the name of a secret whose value is in a URL that does not lead to one of its hosts.
    pub(crate) fn value_for_others(&self, url: &Url) -> Option<&'s str> {
        let is_in = |value: &str| Redactor::new([value]).ignoring_case().redact(url.as_str()) != url.as_str();
        self.secrets
            .iter()
            .find(|(secret, placeholder)| !placeholder.hosts.names(url) && is_in(&secret.value))
            .map(|(secret, _)| &*secret.name)
    }

    /// Returns the name of the first secret in a header.
    fn first_in(&self, value: &[u8]) -> String {
        let found = self.finder.find(value).and_then(|found| self.secrets.get(found.pattern().as_usize()));
        found.map(|(secret, _)| secret.name.clone()).unwrap_or_default()
    }
}

fn check(secret: &Secret, placeholder: &Placeholder, place: SecretPlace, to: &Destination<'_>) -> Result<(), SubstituteError> {
    let name = || secret.name.clone();
    if !placeholder.hosts.names(to.url) && !to.is_development {
        let hosts: Vec<_> = placeholder.hosts.iter().map(|host| format!("`{host}`")).collect();
        return Err(SubstituteError::Host { name: name(), hosts: hosts.join(", ") });
    }
    if !placeholder.places.contains(&place) {
        return Err(SubstituteError::Place { name: name(), place: place_name(place) });
    }
    if to.is_private { Ok(()) } else { Err(SubstituteError::Insecure(name())) }
}

fn place_name(place: SecretPlace) -> &'static str {
    match place {
        SecretPlace::Header => "header",
        SecretPlace::Url => "url",
        SecretPlace::Body => "body",
    }
}

/// Splits a header with Basic credentials (RFC 7617) into scheme and decoded credentials.
fn basic_credentials(value: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let (scheme, credentials) = value.split_at_checked("basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    Some((scheme, STANDARD_PAD_INDIFFERENT.decode(credentials.trim_ascii()).ok()?))
}

fn is_rest_of_placeholder(text: &[u8]) -> bool {
    text.get(..DIGITS).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns how a value is written in a body of this type.
fn encoding_of(headers: &HeaderMap) -> fn(&str) -> Cow<'_, str> {
    let declared = headers.get(CONTENT_TYPE).map(|declared| declared.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    let essence = declared.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.ends_with(b"json") {
        json_escaped
    } else if essence == b"application/x-www-form-urlencoded" {
        form_encoded
    } else {
        unchanged
    }
}

fn unchanged(value: &str) -> Cow<'_, str> {
    Cow::Borrowed(value)
}

fn form_encoded(value: &str) -> Cow<'_, str> {
    Cow::Owned(form_urlencoded::byte_serialize(value.as_bytes()).collect())
}

fn json_escaped(value: &str) -> Cow<'_, str> {
    let quoted = serde_json::Value::from(value).to_string();
    Cow::Owned(quoted[1..quoted.len() - 1].to_owned())
}

/// Returns a value as a part of a path or of a query. Colons and `@` stay, as RFC 3986 allows in both.
fn percent_encoded(value: &str) -> Cow<'_, str> {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || UNRESERVED_SENT.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
    }
    Cow::Owned(encoded)
}

fn hex_digit(digit: u8) -> char {
    char::from_digit(digit.into(), 16).unwrap_or_default().to_ascii_uppercase()
}

#[cfg(test)]
mod tests;
