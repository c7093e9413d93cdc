//! The responses to `fetch` whose bodies a call can still read, by the numbers of their requests.

use std::{collections::HashMap, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tollhouse_base::lock::Lock;
use tollhouse_protocol::{OpFailure, limits::FETCH_CHUNK_BYTES};

use super::{
    Redactor,
    failure::invalid_argument,
    guard::{FetchError, OpenBody},
    redact::PieceRedactor,
};

/// The requests of one call that have begun and not ended. `httpRequests` limits their number.
#[derive(Default)]
pub(super) struct OpenRequests(Lock<HashMap<u32, Arc<OpenRequest>>>);

/// A request, then the body of its response.
#[derive(Default)]
pub(super) struct OpenRequest {
    pub(super) canceled: CancellationToken,
    /// `None` before the head has arrived, and after the end.
    pub(super) body: Mutex<Option<ResponseBody>>,
}

impl OpenRequests {
    /// Adds a request.
    ///
    /// # Errors
    ///
    /// Another one has the number, which an honest worker does not send.
    pub(super) fn begin(&self, id: u32) -> Result<Arc<OpenRequest>, OpFailure> {
        let mut all = self.0.lock();
        if all.contains_key(&id) {
            return Err(invalid_argument(format!("there is another request with the number {id}")));
        }
        let request = Arc::<OpenRequest>::default();
        all.insert(id, Arc::clone(&request));
        Ok(request)
    }

    pub(super) fn get(&self, id: u32) -> Option<Arc<OpenRequest>> {
        self.0.lock().get(&id).map(Arc::clone)
    }

    /// Removes a request that has ended.
    pub(super) fn end(&self, id: u32) {
        self.0.lock().remove(&id);
    }

    /// Ends a request or the body of its response, so that its places are free.
    pub(super) fn cancel(&self, id: u32) {
        let request = self.0.lock().remove(&id);
        if let Some(request) = request {
            request.canceled.cancel();
        }
    }

    /// Returns the number of requests that have not ended.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// The body of a response, with the values of secrets replaced.
pub(super) struct ResponseBody {
    body: OpenBody,
    redactor: PieceRedactor,
}

impl ResponseBody {
    pub(super) fn new(body: OpenBody) -> Self {
        Self { body, redactor: PieceRedactor::default() }
    }

    /// Returns the next bytes, or `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// As those of [`OpenBody::piece`].
    pub(super) async fn next(&mut self, hidden: &Redactor) -> Result<Option<Bytes>, FetchError> {
        loop {
            let Some(piece) = self.body.piece().await? else {
                let rest = self.redactor.rest(hidden);
                return Ok((!rest.is_empty()).then_some(rest));
            };
            let clean = self.redactor.next(hidden, piece);
            if !clean.is_empty() {
                return Ok(Some(clean));
            }
        }
    }

    /// Returns the bytes that have arrived already, about a piece, and whether the body goes on.
    pub(super) fn beginning(&mut self, hidden: &Redactor) -> (Bytes, bool) {
        let mut beginning = BytesMut::new();
        while beginning.len() < FETCH_CHUNK_BYTES {
            match self.next(hidden).now_or_never() {
                Some(Ok(Some(piece))) => beginning.extend_from_slice(&piece),
                Some(Ok(None)) => return (beginning.freeze(), false),
                Some(Err(error)) => {
                    self.body.fail_next(error);
                    break;
                }
                None => break,
            }
        }
        (beginning.freeze(), true)
    }
}
