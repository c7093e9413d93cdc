//! Frames on one worker's socket: gathered for writing, buffered for reading.

use std::io::{Error, ErrorKind, Result as IoResult};

use tokio::{io::Interest, net::UnixStream};
use tollhouse_protocol::{
    ToHost, ToWorker,
    frame::{self, FrameError, PREFIX_BYTES},
};

/// Minimum free space that a read gets, in bytes.
const READ_BYTES: usize = 16 << 10;

/// Capacity above which an empty buffer is freed, in bytes.
const RETAINED_BYTES: usize = 64 << 10;

/// Buffers for both directions of one socket. They are kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    out: Vec<u8>,
    sent: usize,
    /// Whether the socket did not take all of `out`.
    blocked: bool,
    input: Vec<u8>,
    taken: usize,
    /// Number of bytes that the next frame is known to need.
    requested: usize,
}

impl Buffers {
    /// Adds a frame to the output of the next [`flush`](Self::flush).
    pub(crate) fn put(&mut self, message: &ToWorker) -> Result<(), FrameError> {
        frame::encode(message, &mut self.out)
    }

    /// Adds frames that are already encoded, and empties their vector.
    pub(crate) fn put_encoded(&mut self, frames: &mut Vec<u8>) {
        self.out.append(frames);
    }

    /// Writes as much as the socket takes now. A worker that has gone takes nothing, which is not an error here: its last messages must
    /// still be read, and then its end.
    pub(crate) fn flush(&mut self, stream: &UnixStream) -> IoResult<()> {
        self.blocked = false;
        while self.sent < self.out.len() {
            match stream.try_write(&self.out[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    self.drop_sent();
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => break,
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        shrink_if_large(&mut self.out);
        Ok(())
    }

    /// Returns the number of bytes that the socket has not taken yet.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Frees the sent bytes once they are as many as the unsent ones, so that each byte moves at most once.
    fn drop_sent(&mut self) {
        if self.sent > RETAINED_BYTES && self.sent >= self.unsent() {
            self.out.drain(..self.sent);
            self.out.shrink_to(RETAINED_BYTES);
            self.sent = 0;
        }
    }

    /// Reads what is available now. The end of the stream is an error.
    pub(crate) fn fill(&mut self, stream: &UnixStream) -> IoResult<()> {
        self.input.drain(..std::mem::take(&mut self.taken));
        // At most doubles the buffer: a frame length that a worker only claims reserves no memory.
        let (here, missing) = (self.input.len(), self.requested.saturating_sub(self.input.len()));
        self.input.reserve_exact(missing.min(here).max(READ_BYTES));
        match stream.try_read_buf(&mut self.input) {
            Ok(0) => Err(Error::from(ErrorKind::UnexpectedEof)),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes the next message, if it has arrived completely.
    pub(crate) fn next(&mut self) -> Result<Option<ToHost>, FrameError> {
        if self.is_drained() {
            self.input.clear();
            self.taken = 0;
            shrink_if_large(&mut self.input);
        }
        let unread = &self.input[self.taken..];
        let Some((prefix, rest)) = unread.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = frame::length(*prefix)?;
        let Some(payload) = rest.get(..length) else {
            self.requested = PREFIX_BYTES + length;
            return Ok(None);
        };
        let message = frame::decode(payload)?;
        self.taken += PREFIX_BYTES + length;
        self.requested = 0;
        Ok(Some(message))
    }

    /// Waits until there is something to read, or room to write if a [`flush`](Self::flush) was incomplete.
    pub(crate) async fn changed(&self, stream: &UnixStream) -> IoResult<()> {
        let interest = if self.blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        stream.ready(interest).await.map(drop)
    }

    /// Returns whether both directions are empty.
    pub(crate) fn are_empty(&self) -> bool {
        self.is_sent() && self.is_drained()
    }

    /// Returns whether all input has been taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.taken == self.input.len()
    }

    /// Returns whether all output has been sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.out.is_empty()
    }

    /// Frees memory that an unusual call left behind. The buffers must be empty.
    pub(crate) fn trim(&mut self) {
        self.input.clear();
        self.taken = 0;
        shrink_if_large(&mut self.out);
        shrink_if_large(&mut self.input);
    }
}

fn shrink_if_large(empty: &mut Vec<u8>) {
    if empty.capacity() > RETAINED_BYTES {
        *empty = Vec::new();
    }
}

/// Returns whether an idle worker is silent: it has sent no bytes and not closed its stream.
pub(crate) fn is_silent(stream: &UnixStream) -> bool {
    matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests;
