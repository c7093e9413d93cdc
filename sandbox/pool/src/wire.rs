//! Frames over one worker's socket: gathered on the way out, buffered on the way in.

use std::io::{Error, ErrorKind, Result as IoResult};

use tokio::{io::Interest, net::UnixStream};
use tollhouse_protocol::{
    ToHost, ToWorker,
    frame::{self, FrameError, PREFIX_BYTES},
};

/// Free space that a read is offered at least, in bytes.
const READ_BYTES: usize = 16 << 10;

/// Capacity above which a buffer is let go between calls, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// Both directions' bytes of one socket. Kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    out: Vec<u8>,
    sent: usize,
    /// Whether the socket would not take all of `out`.
    blocked: bool,
    input: Vec<u8>,
    taken: usize,
    /// Bytes the next frame is known to need.
    wanted: usize,
}

impl Buffers {
    /// Adds a frame to what goes out with the next [`flush`](Self::flush).
    pub(crate) fn put(&mut self, message: &ToWorker) -> Result<(), FrameError> {
        frame::encode(message, &mut self.out)
    }

    /// Adds frames that are encoded already, and takes them away from where they were.
    pub(crate) fn put_encoded(&mut self, frames: &mut Vec<u8>) {
        self.out.append(frames);
    }

    /// Writes what the socket takes now. A worker that has gone takes nothing more, and that is no
    /// error here: what it said before is still to be read, and then its end.
    pub(crate) fn flush(&mut self, stream: &UnixStream) -> IoResult<()> {
        self.blocked = false;
        while self.sent < self.out.len() {
            match stream.try_write(&self.out[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => break,
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads what is there now. An end of the stream is an error.
    pub(crate) fn fill(&mut self, stream: &UnixStream) -> IoResult<()> {
        self.input.drain(..std::mem::take(&mut self.taken));
        self.input.reserve(READ_BYTES.max(self.wanted.saturating_sub(self.input.len())));
        match stream.try_read_buf(&mut self.input) {
            Ok(0) => Err(Error::from(ErrorKind::UnexpectedEof)),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes the next message, if it is here whole.
    pub(crate) fn next(&mut self) -> Result<Option<ToHost>, FrameError> {
        let unread = &self.input[self.taken..];
        let Some((prefix, rest)) = unread.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = frame::length(*prefix)?;
        let Some(payload) = rest.get(..length) else {
            self.wanted = PREFIX_BYTES + length;
            return Ok(None);
        };
        let message = frame::decode(payload)?;
        self.taken += PREFIX_BYTES + length;
        self.wanted = 0;
        Ok(Some(message))
    }

    /// Waits until there is something to read, or, behind a [`flush`](Self::flush) that did not
    /// get everything out, room to write.
    pub(crate) async fn changed(&self, stream: &UnixStream) -> IoResult<()> {
        let interest = if self.blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        stream.ready(interest).await.map(drop)
    }

    /// Whether nothing is left in either direction.
    pub(crate) fn are_empty(&self) -> bool {
        self.nothing_to_send() && self.nothing_to_take()
    }

    /// Whether nothing came in that was not taken.
    pub(crate) fn nothing_to_take(&self) -> bool {
        self.taken == self.input.len()
    }

    /// Whether everything went out.
    pub(crate) fn nothing_to_send(&self) -> bool {
        self.out.is_empty()
    }

    /// Lets go of what an unusual call left behind. The buffers have to be empty.
    pub(crate) fn trim(&mut self) {
        self.input.clear();
        self.taken = 0;
        for buffer in [&mut self.out, &mut self.input] {
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}

/// Whether a worker that has nothing to say says nothing: neither bytes nor the end of its stream.
pub(crate) fn is_silent(stream: &UnixStream) -> bool {
    matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}
