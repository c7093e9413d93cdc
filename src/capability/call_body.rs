//! The body of a call that is not JSON. Its handler reads it in pieces, so the host never has a long one in memory.

use std::{fmt, fs::File, io, os::unix::fs::FileExt as _, sync::Arc};

use bytes::Bytes;
use tokio::{sync::Semaphore, task::spawn_blocking};
use tollhouse_protocol::{OpFailure, OpValue, limits::BODY_CHUNK_BYTES};

use super::failure;

/// Maximum threads that read, write and hash bodies, so that a slow disk does not take those that the store needs.
const BODY_THREADS: usize = 16;

static THREADS: Semaphore = Semaphore::const_new(BODY_THREADS);

/// Runs work on bytes of a body on one of [`BODY_THREADS`] threads, in the order of the calls. If this future is dropped,
/// work that has begun keeps its thread until it ends.
///
/// # Errors
///
/// The work panicked.
pub async fn on_body_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let permit = THREADS.acquire().await.map_err(io::Error::other)?;
    let work = move || {
        let _permit = permit;
        work()
    };
    spawn_blocking(work).await.map_err(io::Error::other)
}

/// The bytes of a body. Dropping it frees them.
pub struct CallBody {
    bytes: u64,
    storage: Storage,
    /// The share of the disk that it takes.
    _share: Option<Box<dyn Send + Sync>>,
}

enum Storage {
    Memory(Bytes),
    /// A file without a name.
    File(Arc<File>),
}

impl CallBody {
    /// Returns a body that is in memory.
    pub fn in_memory(content: Bytes) -> Self {
        Self { bytes: content.len() as u64, storage: Storage::Memory(content), _share: None }
    }

    /// Returns a body of `bytes` bytes in a file without a name. `share` is dropped with it.
    pub fn in_file(file: File, bytes: u64, share: impl Send + Sync + 'static) -> Self {
        Self { bytes, storage: Storage::File(Arc::new(file)), _share: Some(Box::new(share)) }
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads up to [`BODY_CHUNK_BYTES`] from `offset` on. Returns `None` at the end and beyond it.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    async fn read(&self, offset: u64) -> io::Result<Option<Bytes>> {
        let left = self.bytes.saturating_sub(offset);
        if left == 0 {
            return Ok(None);
        }
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(BODY_CHUNK_BYTES);
        match &self.storage {
            Storage::Memory(content) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(Some(content.slice(start..start + bytes)))
            }
            Storage::File(file) => {
                let file = Arc::clone(file);
                let read = move || {
                    let mut piece = vec![0; bytes];
                    file.read_exact_at(&mut piece, offset).map(|()| Some(Bytes::from(piece)))
                };
                on_body_thread(read).await?
            }
        }
    }

    /// Answers a read of a handler.
    pub(super) async fn answer(&self, offset: u64) -> Result<OpValue, OpFailure> {
        match self.read(offset).await {
            Ok(piece) => Ok(piece.map_or(OpValue::None, OpValue::Bytes)),
            Err(error) => {
                tracing::error!(%error, "the body of a call could not be read from its file");
                Err(failure::body_unavailable())
            }
        }
    }
}

impl fmt::Debug for CallBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallBody").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn a_body_is_read_from_memory_and_from_a_file_alike() {
        let content: Vec<u8> = (0..BODY_CHUNK_BYTES + 5).map(|at| (at % 253) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        let all = content.len() as u64;
        for body in [CallBody::in_memory(content.clone().into()), CallBody::in_file(file, all, ())] {
            assert_eq!(body.bytes(), all);
            let piece = async |offset: u64| body.read(offset).await.unwrap();
            assert_eq!(piece(0).await.as_deref(), Some(&content[..BODY_CHUNK_BYTES]));
            assert_eq!(piece(BODY_CHUNK_BYTES as u64).await.as_deref(), Some(&content[BODY_CHUNK_BYTES..]));
            assert_eq!(piece(3).await.as_deref(), Some(&content[3..BODY_CHUNK_BYTES + 3]));
            assert_eq!(piece(all - 1).await.as_deref(), Some(&content[content.len() - 1..]));
            assert_eq!((piece(all).await, piece(all + 1).await, piece(u64::MAX).await), (None, None, None));
        }
    }

    #[tokio::test]
    async fn bodies_on_a_slow_disk_leave_threads_to_the_rest() {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let disk = Arc::new(tokio::sync::RwLock::new(()));
        let slow = disk.write().await;
        let work = || {
            let (begun, disk) = (begun.clone(), Arc::clone(&disk));
            tokio::spawn(on_body_thread(move || {
                begun.send(()).unwrap();
                drop(disk.blocking_read());
            }))
        };
        let works: Vec<_> = (0..BODY_THREADS + 8).map(|_| work()).collect();
        for _ in 0..BODY_THREADS {
            begins.recv().await.unwrap();
        }
        assert_eq!(THREADS.available_permits(), 0);
        assert!(begins.try_recv().is_err(), "the others wait");
        drop(slow);
        for work in works {
            work.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_file_that_lost_its_bytes_is_a_failure_of_the_host() {
        let body = CallBody::in_file(tempfile::tempfile().unwrap(), 10, ());
        assert!(failure::is_the_hosts(&body.answer(0).await.unwrap_err()));
    }
}
