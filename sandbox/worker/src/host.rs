//! The socket to the host: frames in, frames out, buffers reused.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, dup2, read, write},
};
use tollhouse_protocol::{
    ToHost, ToWorker,
    frame::{self, PREFIX_BYTES},
};

/// Initial size of both buffers, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Why communication with the host is impossible. Each of these ends the worker.
#[derive(Debug)]
pub(crate) enum HostGone {
    /// The host closed the socket.
    Closed,
    Io,
    Frame,
    /// Nothing arrived in time.
    TimedOut,
}

/// The connection of a worker to its host.
#[derive(Debug)]
pub(crate) struct Host {
    socket: OwnedFd,
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Held while frames are written, so that writes do not interleave.
    writing: Arc<Mutex<()>>,
}

/// Lets another thread send a last message to the host.
#[derive(Debug)]
pub(crate) struct Lifeline {
    socket: RawFd,
    writing: Arc<Mutex<()>>,
}

/// Whether a thread has claimed the right to send the last message. Nothing follows it.
static FINAL_MESSAGE_CLAIMED: AtomicBool = AtomicBool::new(false);

/// Claims the right to send the last message to the host. A second caller waits for the first to
/// end the process. Async-signal-safe.
pub(crate) fn claim_final_message() {
    while FINAL_MESSAGE_CLAIMED.swap(true, Ordering::SeqCst) {
        let _ = poll(&mut [], None);
    }
}

impl Lifeline {
    /// Writes `message`, unless frames are being written right now, and ends the process with
    /// `status`.
    #[expect(unsafe_code, reason = "the thread that owns the socket does not respond")]
    pub(crate) fn final_message(&self, message: &ToHost, status: u8) -> ! {
        claim_final_message();
        let mut frame = Vec::new();
        // Held until the process is gone, so that nothing follows the last message.
        let writing = self.writing.try_lock();
        if writing.is_ok() && frame::encode(message, &mut frame).is_ok() {
            // SAFETY: the bytes are valid for their length, and the socket stays open as long as
            // the process.
            unsafe { libc::write(self.socket, frame.as_ptr().cast(), frame.len()) };
        }
        exit_now(status)
    }
}

/// Ends the process without cleanup.
#[expect(unsafe_code, reason = "no safe binding exits without running destructors")]
pub(crate) fn exit_now(status: u8) -> ! {
    // SAFETY: ends the process. Nothing of it is used afterwards.
    unsafe { libc::_exit(status.into()) }
}

/// Frames that wait to be written together.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Vec<u8>);

impl Outbox {
    /// Appends a message.
    ///
    /// # Errors
    ///
    /// [`HostGone::Frame`] if the message is larger than a frame can be. Nothing is added then.
    pub(crate) fn put(&mut self, message: &ToHost) -> Result<(), HostGone> {
        frame::encode(message, &mut self.0).map_err(|_| HostGone::Frame)
    }
}

impl Host {
    /// Takes over the socket that the host left open at `descriptor`.
    #[expect(unsafe_code, reason = "no safe binding takes over an inherited descriptor")]
    pub(crate) fn inherit(descriptor: i32) -> Self {
        // SAFETY: the host opened this descriptor only for the worker, and nothing else here owns
        // it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Self { socket, input: vec![0; BUFFER_BYTES], start: 0, end: 0, writing: Arc::default() }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Switches to another socket under the same descriptor number. Must be called before the first
    /// message.
    pub(crate) fn switch_socket(&mut self, socket: &OwnedFd) -> Result<(), HostGone> {
        dup2(socket, &mut self.socket).map_err(|_| HostGone::Io)
    }

    /// Returns a second way to reach the host, for use if this thread is stuck.
    pub(crate) fn lifeline(&self) -> Lifeline {
        Lifeline { socket: self.socket.as_raw_fd(), writing: Arc::clone(&self.writing) }
    }

    /// Writes all waiting frames, in one system call if the socket takes them.
    pub(crate) fn send(&mut self, outbox: &mut Outbox) -> Result<(), HostGone> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sent = 0;
        while sent < outbox.0.len() {
            match write(&self.socket, &outbox.0[sent..]) {
                Ok(0) => return Err(HostGone::Closed),
                Ok(bytes) => sent += bytes,
                Err(Errno::INTR) => {}
                Err(_) => return Err(HostGone::Io),
            }
        }
        outbox.0.clear();
        outbox.0.shrink_to(4 * BUFFER_BYTES);
        Ok(())
    }

    /// Waits for the next message. With `wait`, returns [`HostGone::TimedOut`] after that time.
    pub(crate) fn next(&mut self, wait: Option<Duration>) -> Result<ToWorker, HostGone> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            self.readable(wait)?;
            self.fill()?;
        }
    }

    /// Waits until there is something to read, at most for `wait`. A blocking read would also wake up
    /// in vain whenever the host reads.
    pub(crate) fn readable(&self, wait: Option<Duration>) -> Result<(), HostGone> {
        let timeout = wait.map(Timespec::try_from).transpose().map_err(|_| HostGone::Io)?;
        let mut polled = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        loop {
            match poll(&mut polled, timeout.as_ref()) {
                // A caller with a time-out looks at the clock and calls again.
                Ok(0) | Err(Errno::INTR) if timeout.is_some() => return Err(HostGone::TimedOut),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(HostGone::Io),
            }
        }
    }

    fn take(&mut self) -> Result<Option<ToWorker>, HostGone> {
        let held = &self.input[self.start..self.end];
        let Some(prefix) = held.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = frame::length(*prefix).map_err(|_| HostGone::Frame)?;
        let Some(payload) = held.get(PREFIX_BYTES..PREFIX_BYTES + length) else {
            return Ok(None);
        };
        let message = frame::decode(payload).map_err(|_| HostGone::Frame)?;
        self.start += PREFIX_BYTES + length;
        Ok(Some(message))
    }

    fn fill(&mut self) -> Result<(), HostGone> {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let requested =
            self.input[..self.end].first_chunk::<PREFIX_BYTES>().map_or(0, |prefix| u32::from_le_bytes(*prefix) as usize + PREFIX_BYTES);
        if self.end == 0 && self.input.len() > 4 * BUFFER_BYTES {
            self.input.truncate(BUFFER_BYTES);
            self.input.shrink_to_fit();
        } else if requested.max(self.end + 1) > self.input.len() {
            self.input.resize(requested.max(2 * self.input.len()), 0);
        }
        loop {
            match read(&self.socket, &mut self.input[self.end..]) {
                Ok(0) => return Err(HostGone::Closed),
                Ok(bytes) => {
                    self.end += bytes;
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(HostGone::Io),
            }
        }
    }
}

impl From<HostGone> for io::Error {
    fn from(gone: HostGone) -> Self {
        Self::other(format!("{gone:?}"))
    }
}
