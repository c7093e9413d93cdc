//! The response formats that a client accepts.

use axum::http::HeaderMap;
use tollhouse_front::accept;

/// The response formats that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcceptedForms {
    Both,
    JsonOnly,
    EventsOnly,
}

impl AcceptedForms {
    /// Returns the accepted formats, or `None` if there are none. A missing header and wildcards accept both.
    pub(super) fn by(headers: &HeaderMap) -> Option<Self> {
        let takes = |media_type| accept::weight(headers, media_type).is_none_or(|weight| weight > 0.0);
        let (json, events) = (takes("application/json"), takes("text/event-stream"));
        match (json, events) {
            (true, true) => Some(Self::Both),
            (true, false) => Some(Self::JsonOnly),
            (false, true) => Some(Self::EventsOnly),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};

    use super::*;

    fn takes(values: &[&'static str]) -> &'static str {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT, HeaderValue::from_static(value));
        }
        match AcceptedForms::by(&headers) {
            Some(AcceptedForms::Both) => "both",
            Some(AcceptedForms::JsonOnly) => "json",
            Some(AcceptedForms::EventsOnly) => "events",
            None => "neither",
        }
    }

    #[test]
    fn accept_headers_of_real_clients_are_supported() {
        assert_eq!(takes(&[]), "both");
        assert_eq!(takes(&["*/*"]), "both");
        assert_eq!(takes(&["application/json"]), "json");
        assert_eq!(takes(&["application/json, text/event-stream"]), "both");
        assert_eq!(takes(&["text/event-stream", "application/json"]), "both");
        assert_eq!(takes(&["text/event-stream"]), "events");
        assert_eq!(takes(&["text/event-stream, application/json;q=0"]), "events");
        assert_eq!(takes(&["*/*, text/event-stream;q=0"]), "json");
        assert_eq!(takes(&["text/html"]), "neither");
    }
}
