//! The HTTP client of a facilitator: its URL and the host's credentials.

use std::time::Duration;

use reqwest::{Method, Url};
use serde_json::Value;
use tollhouse_base::clock::Clock;

use super::credentials::{Credentials, FacilitatorAccess};
use crate::{
    ConfigError,
    facilitator::post::{Answer, Poster},
};

/// A facilitator's URL, and the credentials of every request.
pub(in crate::facilitator::kind) struct Line {
    poster: Poster,
    pub(super) base: Url,
    credentials: Credentials,
}

impl Line {
    pub(in crate::facilitator::kind) fn new(url: &str, access: &FacilitatorAccess, clock: Clock) -> Result<Self, ConfigError> {
        let base: Url = url.parse().ok().filter(|url: &Url| url.has_host()).ok_or_else(|| ConfigError::FacilitatorUrl(url.to_owned()))?;
        Ok(Self { poster: Poster::new()?, base, credentials: Credentials::new(access, clock)? })
    }

    pub(super) async fn post(&self, path: &str, body: &Value, patience: Duration) -> Answer {
        let url = self.at(path);
        self.poster.post(url.as_str(), self.credentials.of(&Method::POST, &url), body, patience).await
    }

    pub(in crate::facilitator::kind) async fn get(&self, path: &str, patience: Duration) -> Answer {
        let url = self.at(path);
        self.poster.get(url.as_str(), self.credentials.of(&Method::GET, &url), patience).await
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }
}
