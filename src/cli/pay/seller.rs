//! Sends requests to a seller: with limits of time and size, without following redirects, and without sending anything
//! that the request does not need.

use std::{pin::Pin, time::Duration};

use reqwest::{
    Client, Method, Url,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::{Instant, timeout_at};

use super::{
    reply::{Lost, Progress, Reply, cause},
    stream,
};
use crate::base::{
    client::connecting,
    error::{Error, Result},
};

/// Most bytes of a response.
const MOST_BYTES: usize = 64 << 20;

/// The request that each try sends.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<String>,
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
    ///
    /// # Errors
    ///
    /// This machine cannot make connections at all.
    pub(crate) fn new(request: Request) -> Result<Self> {
        Ok(Self { client: connecting(&request.url, None)?, request })
    }

    /// Sends the request once, with these headers added.
    ///
    /// # Errors
    ///
    /// No complete response arrived within `most`. The error says whether the request was sent.
    pub(crate) async fn ask(&self, more: &HeaderMap, most: Duration, tell: &mut dyn FnMut(Progress)) -> std::result::Result<Reply, Lost> {
        let Request { method, url, body, stream } = &self.request;
        let mut asked = self.client.request(method.clone(), url.clone()).headers(more.clone());
        if *stream {
            asked = asked.header(header::ACCEPT, "text/event-stream");
        }
        if let Some(body) = body {
            asked = asked.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        }
        self.within(asked, Instant::now() + most, tell).await
    }

    /// Gets a JSON document from a host.
    pub(crate) async fn get(&self, url: Url, most: Duration) -> std::result::Result<Reply, Lost> {
        let asked = self.client.get(url).header(header::ACCEPT, "application/json");
        self.within(asked, Instant::now() + most, &mut |_| {}).await
    }

    async fn within(
        &self,
        asked: reqwest::RequestBuilder,
        until: Instant,
        tell: &mut dyn FnMut(Progress),
    ) -> std::result::Result<Reply, Lost> {
        let sent = timeout_at(until, asked.send()).await.map_err(|_| Lost::Late)?;
        let response =
            sent.map_err(
                |error| if error.is_connect() || error.is_builder() { Lost::Unsent(cause(&error)) } else { Lost::Sent(cause(&error)) },
            )?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let of_events =
            headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.starts_with("text/event-stream"));
        let reading: Pin<Box<dyn Future<Output = _> + '_>> = match of_events && self.request.stream && (200..300).contains(&status) {
            true => Box::pin(stream::read(response, status, headers, tell)),
            false => Box::pin(read(response, status, headers)),
        };
        timeout_at(until, reading).await.map_err(|_| Lost::Late)?
    }
}

async fn read(mut response: reqwest::Response, status: u16, headers: HeaderMap) -> std::result::Result<Reply, Lost> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Lost::Sent(cause(&error)))? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(Lost::TooLarge(Box::new(Reply { status, headers, ..Reply::default() })));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply { status, headers, body, ..Reply::default() })
}

/// Returns the headers of a record.
///
/// # Errors
///
/// They are no valid headers.
pub(crate) fn headers(pairs: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::try_from(name.as_str()).map_err(|_| Error::refused("the payment has a header that is none"))?;
        let mut value =
            HeaderValue::try_from(value.as_str()).map_err(|_| Error::refused("the payment has characters that no header has"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}
