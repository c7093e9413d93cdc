//! The one request that a call is, with what pays for it.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    response::Response,
};
use tollhouse_front::{Code, Fault, names};

use super::tool::{Tool, send_unpaid};
use crate::{
    doors::seal,
    play::Payment,
    visitor::{Refused, Visitor},
};

/// What pays for a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pays {
    Nothing,
    /// A signed payment, which is taken once.
    Signed(Payment),
    Credit(OnCredit),
}

/// A call on credit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OnCredit {
    /// What proves whose it is; `None` where that is who signed in.
    pub(super) token: Option<String>,
    /// What names the call: sent again, it is the same one.
    pub(super) key: String,
    /// The price that it is made at.
    pub(super) quote: String,
}

/// A call of a tool with an input.
pub(super) struct Call<'a> {
    pub(super) tool: &'a Tool,
    pub(super) input: &'a str,
    pub(super) pays: &'a Pays,
}

impl Call<'_> {
    /// The answer, or the stream of what happens on the way to it.
    pub(super) async fn send(&self, visitor: &Visitor, streams: bool) -> Result<Response, Refused> {
        let mut headers = HeaderMap::new();
        if streams {
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        let (path, body) = (self.tool.address(), Body::from(self.input.to_owned()));
        match self.pays {
            Pays::Nothing => Ok(send_unpaid(visitor, Method::POST, &path, headers, body).await),
            Pays::Signed(payment) => {
                put(&mut headers, &names::PAYMENT_SIGNATURE, &payment.header)?;
                Ok(visitor.unsigned().send(Method::POST, &path, headers, body).await)
            }
            Pays::Credit(OnCredit { token, key, quote }) => {
                put(&mut headers, &names::IDEMPOTENCY_KEY, key)?;
                put(&mut headers, &names::QUOTE_ID, quote)?;
                let Some(token) = token else { return Ok(visitor.send(Method::POST, &path, headers, body).await) };
                visitor.may_show_credential()?;
                put(&mut headers, &names::DEVELOPER_CREDIT, token)?;
                Ok(visitor.unsigned().send(Method::POST, &path, headers, body).await)
            }
        }
    }
}

fn put(headers: &mut HeaderMap, name: &HeaderName, value: &str) -> Result<(), Fault> {
    let mut value = HeaderValue::from_str(value).map_err(|_| Fault::from(Code::InvalidRequest))?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// Whether what happens is told as it happens.
pub(super) fn is_stream(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

/// A stream as the page's script reads it.
pub(super) fn passed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    seal(headers);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
