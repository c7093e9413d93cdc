//! The arguments of a call, as the text that they were sent as: a number keeps digits that a double has no room for.

use axum::body::Bytes;
use rmcp::model::JsonObject;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tollhouse_base::{
    aside::aside,
    misfit::{self, Misfit},
};
use tollhouse_call::Input;
use tollhouse_front::{Code, Fault, body};

/// The text of a JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arguments(Bytes);

impl Arguments {
    /// What stands at `text`, which is part of `message`; `{}` where nothing does. `None` when that is no object.
    pub(super) fn within(message: &Bytes, text: Option<&RawValue>) -> Option<Self> {
        let Some(text) = text else { return Some(Self(Bytes::from_static(b"{}"))) };
        text.get().starts_with('{').then(|| Self(message.slice_ref(text.get().as_bytes())))
    }

    /// Of a message that rmcp has read `read` from.
    pub(super) async fn of(message: Option<&Bytes>, read: Option<JsonObject>) -> Self {
        let Some(read) = read else { return Self(Bytes::from_static(b"{}")) };
        let bytes = message.map_or(0, Bytes::len);
        // One that names them twice has only what was read.
        let text = || message.and_then(sent).unwrap_or_else(|| Self(serde_json::to_vec(&read).expect("it was JSON").into()));
        aside(bytes, text).await
    }

    /// The input of a call.
    pub(super) fn input(self) -> Input {
        Input::Body(self.0)
    }

    /// Reads them into a type.
    pub(super) async fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        let value = body::json(&self.0).await?;
        misfit::json(&value).map_err(|Misfit { message, .. }| Fault::new(Code::InvalidInput, message))
    }
}

/// The arguments that a message was sent with.
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
