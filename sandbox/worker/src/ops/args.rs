//! Conversion of arguments from scripts.

use bytes::Bytes;
use deno_core::serde::de::DeserializeOwned;
use tollhouse_protocol::{
    HeaderFromEnv, RedirectMode,
    limits::{LIST_DEFAULT, LIST_LIMIT},
};

/// A field of a request that is parsed from an argument.
pub(super) trait Argument<Passed>: Sized {
    /// Parses the argument. Returns `None` if it is invalid.
    fn read(passed: Passed) -> Option<Self>;
}

impl Argument<String> for String {
    fn read(text: String) -> Option<Self> {
        Some(text)
    }
}

/// An optional string: empty means `None`.
impl Argument<String> for Option<String> {
    fn read(text: String) -> Option<Self> {
        Some((!text.is_empty()).then_some(text))
    }
}

/// JSON text that the host parses.
impl Argument<String> for Bytes {
    fn read(text: String) -> Option<Self> {
        Some(text.into())
    }
}

/// Rows as JSON, made by the scripts.
impl<Row: DeserializeOwned> Argument<String> for Vec<Row> {
    fn read(json: String) -> Option<Self> {
        serde_json::from_str(&json).ok()
    }
}

/// An object as JSON, made by the scripts: empty means `None`.
impl Argument<String> for Option<HeaderFromEnv> {
    fn read(json: String) -> Option<Self> {
        if json.is_empty() { Some(None) } else { serde_json::from_str(&json).ok() }
    }
}

impl Argument<String> for RedirectMode {
    fn read(name: String) -> Option<Self> {
        match name.as_str() {
            "follow" => Some(Self::Follow),
            "manual" => Some(Self::Manual),
            "error" => Some(Self::Error),
            _ => None,
        }
    }
}

impl Argument<&[u8]> for Bytes {
    fn read(buffer: &[u8]) -> Option<Self> {
        Some(Self::copy_from_slice(buffer))
    }
}

/// An optional number: negative means `None`.
impl Argument<f64> for Option<u64> {
    fn read(number: f64) -> Option<Self> {
        Some(whole(number))
    }
}

/// A required number.
impl Argument<f64> for u32 {
    fn read(number: f64) -> Option<Self> {
        whole(number).and_then(|number| Self::try_from(number).ok())
    }
}

/// Parses the `limit` of a list, reduced to the maximum.
pub(super) fn page(limit: f64) -> Option<u32> {
    Some(whole(limit).map_or(LIST_DEFAULT, |limit| u32::try_from(limit).unwrap_or(u32::MAX).min(LIST_LIMIT)))
}

/// Parses an optional number: negative means `None`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, and below 0 is none")]
pub(super) fn whole(number: f64) -> Option<u64> {
    (number >= 0.0).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_requested_size_up_to_the_limit() {
        for (request, page) in [(-1.0, LIST_DEFAULT), (1.0, 1), (f64::from(LIST_LIMIT), LIST_LIMIT), (9_007_199_254_740_991.0, LIST_LIMIT)]
        {
            assert_eq!(super::page(request), Some(page), "{request}");
        }
    }

    #[test]
    fn redirect_mode_is_one_of_the_standard() {
        for (name, mode) in [
            ("follow", Some(RedirectMode::Follow)),
            ("manual", Some(RedirectMode::Manual)),
            ("error", Some(RedirectMode::Error)),
            ("", None),
        ] {
            assert_eq!(RedirectMode::read(name.to_owned()), mode, "{name}");
        }
    }

    #[test]
    fn number_is_converted_exactly_or_rejected() {
        let max = f64::from(u32::MAX);
        for (given, read) in [(0.0, Some(0)), (5_000.0, Some(5_000)), (max, Some(u32::MAX)), (max + 1.0, None), (-1.0, None)] {
            assert_eq!(u32::read(given), read, "{given}");
        }
    }
}
