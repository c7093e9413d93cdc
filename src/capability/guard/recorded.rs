//! Recorded answers: what requests get in place of the servers that they name, for the cases of a tool.
//!
//! They are set from inside a host's process alone, for a host of a builder's own: no route knows of them. All else of the guard
//! holds as ever: an address that is forbidden stays so, redirects are followed, sizes count.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Response, StatusCode};
use url::Url;

/// One answer, which one request gets.
#[derive(Debug, Clone)]
pub struct RecordedAnswer {
    /// Who asks for exactly this gets it.
    pub url: Url,
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Answers that are there to be asked for, each once; of several of one URL the first first. What has none is unreachable.
#[derive(Debug, Default)]
pub struct Recorded(Mutex<Vec<RecordedAnswer>>);

impl Recorded {
    /// These answers, and no others.
    #[must_use]
    pub fn new(answers: Vec<RecordedAnswer>) -> Self {
        Self(Mutex::new(answers))
    }

    /// What nobody has asked for.
    #[must_use]
    pub fn left(&self) -> Vec<Url> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|answer| answer.url.clone()).collect()
    }

    pub(super) fn take(&self, url: &Url) -> Option<Response<Full<Bytes>>> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let RecordedAnswer { status, headers, body, .. } =
            answers.iter().position(|answer| answer.url == *url).map(|at| answers.remove(at))?;
        let mut response = Response::new(Full::new(body));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Some(response)
    }
}
