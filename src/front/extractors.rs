//! Extractors for path and query parameters. Errors use the envelope.

use axum::{
    extract::{FromRequestParts, Path},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;
use tollhouse_base::deserialize_error;

use super::{api_error::ApiError, error_codes::Code};

/// Deserialized query parameters. Invalid ones return 400.
pub struct QueryParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        deserialize_error::query(parts.uri.query().unwrap_or_default()).map(Self).map_err(|misfit| ApiError::bad_request(misfit.message))
    }
}

/// Deserialized path parameters. A path that is not UTF-8 returns 400.
pub struct PathParams<T = String>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let named = Path::from_request_parts(parts, state).await;
        named.map(|Path(named)| Self(named)).map_err(|error| match error.status() {
            StatusCode::BAD_REQUEST => ApiError::bad_request("the path has percent-encoded bytes that are not UTF-8"),
            // The route has no such parameters, which is a bug.
            _ => {
                tracing::error!(%error, "the path parameters of a route do not match its handler");
                Code::Internal.into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn route_without_its_parameter_is_an_internal_error() {
        let (mut parts, ()) = axum::http::Request::new(()).into_parts();
        let at = PathParams::<String>::from_request_parts(&mut parts, &()).await;
        assert_eq!(at.err().map(|fault| fault.code()), Some(Code::Internal), "the request has no path parameter");
    }
}
