//! A call as a front hands it over, and what a handler may know of its request beyond the input.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, USER_AGENT};
use serde::Serialize;
use tokio::sync::mpsc;
use tollhouse_base::id::{CallId, PaymentId, ReceiptId};
use tollhouse_capability::ProgressUpdate;
use tollhouse_catalog::Live;
use tollhouse_money::{Offered, Way};

use super::input::Input;

/// The headers that a handler sees.
static SHOWN: [HeaderName; 6] =
    [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT, HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

/// One call, as a front hands it over.
pub struct Call {
    /// Found by the front already, so that it can bound the body.
    pub live: Arc<Live>,
    /// Who calls.
    pub by: CalledBy,
    /// How they ask, as they are told to pay.
    pub way: Way,
    /// What to call with.
    pub input: Input,
    /// What it is paid with.
    pub offered: Offered,
    /// The quote that it names, if it names one.
    pub quote: Option<String>,
    /// What a handler may know of the request.
    pub head: RequestHead,
    /// Whose network asks, for its share of the processor.
    pub from: IpAddr,
    /// Takes what happens on the way, for callers who stream.
    pub progress: Option<mpsc::Sender<Progress>>,
}

/// Everything of `req` but the body and the caller. Never credentials, payment or addresses.
#[derive(Debug, Clone, Serialize)]
pub struct RequestHead {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// As the caller asked for it.
    pub url: String,
    /// Without the query.
    pub path: String,
    /// Of a name that is repeated, the last value.
    pub query: BTreeMap<String, String>,
    /// Lower-case names; only those that are [shown](RequestHead::shown).
    pub headers: BTreeMap<&'static str, String>,
}

impl RequestHead {
    /// What a handler sees of the headers of a request: of several of a name the first. What is traced is read as W3C has it (Trace Context,
    /// 3.2 and 3.3): states in the order in which they stand, and of several parents none.
    #[must_use]
    pub fn shown(headers: &HeaderMap) -> BTreeMap<&'static str, String> {
        let shown = |name: &'static HeaderName| {
            let mut all = headers.get_all(name).iter().map(|value| value.to_str().ok());
            let value = match name.as_str() {
                "tracestate" => Some(all.collect::<Option<Vec<_>>>()?.join(",")).filter(|joined| !joined.is_empty()),
                "traceparent" => all.next().flatten().filter(|_| all.next().is_none()).map(str::to_owned),
                _ => all.next().flatten().map(str::to_owned),
            };
            Some((name.as_str(), value?))
        };
        SHOWN.iter().filter_map(shown).collect()
    }

    /// The query as it stands in the URL.
    pub(super) fn raw_query(&self) -> Option<&str> {
        self.url.split_once('?').map(|(_, query)| query)
    }
}

/// As whom a tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalledBy {
    /// Who pays what it costs.
    Anyone,
    /// Who owns it, and calls it free of charge: nothing is sold, and what is offered as payment is not looked at.
    Owner,
}

/// What happens on the way of a streamed call.
#[derive(Debug, Clone)]
pub enum Progress {
    /// The payment stands, the input fits, the handler starts.
    Accepted {
        /// The call.
        call: CallId,
        /// What it is paid with; `None` for free calls.
        payment: Option<PaymentId>,
        /// The receipt that a success will have.
        receipt: ReceiptId,
    },
    /// What the handler lets its caller hear.
    Update(ProgressUpdate),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_headers_that_are_there_twice_states_are_joined_and_parents_are_none() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("traceparent", "a"), ("tracestate", "a=1"), ("tracestate", "b=2"), ("accept", "x"), ("accept", "y")] {
            headers.append(name, value.parse().unwrap());
        }
        let of = |headers: &HeaderMap, name| RequestHead::shown(headers).remove(name);
        assert_eq!(of(&headers, "tracestate").as_deref(), Some("a=1,b=2"));
        assert_eq!((of(&headers, "traceparent").as_deref(), of(&headers, "accept").as_deref()), (Some("a"), Some("x")));
        headers.append("traceparent", "b".parse().unwrap());
        assert_eq!((of(&headers, "traceparent"), of(&headers, "user-agent")), (None, None));
    }
}
