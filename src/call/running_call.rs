//! A handle to a call in flight.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::task::JoinHandle;

use super::error::CallError;

/// A handle to a call on its own task. Awaiting it waits for the end of the call, and dropping it does not stop the
/// call.
#[derive(Debug)]
pub struct RunningCall<T>(pub(super) JoinHandle<Result<T, Arc<CallError>>>);

impl<T> Future for RunningCall<T> {
    type Output = Result<T, Arc<CallError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| {
            ended.unwrap_or_else(|error| {
                tracing::error!(%error, "a call's task ended abnormally");
                Err(Arc::new(CallError::Internal))
            })
        })
    }
}
