//! Recorded responses, which replace real servers in the test cases of a tool.
//!
//! They can be set only from inside the process of a builder's own host: no route accepts them. All other rules of the
//! guard apply: forbidden addresses stay forbidden, redirects are followed, sizes are limited.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Method, Response, StatusCode};
use tollhouse_base::lock::Lock;
use url::{Position, Url};

/// A response for one request.
#[derive(Debug, Clone)]
pub struct RecordedAnswer {
    /// The method that it answers.
    pub method: Method,
    /// The exact URL that it answers. A fragment does not count, because it is not sent.
    pub url: Url,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Recorded responses, each used once. Several for one method and URL are used in order. A URL without a response is
/// unreachable.
#[derive(Debug, Default)]
pub struct RecordedAnswers(Lock<Vec<RecordedAnswer>>);

impl RecordedAnswers {
    pub fn new(answers: Vec<RecordedAnswer>) -> Self {
        Self(Lock::new(answers))
    }

    /// Returns the method and the URL of each response that was not used.
    pub fn remaining(&self) -> Vec<(Method, Url)> {
        self.0.lock().iter().map(|answer| (answer.method.clone(), answer.url.clone())).collect()
    }

    pub(super) fn take(&self, method: &Method, url: &Url) -> Option<Response<Full<Bytes>>> {
        let mut answers = self.0.lock();
        let RecordedAnswer { status, headers, body, .. } =
            answers.iter().position(|answer| answer.method == *method && sent(&answer.url) == sent(url)).map(|at| answers.remove(at))?;
        let mut response = Response::new(Full::new(body));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Some(response)
    }
}

/// Returns the part of a URL that a server gets.
fn sent(url: &Url) -> &str {
    &url[..Position::AfterQuery]
}
