//! Sends requests to a seller: with limits of time and size, without following redirects, and without sending anything
//! that the request does not need.

use std::time::Duration;

use reqwest::{
    Client, Method, Url,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::{Instant, timeout_at};
use tollhouse_call::is_json_type;

use super::{Arrival, LostReply, Reply, Report, body_file::BodyFile, stream};
use crate::base::{Error, Result, below, cause, connecting};

/// Maximum number of bytes of a response.
const MAX_BYTES: usize = 64 << 20;

/// The request that each try sends.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<String>,
    /// The body, if it is not JSON.
    pub(crate) file: Option<BodyFile>,
    pub(crate) stream: bool,
}

/// The client for one seller.
#[derive(Debug)]
pub(crate) struct Seller {
    client: Client,
    pub(crate) request: Request,
}

impl Seller {
    /// Creates a client for the request.
    pub(crate) fn new(request: Request) -> Result<Self> {
        Ok(Self { client: connecting(&request.url, None)?, request })
    }

    /// Sends the request once, with these headers added. A body whose length is not announced, and which is not JSON, is
    /// reported as it comes.
    ///
    /// # Errors
    ///
    /// No complete response arrived within `most`. The error says whether the request was sent.
    pub(crate) async fn ask(&self, more: &HeaderMap, max: Duration, report: &mut Report<'_>) -> std::result::Result<Reply, LostReply> {
        let Request { method, url, body, file, stream } = &self.request;
        let mut request = self.client.request(method.clone(), url.clone()).headers(more.clone());
        if *stream {
            request = request.header(header::ACCEPT, "text/event-stream");
        }
        if let Some(file) = file {
            let content = file.read().map_err(|error| LostReply::Unsent(error.message))?;
            request = request.header(header::CONTENT_TYPE, &file.content_type).body(content);
        } else if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        }
        self.within(request, Instant::now() + max, report).await
    }

    /// Requests the head of the target alone, which has the challenge of a tool of a Tollhouse host.
    ///
    /// # Errors
    ///
    /// The same as [`Self::ask`].
    pub(crate) async fn head(&self, max: Duration) -> std::result::Result<Reply, LostReply> {
        self.within(self.client.head(self.request.url.clone()), Instant::now() + max, &mut |_| {}).await
    }

    /// Gets the JSON document at this path of a host.
    pub(crate) async fn get(&self, host: &Url, path: &[&str], max: Duration) -> std::result::Result<Reply, LostReply> {
        let request = self.client.get(below(host, path)).header(header::ACCEPT, "application/json");
        self.within(request, Instant::now() + max, &mut |_| {}).await
    }

    async fn within(
        &self,
        request: reqwest::RequestBuilder,
        until: Instant,
        report: &mut Report<'_>,
    ) -> std::result::Result<Reply, LostReply> {
        let sent = timeout_at(until, request.send()).await.map_err(|_| LostReply::Late)?;
        let response = sent.map_err(|error| {
            if error.is_connect() || error.is_builder() { LostReply::Unsent(cause(&error)) } else { LostReply::Sent(cause(&error)) }
        })?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let of_events =
            headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.starts_with("text/event-stream"));
        if of_events && self.request.stream && (200..300).contains(&status) {
            let reading = stream::read(response, status, headers, report);
            return timeout_at(until, reading).await.map_err(|_| LostReply::Late)?;
        }
        read(response, Reply { status, headers, ..Reply::default() }, until, report).await
    }
}

/// Reads a body up to its end, until a time.
async fn read(
    mut response: reqwest::Response,
    mut head: Reply,
    until: Instant,
    report: &mut Report<'_>,
) -> std::result::Result<Reply, LostReply> {
    let is_json = head.header(header::CONTENT_TYPE.as_str()).is_none_or(is_json_type);
    let is_streamed = head.is_success() && !is_json && response.content_length().is_none();
    let mut body = Vec::new();
    loop {
        let chunk = match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => break,
            Ok(Err(_)) | Err(_) if head.is_reported => return Err(LostReply::BrokenOff(Box::new(head))),
            Ok(Err(error)) => return Err(LostReply::Sent(cause(&error))),
            Err(_) => return Err(LostReply::Late),
        };
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(LostReply::TooLarge(Box::new(head)));
        }
        if is_streamed {
            report(Arrival::Piece { head: &head, bytes: &chunk });
            head.is_reported = true;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply { body, ..head })
}

/// Returns the headers of a record.
pub(crate) fn headers(pairs: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::try_from(name.as_str()).map_err(|_| Error::refused("the payment has an invalid header name"))?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| Error::refused("the payment has an invalid header value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}
