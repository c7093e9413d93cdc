//! Errors of the guard's settings and of requests.

use tokio_rustls::rustls::{self, pki_types::pem};

use super::MAX_REDIRECTS;
use crate::secret::SubstituteError;

#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("`{0}` in guardAllow must have the form `host:port`")]
    Allow(String),
    #[error("a root certificate is invalid")]
    Root(#[from] pem::Error),
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// Why a request failed. The messages are for the author of the URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("the URL {0}")]
    InvalidUrl(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("the host `{0}` is not in `allowedHosts` of `tool.json`")]
    HostNotAllowed(String),
    #[error("a secret can only be sent over https")]
    InsecureCredential,
    #[error(transparent)]
    Secret(#[from] SubstituteError),
    #[error("the server redirected more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("the server redirected, and the request allows no redirect")]
    Redirected,
    #[error("the redirect was rejected: {0}")]
    BadRedirect(String),
    #[error("the server did not complete its answer within {0} ms")]
    Timeout(u128),
    #[error("{0}")]
    Unreachable(String),
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the server sent more than {0} bytes without completing its answer")]
    Flooded(usize),
    #[error("the answer is encoded as `{0}`; only gzip, deflate, br and zstd are supported")]
    Encoded(String),
    #[error("the answer declares {0}, but cannot be decoded")]
    Undecodable(&'static str),
}

impl FetchError {
    /// Returns the stable code of an op that failed with this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidUrl(_) => "invalid_argument",
            Self::Forbidden(_) | Self::BadRedirect(_) | Self::InsecureCredential => "forbidden_address",
            Self::HostNotAllowed(_) => "not_granted",
            Self::Secret(error) => error.code(),
            Self::TooManyRedirects => "too_many_redirects",
            Self::Redirected => "redirected",
            Self::Timeout(_) => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::TooLarge(_) => "body_too_large",
            Self::Flooded(_) | Self::Encoded(_) | Self::Undecodable(_) => "bad_response",
        }
    }
}
