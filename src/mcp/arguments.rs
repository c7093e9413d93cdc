//! The arguments of a call as raw text, so that numbers keep digits that a double cannot hold.

use axum::body::Bytes;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use tollhouse_base::deserialize_error::{self, DeserializeError};
use tollhouse_call::Input;
use tollhouse_front::{ApiError, Code, body};

/// The text of a JSON object. Default: `{}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments(pub(super) Bytes);

impl Default for Arguments {
    fn default() -> Self {
        Self(Bytes::from_static(b"{}"))
    }
}

impl From<JsonObject> for Arguments {
    fn from(parsed: JsonObject) -> Self {
        Self(serde_json::to_vec(&parsed).expect("it was JSON").into())
    }
}

impl Arguments {
    pub(super) fn input(self) -> Input {
        Input::Body(self.0)
    }

    pub(super) async fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let value = body::json(&self.0).await?;
        deserialize_error::json(&value).map_err(|DeserializeError { message, .. }| ApiError::new(Code::InvalidInput, message))
    }
}
