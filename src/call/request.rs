//! A call from a front, and the parts of its request that a handler may see besides the input.

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr, sync::Arc};

use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, USER_AGENT};
use serde::Serialize;
use tokio::sync::mpsc;
use tollhouse_base::id::{CallId, PaymentId, ReceiptId};
use tollhouse_capability::ProgressUpdate;
use tollhouse_catalog::LiveEndpoint;
use tollhouse_money::{EntryMethod, OfferedPayment};

use super::{input::Input, stream::StreamSender};

/// The headers that a handler sees.
static SHOWN: [HeaderName; 6] =
    [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT, HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

pub struct Call {
    /// The tool, which the front has already found to limit the body.
    pub live: Arc<LiveEndpoint>,
    pub by: CalledBy,
    /// The way of calling, which also determines how payment is requested.
    pub entry_method: EntryMethod,
    pub input: Input,
    pub offered: OfferedPayment,
    pub quote: Option<String>,
    /// The parts of the request that a handler may see.
    pub head: RequestHead,
    /// The caller's address, for its share of the processor.
    pub from: IpAddr,
    /// Receives progress, for callers who stream.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Receives a streamed answer when its first bytes are there, for callers who take one. Dropped with the end of the
    /// call.
    pub stream: Option<StreamSender>,
}

/// The fields of `req` except for the body and the caller. It never contains credentials, payments or addresses.
#[derive(Debug, Clone, Serialize)]
pub struct RequestHead {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The URL as the caller requested it.
    pub url: String,
    pub path: String,
    /// The query fields. If a name is repeated, the last value counts.
    pub query: BTreeMap<String, String>,
    /// The [visible](RequestHead::visible_headers) headers, with lower-case names.
    pub headers: BTreeMap<Cow<'static, str>, String>,
}

impl RequestHead {
    /// Returns the head of a call that did not come as an HTTP request to the tool's URL.
    pub fn post(live: &LiveEndpoint, headers: BTreeMap<Cow<'static, str>, String>) -> Self {
        let (url, path) = (live.terms.resource_url.clone(), format!("/tools/{}", live.endpoint.slug));
        Self { method: "POST", url, path, query: BTreeMap::new(), headers }
    }

    /// Returns the headers of a request that a handler sees, with the `more` ones that its tool lists. If a name is
    /// repeated, the first value counts. Trace headers follow W3C Trace Context, sections 3.2 and 3.3: states are joined
    /// in order, and repeated parents are dropped.
    pub fn visible_headers(headers: &HeaderMap, more: &[String]) -> BTreeMap<Cow<'static, str>, String> {
        let shown = |name: &'static HeaderName| {
            let mut all = headers.get_all(name).iter().map(|value| value.to_str().ok());
            let value = match name.as_str() {
                "tracestate" => Some(all.collect::<Option<Vec<_>>>()?.join(",")).filter(|joined| !joined.is_empty()),
                "traceparent" => all.next().flatten().filter(|_| all.next().is_none()).map(str::to_owned),
                _ => all.next().flatten().map(str::to_owned),
            };
            Some((Cow::Borrowed(name.as_str()), value?))
        };
        let listed = |name: &String| Some((Cow::Owned(name.clone()), headers.get(name.as_str())?.to_str().ok()?.to_owned()));
        let more = more.iter().filter(|name| SHOWN.iter().all(|shown| shown.as_str() != **name));
        more.filter_map(listed).chain(SHOWN.iter().filter_map(shown)).collect()
    }

    /// Returns the query as in the URL.
    pub(super) fn raw_query(&self) -> Option<&str> {
        self.url.split_once('?').map(|(_, query)| query)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalledBy {
    /// A payer.
    Anyone,
    /// The owner, who calls it free of charge: nothing is sold, and an offered payment is ignored.
    Owner,
}

/// The progress of a streamed call.
#[derive(Debug, Clone)]
pub enum Progress {
    /// The payment is reserved, or an earlier request has used it for this call. It may be settled before the handler
    /// starts.
    Admitted(PaymentId),
    /// The payment is admitted, the input is valid, and the handler starts.
    Accepted {
        call: CallId,
        /// The payment. `None` for free calls.
        payment: Option<PaymentId>,
        /// The receipt that a success will have.
        receipt: ReceiptId,
    },
    /// A progress message from the handler.
    Update(ProgressUpdate),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_trace_states_are_joined_and_repeated_parents_dropped() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("traceparent", "a"), ("tracestate", "a=1"), ("tracestate", "b=2"), ("accept", "x"), ("accept", "y")] {
            headers.append(name, value.parse().unwrap());
        }
        let of = |headers: &HeaderMap, name| RequestHead::visible_headers(headers, &[]).remove(name);
        assert_eq!(of(&headers, "tracestate").as_deref(), Some("a=1,b=2"));
        assert_eq!((of(&headers, "traceparent").as_deref(), of(&headers, "accept").as_deref()), (Some("a"), Some("x")));
        let listed = RequestHead::visible_headers(&headers, &["stripe-signature".to_owned(), "traceparent".to_owned()]);
        assert_eq!((listed.get("stripe-signature"), listed.len()), (None, 3), "a listed header that was not sent is absent");
        headers.append("stripe-signature", "t=1".parse().unwrap());
        let listed = RequestHead::visible_headers(&headers, &["stripe-signature".to_owned()]);
        assert_eq!(listed["stripe-signature"], "t=1");
        headers.append("traceparent", "b".parse().unwrap());
        assert_eq!((of(&headers, "traceparent"), of(&headers, "user-agent")), (None, None));
    }
}
