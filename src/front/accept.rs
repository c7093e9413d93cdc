//! The media types that a client accepts (RFC 9110, section 12.5.1).

use axum::http::{HeaderMap, header};

/// Returns the weight of a media type such as `text/event-stream`, from 0 to 1. The most specific range that matches
/// counts; without a match the weight is 0. `None` means that there is no `Accept` header, so everything is accepted.
pub fn weight(headers: &HeaderMap, media_type: &str) -> Option<f32> {
    let kind = media_type.split('/').next().unwrap_or_default();
    let mut any = false;
    let mut best = (0, 0.0_f32);
    for value in headers.get_all(header::ACCEPT) {
        any = true;
        for range in value.to_str().unwrap_or_default().split(',') {
            let mut words = range.split(';').map(str::trim);
            let name = words.next().unwrap_or_default();
            let specific = match name.split_once('/') {
                _ if name.eq_ignore_ascii_case(media_type) => 3,
                Some((requested, "*")) if requested.eq_ignore_ascii_case(kind) => 2,
                Some(("*", "*")) => 1,
                _ => continue,
            };
            // Among equally specific ranges, the highest weight counts.
            let weight = words.find_map(weight_in).unwrap_or(1.0);
            if specific > best.0 || specific == best.0 && weight > best.1 {
                best = (specific, weight);
            }
        }
    }
    any.then_some(best.1)
}

/// Returns whether `Accept` names a media type explicitly, not by a wildcard, with a weight above 0.
pub fn is_named(headers: &HeaderMap, media_type: &str) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let mut names = values.flat_map(|value| value.split(',')).map(|range| range.split(';').next().unwrap_or_default().trim());
    names.any(|name| name.eq_ignore_ascii_case(media_type)) && weight(headers, media_type).is_some_and(|weight| weight > 0.0)
}

/// Parses a `q=` parameter as a weight. Returns `None` for any other parameter.
fn weight_in(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    let weight = value.trim().parse::<f32>().ok().filter(|weight| (0.0..=1.0).contains(weight));
    name.trim().eq_ignore_ascii_case("q").then_some(weight.unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn accepts(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (header::ACCEPT, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn most_specific_range_sets_the_weight() {
        for (values, stream, json) in [
            (&["application/json, text/event-stream"][..], 1.0, 1.0),
            (&["application/json, text/event-stream;q=0.1"], 0.1, 1.0),
            (&["*/*;q=0.5, text/event-stream;q=0"], 0.0, 0.5),
            (&["text/html", "Text/Event-Stream ; Q=0.7"], 0.7, 0.0),
            (&["text/*;q=0.3, */*;q=0.2"], 0.3, 0.2),
            (&["text/event-stream-x"], 0.0, 0.0),
            (&["text/event-stream;charset=utf-8;q=0.4, text/event-stream;q=0.2"], 0.4, 0.0),
            (&["text/event-stream;q=2, application/json;q=no"], 1.0, 1.0),
            (&[""], 0.0, 0.0),
        ] {
            let headers = accepts(values);
            assert_eq!(weight(&headers, "text/event-stream"), Some(stream), "{values:?}");
            assert_eq!(weight(&headers, "application/json"), Some(json), "{values:?}");
        }
        assert_eq!(weight(&HeaderMap::new(), "application/json"), None);
        assert!(is_named(&accepts(&["a/b, Text/Event-Stream;q=1"]), "text/event-stream"));
        assert!(!is_named(&accepts(&["*/*", "text/*"]), "text/event-stream"));
    }

    #[test]
    fn markdown_is_sent_only_if_accepted() {
        for (accept, wants) in [
            ("text/markdown", true),
            ("text/html;q=0.5, Text/Markdown; q=0.9", true),
            ("text/markdown;charset=utf-8", true),
            ("text/markdown;q=0, text/html", false),
            ("text/markdown; Q=0.000", false),
            ("text/markdownish", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("", false),
        ] {
            let request = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(is_named(&request, "text/markdown"), wants, "{accept}");
        }
    }
}
