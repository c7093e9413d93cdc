//! Addresses of hosts: parsing, comparison, and whether others can read along on the way to one.

use std::{ffi::OsStr, net::IpAddr};

use clap::{Arg, Command, builder::TypedValueParser, error::ErrorKind};
use reqwest::Url;
use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

/// Parses an address: http or https, without anything secret.
///
/// # Errors
///
/// A message with the expected form.
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{error}; an example is https://tools.example.com"))?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
    if matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain {
        Ok(url)
    } else {
        Err("use http:// or https:// and a host, without user name, password, query or fragment".to_owned())
    }
}

/// Parses the address in a flag or in its environment variable. An invalid one is not repeated in the error, because it
/// may contain a password.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address;

impl TypedValueParser for Address {
    type Value = Url;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Url, clap::Error> {
        let read = value.to_str().ok_or_else(|| "not valid UTF-8".to_owned()).and_then(parse);
        read.map_err(|reason| {
            let of = arg.map_or_else(|| "the address".to_owned(), |arg| format!("'{arg}'"));
            command.clone().error(ErrorKind::ValueValidation, format!("invalid value for {of}: {reason}"))
        })
    }
}

pub(super) fn serialize<S: Serializer>(url: &Url, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(url.as_str())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Deserializes the address of a node, which may contain a key.
pub(super) fn node<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let url = Url::parse(&String::deserialize(deserializer)?).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    // Omit the text, because it may contain a key.
    url.map(Some).ok_or_else(|| D::Error::custom("the address of a node must begin with http:// or https:// and a host"))
}

/// Returns whether two addresses mean the same host: scheme, name, port, and base path.
pub(crate) fn same_place(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin() && one.path().trim_end_matches('/') == other.path().trim_end_matches('/')
}

/// Returns whether the address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address: Result<IpAddr, _> = host.trim_start_matches('[').trim_end_matches(']').parse();
    address.map_or_else(|_| host == "localhost" || host.ends_with(".localhost"), |address| address.is_loopback())
}

/// Returns the address of `path` below another address. Its segments are used literally.
pub(crate) fn below(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut pieces) = url.path_segments_mut() {
        pieces.pop_if_empty().extend(path);
    }
    url
}

/// Formats the address for people, without a trailing slash.
pub(crate) fn host_name(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_with_a_password_is_rejected() {
        assert!(parse("https://tools.example.com/base").is_ok());
        for text in ["tools.example.com", "ftp://a", "https://a:b@c", "https://a/?q", "https://a/#f", "https://"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn loopback_addresses_are_recognized() {
        for (text, is) in [
            ("http://127.0.0.1:4020", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://dev.localhost:1", true),
            ("http://127.0.0.1.example.com", false),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1", false),
            ("http://notlocalhost", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(text).unwrap()), is, "{text}");
        }
    }
}
