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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream as Socket;

    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    fn holding(bytes: usize) -> Buffers {
        Buffers { out: Vec::with_capacity(bytes), input: Vec::with_capacity(bytes), ..Buffers::default() }
    }

    #[test]
    fn buffers_of_usual_calls_are_kept_and_larger_ones_let_go() {
        for (bytes, kept) in [(1_024, 1_024), (KEPT_BYTES, KEPT_BYTES), (KEPT_BYTES + 1, 0)] {
            let mut buffers = holding(bytes);
            buffers.trim();
            assert_eq!((buffers.out.capacity(), buffers.input.capacity()), (kept, kept));
        }
        let mut read = Buffers { input: vec![1, 2], taken: 2, ..Buffers::default() };
        read.trim();
        assert!(read.input.is_empty() && read.are_empty());
    }

    #[tokio::test]
    async fn read_takes_what_is_there() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.writable().await.unwrap();
        assert_eq!(theirs.try_write(&[0; READ_BYTES]).unwrap(), READ_BYTES);
        let mut buffers = Buffers::default();
        buffers.changed(&ours).await.unwrap();
        buffers.fill(&ours).unwrap();
        assert_eq!(buffers.input.len(), 16_384);
    }

    #[tokio::test]
    async fn frame_on_its_way_gets_the_room_that_it_needs_and_no_more() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (length, mut buffers) = (1 << 20, Buffers::default());
        theirs.writable().await.unwrap();
        theirs.try_write(&u32::to_le_bytes(length)).unwrap();
        buffers.changed(&ours).await.unwrap();
        buffers.fill(&ours).unwrap();
        assert!(buffers.next().unwrap().is_none());
        theirs.try_write(&[0]).unwrap();
        buffers.changed(&ours).await.unwrap();
        buffers.fill(&ours).unwrap();
        assert_eq!(buffers.input.capacity(), PREFIX_BYTES + length as usize);
    }

    #[tokio::test]
    async fn end_of_a_worker_is_found_by_reading_and_a_socket_that_fails_at_once() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        ours.writable().await.unwrap();
        let mut buffers = Buffers { out: vec![1], ..Buffers::default() };
        assert!(buffers.flush(&ours).is_ok() && buffers.nothing_to_send());
        ours.readable().await.unwrap();
        assert_eq!(buffers.fill(&ours).unwrap_err().kind(), ErrorKind::UnexpectedEof);

        let unconnected = Socket::from(socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap());
        unconnected.set_nonblocking(true).unwrap();
        let failing = UnixStream::from_std(unconnected).unwrap();
        failing.writable().await.unwrap();
        failing.readable().await.unwrap();
        let mut buffers = Buffers { out: vec![1], ..Buffers::default() };
        assert!(buffers.flush(&failing).is_err() && buffers.fill(&failing).is_err());
    }
}
