//! Requests to the host that `doctor --public` checks.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Method, Url,
    header::{CONTENT_TYPE, HeaderValue, ORIGIN},
};
use tollhouse_call::ReadinessClient;
use tollhouse_capability::{
    Guard, GuardSettings,
    guard::{Fetch, FetchError, Fetched, GuardError},
};

/// Longest time for each request.
const WALL: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a document that are read.
const BODY_BYTES: usize = 4 << 20;

/// Sends requests to the host that is checked, at any address: the guard's address rules do not apply.
pub(super) struct Asker {
    guard: Guard,
    pub(super) client: ReadinessClient,
    pub(super) base: String,
}

impl Asker {
    pub(super) fn new(base: &Url) -> Result<Self, GuardError> {
        let host = format!("{}:{}", base.host_str().unwrap_or_default(), base.port_or_known_default().unwrap_or_default());
        let guard = Guard::new(GuardSettings { allow: vec![host], ..GuardSettings::default() })?;
        let base = base.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client: ReadinessClient::new(guard.clone(), &base)?, guard, base })
    }

    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Fetched, FetchError> {
        self.guard.fetch(Fetch::get(&self.at(path), WALL, BODY_BYTES)).await
    }

    /// Sends an unpaid call, as a script of another site would.
    pub(super) async fn challenge(&self, path: &str) -> Result<Fetched, FetchError> {
        self.post(path, "{}").await
    }

    pub(super) async fn post(&self, path: &str, body: &str) -> Result<Fetched, FetchError> {
        let url = self.at(path);
        let body = Some(Bytes::copy_from_slice(body.as_bytes()));
        let mut request = Fetch { method: Method::POST, body, ..Fetch::get(&url, WALL, BODY_BYTES) };
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers.insert(ORIGIN, HeaderValue::from_static("https://a-page-elsewhere.example"));
        self.guard.fetch(request).await
    }
}
