//! The HTTP client of a facilitator: its URL and the host's credentials.

use std::time::Duration;

use reqwest::{Method, Url};
use serde_json::Value;
use tollhouse_base::clock::Clock;

use super::credentials::{Credentials, FacilitatorAccess};
use crate::{
    ConfigError,
    facilitator::json_client::{HttpAnswer, JsonClient},
};

/// A facilitator's URL, and the credentials of every request.
pub(in crate::facilitator::kind) struct FacilitatorClient {
    poster: JsonClient,
    pub(super) base: Url,
    credentials: Credentials,
}

impl FacilitatorClient {
    pub(in crate::facilitator::kind) fn new(url: &str, access: &FacilitatorAccess, clock: Clock) -> Result<Self, ConfigError> {
        let base: Url = url.parse().ok().filter(|url: &Url| url.has_host()).ok_or_else(|| ConfigError::FacilitatorUrl(url.to_owned()))?;
        Ok(Self { poster: JsonClient::new()?, base, credentials: Credentials::new(access, clock)? })
    }

    pub(super) async fn post(&self, path: &str, body: &Value, timeout: Duration) -> HttpAnswer {
        let url = self.at(path);
        self.poster.post(url.as_str(), self.credentials.of(&Method::POST, &url), body, timeout).await
    }

    pub(in crate::facilitator::kind) async fn get(&self, path: &str, timeout: Duration) -> HttpAnswer {
        let url = self.at(path);
        self.poster.get(url.as_str(), self.credentials.of(&Method::GET, &url), timeout).await
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }
}
