//! A response whose head has arrived. Its body is read whole or in pieces, from the socket only when somebody asks for
//! more: at other times, the server waits.

use std::{error::Error, io};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http_body::Body as _;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{
    Response, StatusCode,
    body::Incoming,
    ext::ReasonPhrase,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap},
};
use tollhouse_base::offload::run_blocking;
use tollhouse_fair::FairPermit;
use tollhouse_protocol::limits::FETCH_CHUNK_BYTES;
use url::Url;

use super::{coding::Coding, error::FetchError, meter::ReadGuard, piece_decoder::PieceDecoder, resolve::DialError};

/// A response from a server, or a recorded one.
pub(super) type AnyResponse = Response<Either<Incoming, Full<Bytes>>>;

/// A response, whatever its status.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The URL that answered, after redirects.
    pub url: Url,
    /// Whether a redirect led there.
    pub is_redirected: bool,
    pub status: StatusCode,
    /// The reason phrase, unless it is the usual one of the status.
    pub reason: Option<Bytes>,
    pub headers: HeaderMap,
    /// The body, up to the limit or to the point where it was enough.
    pub body: Bytes,
}

impl Fetched {
    /// Creates an empty response of `url` with status 200.
    pub fn empty(url: Url) -> Self {
        Self { url, is_redirected: false, status: StatusCode::OK, reason: None, headers: HeaderMap::new(), body: Bytes::new() }
    }

    fn forget_coding(&mut self) {
        self.headers.remove(CONTENT_ENCODING);
        self.headers.remove(CONTENT_LENGTH);
    }
}

/// A response whose head has arrived. Dropping it closes its connection, unless the body has arrived too.
pub(crate) struct OpenResponse {
    /// The head, with an empty body.
    pub(crate) head: Fetched,
    pub(crate) body: OpenBody,
}

/// The body of a response.
pub(crate) struct OpenBody {
    incoming: Either<Incoming, Full<Bytes>>,
    coding: Coding,
    decoder: Option<PieceDecoder>,
    /// Maximum size before and after decoding, in bytes.
    limit: usize,
    /// Number of bytes that have arrived.
    arrived: usize,
    /// Number of bytes that were passed on.
    passed_on: usize,
    /// Bytes that have arrived and were not decoded or passed on, at most a piece and the client's read buffer.
    held: BytesMut,
    /// The error after `held`.
    failed: Option<FetchError>,
    has_ended: bool,
    reading: Option<ReadGuard>,
    /// Its place among the open requests.
    open: Option<FairPermit<Box<str>>>,
}

impl OpenResponse {
    /// # Errors
    ///
    /// The body has an unknown coding, or declares more than `limit` bytes.
    pub(super) fn new(
        url: Url,
        is_redirected: bool,
        response: AnyResponse,
        reading: Option<ReadGuard>,
        limit: usize,
    ) -> Result<Self, FetchError> {
        let (head, incoming) = response.into_parts();
        let reason = head.extensions.get::<ReasonPhrase>().map(|reason| Bytes::copy_from_slice(reason.as_bytes()));
        let coding = Coding::of(&head.headers)?;
        if incoming.size_hint().exact().is_some_and(|length| length > limit as u64) {
            return Err(FetchError::TooLarge(limit));
        }
        let body = OpenBody {
            incoming,
            coding,
            decoder: PieceDecoder::of(coding),
            limit,
            arrived: 0,
            passed_on: 0,
            held: BytesMut::new(),
            failed: None,
            has_ended: false,
            reading,
            open: None,
        };
        let head = Fetched { is_redirected, status: head.status, reason, headers: head.headers, ..Fetched::empty(url) };
        Ok(Self { head, body })
    }

    /// Keeps the place of the request until the response is dropped.
    pub(super) fn keeping(mut self, open: FairPermit<Box<str>>) -> Self {
        self.body.open = Some(open);
        self
    }

