//! The request of a call, with its payment.

use axum::http::HeaderName;
use tollhouse_account::session::SessionKind;
use tollhouse_front::{ApiError, Code, header_names};

use super::tool::{TriedTool, send_unpaid};
use crate::{
    Body, Fields, HeaderMap, HeaderValue, Method, PageResult, Response, Visitor, header, play_wallet::Payment, set_security_headers,
};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PaymentSource {
    Nothing,
    /// A signed payment, which is taken only once.
    Signed(Payment),
    Credit(CreditCall),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CreditCall {
    /// The credit's token. `None` uses the credit of the session.
    pub(super) token: Option<String>,
    /// Idempotency key of the call.
    pub(super) key: String,
    /// Id of the quote with the price.
    pub(super) quote: String,
}

impl PaymentSource {
    /// Reads the payment of a form: a signed payment of the amount that the form names, or a credit at the price of the
    /// quote that it names.
    ///
    /// # Errors
    ///
    /// A field is missing or invalid.
    pub(super) fn read(fields: &Fields, visitor: &Visitor) -> Result<Self, ApiError> {
        let field = |name: &str| {
            let value = fields.get(name).map(str::trim).filter(|value| !value.is_empty());
            value.ok_or_else(|| ApiError::bad_request(format!("the form has no `{name}`")))
        };
        let on_credit = |token: Option<String>| -> Result<Self, ApiError> {
            // The price beside the button must be present. The quote guarantees it.
            field("usd")?;
            Ok(Self::Credit(CreditCall { token, key: field("key")?.to_owned(), quote: field("quote")?.to_owned() }))
        };
        match field("way")? {
            "signed" => {
                let payment = Payment::read(field("payment")?).ok_or_else(|| ApiError::bad_request("`payment` is not a signed payment"))?;
                if !payment.pays(field("amount")?, field("asset")?, field("network")?) {
                    return Err(ApiError::bad_request("the payment does not match the form; nothing was sent"));
                }
                Ok(Self::Signed(payment))
            }
            "credit" => on_credit(Some(field("credit")?.to_owned())),
            "own" if visitor.kind() == Some(SessionKind::Holder) => on_credit(None),
            _ => Err(ApiError::bad_request("this payment method does not exist")),
        }
    }
}

pub(super) struct ToolCall<'a> {
    pub(super) tool: &'a TriedTool,
    pub(super) input: &'a str,
    pub(super) pays: &'a PaymentSource,
}

impl ToolCall<'_> {
    /// Sends the call. Returns its answer, or the stream of its events.
    pub(super) async fn send(&self, visitor: &Visitor, streams: bool) -> PageResult {
        let mut headers = HeaderMap::new();
        if streams {
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        let (path, body) = (self.tool.address(), Body::from(self.input.to_owned()));
        match self.pays {
            PaymentSource::Nothing => Ok(send_unpaid(visitor, Method::POST, &path, headers, body).await),
            PaymentSource::Signed(payment) => {
                put(&mut headers, &header_names::PAYMENT_SIGNATURE, &payment.header)?;
                Ok(visitor.without_session().send(Method::POST, &path, headers, body).await)
            }
            PaymentSource::Credit(CreditCall { token, key, quote }) => {
                put(&mut headers, &header_names::IDEMPOTENCY_KEY, key)?;
                put(&mut headers, &header_names::QUOTE_ID, quote)?;
                let Some(token) = token else { return Ok(visitor.send(Method::POST, &path, headers, body).await) };
                visitor.may_show_credential()?;
                put(&mut headers, &header_names::DEVELOPER_CREDIT, token)?;
                Ok(visitor.without_session().send(Method::POST, &path, headers, body).await)
            }
        }
    }
}

fn put(headers: &mut HeaderMap, name: &HeaderName, value: &str) -> Result<(), ApiError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| ApiError::from(Code::InvalidRequest))?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

pub(super) fn is_stream(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

/// Returns a stream for the page's script.
pub(super) fn passed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    set_security_headers(headers);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
