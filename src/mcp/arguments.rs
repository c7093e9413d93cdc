//! The arguments of a call as raw text, so that numbers keep digits that a double cannot hold.

use axum::body::Bytes;
use rmcp::model::JsonObject;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tollhouse_base::{
    deserialize_error::{self, DeserializeError},
    offload::run_blocking,
};
use tollhouse_call::Input;
use tollhouse_front::{ApiError, Code, body};

/// The text of a JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments(Bytes);

impl Arguments {
    /// Returns the arguments in `text`, a part of `message`, or `{}` without it. Returns `None` if they are not an
    /// object.
    pub(super) fn within(message: &Bytes, text: Option<&RawValue>) -> Option<Self> {
        let Some(text) = text else { return Some(Self(Bytes::from_static(b"{}"))) };
        text.get().starts_with('{').then(|| Self(message.slice_ref(text.get().as_bytes())))
    }

    /// Returns the arguments of a message that rmcp has parsed as `read`.
    pub(super) async fn of(message: Option<&Bytes>, read: Option<JsonObject>) -> Self {
        let Some(read) = read else { return Self(Bytes::from_static(b"{}")) };
        let bytes = message.map_or(0, Bytes::len);
        // If a message has duplicate arguments, use the parsed ones.
        let text = || message.and_then(sent).unwrap_or_else(|| Self(serde_json::to_vec(&read).expect("it was JSON").into()));
        run_blocking(bytes, text).await
    }

    /// Returns the input of a call.
    pub(super) fn input(self) -> Input {
        Input::Body(self.0)
    }

    /// Deserializes them.
    pub(super) async fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let value = body::json(&self.0).await?;
        deserialize_error::json(&value).map_err(|DeserializeError { message, .. }| ApiError::new(Code::InvalidInput, message))
    }
}

/// Returns the arguments of a message as they were sent.
fn sent(message: &Bytes) -> Option<Arguments> {
    #[derive(Deserialize)]
    struct Calling<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    let Calling { params } = serde_json::from_slice(message).ok()?;
    Arguments::within(message, Some(params.arguments))
}