    /// Reads the body whole.
    ///
    /// # Errors
    ///
    /// The connection was lost, or the body is too large or cannot be decoded.
    pub(crate) async fn whole(self, enough: Option<fn(&[u8]) -> bool>) -> Result<Fetched, FetchError> {
        let Self { mut head, body: OpenBody { mut incoming, coding, limit, reading: _reading, open: _open, .. } } = self;
        // Only an unencoded body can be examined in part.
        let enough = enough.filter(|_| coding == Coding::Identity);
        let mut body = BytesMut::new();
        while let Some(frame) = incoming.frame().await {
            // Trailers are ignored.
            let Ok(chunk) = frame.map_err(|error| broken(&*error, BROKE))?.into_data() else { continue };
            if body.len() + chunk.len() > limit {
                return Err(FetchError::TooLarge(limit));
            }
            body.extend_from_slice(&chunk);
            if enough.is_some_and(|enough| enough(&body)) {
                break;
            }
        }
        head.body = body.freeze();
        // The headers of an answer to HEAD describe the body of a GET.
        if coding != Coding::Identity && !head.body.is_empty() {
            let coded = head.body.clone();
            head.body = run_blocking(coding.decoded_bytes(coded.len(), limit), || coding.decode(&coded, limit)).await?;
            head.forget_coding();
        }
        Ok(head)
    }

    /// Returns whether the body can be read in pieces.
    pub(crate) fn has_pieces(&self) -> bool {
        self.body.coding == Coding::Identity || self.body.decoder.is_some()
    }

    /// Removes the headers about the coding, which is undone, from the head.
    pub(crate) fn prepare_pieces(&mut self) {
        if self.body.decoder.is_some() && !self.body.incoming.is_end_stream() {
            self.head.forget_coding();
        }
    }
}

impl OpenBody {
    /// Returns whether the whole body is at most one piece, before decoding.
    pub(crate) fn is_short(&self) -> bool {
        self.incoming.size_hint().exact().is_some_and(|length| length <= FETCH_CHUNK_BYTES as u64)
    }

    /// Receives all of a short body. Dropping the future loses nothing.
    pub(crate) async fn arrive(&mut self) {
        while !self.has_ended && self.failed.is_none() {
            self.receive().await;
        }
    }

    /// Returns the next bytes, at most [`FETCH_CHUNK_BYTES`], or `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The connection was lost, or the body is too large or cannot be decoded. Drop the body then.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, FetchError> {
        loop {
            let piece = self.ready()?;
            if !piece.is_empty() {
                self.passed_on += piece.len();
                return if self.passed_on > self.limit { Err(FetchError::TooLarge(self.limit)) } else { Ok(Some(piece)) };
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.has_ended {
                return Ok(None);
            }
            self.receive().await;
        }
    }

    /// Reports `error` instead of the next piece.
    pub(crate) fn fail_next(&mut self, error: FetchError) {
        self.held.clear();
        self.failed = Some(error);
    }

    /// Returns bytes that have arrived, decoded. Empty if there are none.
    fn ready(&mut self) -> Result<Bytes, FetchError> {
        match &mut self.decoder {
            None => Ok(self.held.split_to(self.held.len().min(FETCH_CHUNK_BYTES)).freeze()),
            Some(decoder) => {
                let coded = self.held.split();
                decoder.decode(&coded, self.has_ended)
            }
        }
    }

    /// Waits for bytes, then takes those that have arrived, about a piece.
    async fn receive(&mut self) {
        let mut frame = self.incoming.frame().await;
        loop {
            match frame {
                None => self.has_ended = true,
                Some(Err(error)) => self.failed = Some(broken(&*error, BROKE)),
                // Trailers are ignored.
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        self.arrived += chunk.len();
                        if self.arrived > self.limit {
                            self.failed = Some(FetchError::TooLarge(self.limit));
                        } else {
                            self.held.extend_from_slice(&chunk);
                        }
                    }
                }
            }
            if self.has_ended || self.failed.is_some() || self.held.len() >= FETCH_CHUNK_BYTES {
                return;
            }
            match self.incoming.frame().now_or_never() {
                Some(next) => frame = next,
                None => return,
            }
        }
    }
}

/// The message if nothing else is known.
pub(super) const BROKE: &str = "the connection was lost";

/// Returns the guard's own refusal if it is in the error chain, otherwise the innermost error.
pub(super) fn broken(error: &(dyn Error + 'static), what: &str) -> FetchError {
    let mut link = error;
    loop {
        if let Some(refusal @ (DialError::NotPublic { .. } | DialError::Own(_))) = link.downcast_ref() {
            return FetchError::Forbidden(refusal.to_string());
        }
        if let Some(flooded @ FetchError::Flooded(_)) = link.downcast_ref() {
            return flooded.clone();
        }
        // An I/O error contains its cause but returns the cause's source as its own.
        let held = link.downcast_ref::<io::Error>().and_then(io::Error::get_ref).map(|held| held as &(dyn Error + 'static));
        match held.or_else(|| link.source()) {
            Some(source) => link = source,
            None => return FetchError::Unreachable(format!("{what}: {link}")),
        }
    }
}
