//! Reads bodies of calls that are not JSON. A long one waits in a file until its handler reads it, so it is never whole in
//! memory, and is hashed as it comes, because its payment is bound to its bytes.
//!
//! A file has no name: the system frees it with its last descriptor, even if this process is killed. The call holds it
//! while its payment is verified and its handler runs.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write as _},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::{Body, HttpBody as _},
    http::HeaderMap,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};
use tollhouse_base::{boxed, lock::Lock};
use tollhouse_call::RawBody;
use tollhouse_capability::{CallBody, on_body_thread};
use tollhouse_config::QuotaSettings;
use tollhouse_fair::Share;
use tollhouse_money::receipt::PiecewiseHash;

use super::{
    api_error::ApiError,
    body::{BodyError, discard, expects_continue},
    error_codes::Code,
    memory_budget::{LITTLE_OF_BODIES, MemoryBudget},
    quota::{Quota, QuotaShare},
};

/// Longest body that stays in memory.
const BLOCK_BYTES: usize = 256 << 10;

/// Bytes of a longer body that are in memory at once. An address that uses little has a reserve for so many.
const FILE_BLOCK_BYTES: usize = LITTLE_OF_BODIES;

/// Minimum buffer for a body, in bytes.
const LEAST_BLOCK_BYTES: usize = 16 << 10;

/// Unit in which the disk is shared, in bytes. A file takes at least one, so that files are few.
const UNIT_BYTES: usize = 1 << 20;

/// Maximum bytes of files of an address that draws on the reserve: more than the default of `bodyBytes`.
const LITTLE_OF_FILES: usize = 16 << 20;

/// Number of bytes of a body that extend its time limit by one second.
const MIN_BYTES_PER_SECOND: u64 = 256 << 10;

/// The folder of the files, and its shares.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    /// Bytes of files, by address.
    files: Arc<Quota>,
    owners: Arc<OwnerBytes>,
}

/// The body to read.
#[derive(Debug)]
pub struct SpoolRequest<'a> {
    /// The caller.
    pub peer: IpAddr,
    /// Headers of the request.
    pub headers: &'a HeaderMap,
    /// Its `Content-Type`.
    pub content_type: String,
    /// The owner of the tool, whose share the body uses.
    pub owner: &'a str,
    /// Maximum bytes to keep. A longer body has only an identity.
    pub kept: u64,
    /// Maximum bytes to read. A longer body is refused.
    pub limit: u64,
}

impl Spool {
    /// Opens the folder, and deletes the files that a killed process left there. Folders stay: one that is a mount point
    /// has `lost+found`.
    ///
    /// # Errors
    ///
    /// The folder cannot be created, read or written.
    pub fn open(folder: &Path, settings: QuotaSettings) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        for left in fs::read_dir(folder)? {
            let left = left?;
            if !left.file_type()?.is_dir() {
                fs::remove_file(left.path())?;
            }
        }
        // Fails now instead of at the first long body.
        drop(tempfile::tempfile_in(folder)?);
        let QuotaSettings { max, max_per_address } = settings;
        // Without a limit per address, all clients can have the same one. A small disk has no room for a reserve.
        let little = max.and_then(|max| max_per_address.map(|_| LITTLE_OF_FILES.min(max / 32))).filter(|little| *little >= UNIT_BYTES);
        let files = match little {
            Some(little) => Quota::with_reserve(max, max_per_address, little),
            None => Quota::new(max, max_per_address),
        };
        let reserve = little.and(max).map_or(0, |max| max / 8);
        Ok(Self { folder: folder.to_owned(), files, owners: Arc::new(OwnerBytes { max, reserve, owners: Lock::default() }) })
    }

    /// Returns the bytes of all files, in whole units.
    pub fn used(&self) -> usize {
        self.files.used()
    }

    /// Returns the maximum of all files, or `None` if there is none.
    pub fn max(&self) -> Option<usize> {
        self.files.max()
    }

    /// Reads the whole body of a request.
    ///
    /// After a rejection, some more of the body is read and discarded, as for JSON.
    ///
    /// # Errors
    ///
    /// The body is too large, too slow or incomplete, or there is no room for it now.
    #[boxed]
    pub async fn read<'a>(&'a self, intake: &'a MemoryBudget, request: SpoolRequest<'a>, body: Body) -> Result<RawBody, ApiError> {
        let SpoolRequest { headers, limit, .. } = request;
        let settings = &intake.bodies;
        let mut stream = body.into_data_stream();
        let too_large = || BodyError::TooLarge { limit: usize::try_from(limit).unwrap_or(usize::MAX) };
        if stream.size_hint().lower() > limit {
            if !expects_continue(headers) {
                discard(stream).await;
            }
            return Err(too_large().into());
        }
        let begun = Instant::now();
        let mut received = Received::default();
        loop {
            let stall = settings.stall.map(|stall| Instant::now() + stall);
            let whole = settings.time.map(|time| begun + time + Duration::from_secs(received.bytes / MIN_BYTES_PER_SECOND));
            let next = match whole.into_iter().chain(stall).min() {
                Some(by) => timeout_at(by, stream.next()).await.map_err(|_| BodyError::TooSlow)?,
                None => stream.next().await,
            };
            let Some(chunk) = next.transpose().map_err(|_| BodyError::EndedEarly)? else { break };
            received.bytes += chunk.len() as u64;
            let is_only = received.share.is_none() && stream.is_end_stream() && chunk.len() <= BLOCK_BYTES;
            let taken = if received.bytes > limit {
                Err(too_large().into())
            } else if is_only {
                // It fits into the buffer that each connection has anyway.
                received.block = chunk.to_vec();
                Ok(())
            } else {
                self.take(intake, &request, &mut received, &chunk).await
            };
            if let Err(refused) = taken {
                drop(received);
                discard(stream).await;
                return Err(refused);
            }
        }
        if received.hashed > 0 && !received.block.is_empty() {
            self.write_block(&request, &mut received).await?;
        }
        let is_kept = received.bytes <= request.kept;
        let SpoolRequest { content_type, .. } = request;
        received.finish(content_type, is_kept).await
    }

    /// Adds a chunk, and moves what is in memory to the file if it is a block.
    async fn take(
        &self,
        intake: &MemoryBudget,
        request: &SpoolRequest<'_>,
        received: &mut Received,
        chunk: &Bytes,
    ) -> Result<(), ApiError> {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            if received.block.len() == received.room && !received.enlarge(|bytes| intake.hold(request.peer, bytes))? {
                self.write_block(request, received).await?;
            }
            let (now, later) = rest.split_at(rest.len().min(received.room - received.block.len()));
            received.block.extend_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    async fn write_block(&self, request: &SpoolRequest<'_>, received: &mut Received) -> Result<(), ApiError> {
        let written = received.hashed + received.block.len() as u64;
        if received.bytes > request.kept {
            // Nobody reads it.
            received.file = None;
        } else if written > received.file.as_ref().map_or(0, |file| file.room) {
            self.grow(request, received)?;
        }
        received.write().await
    }

    /// Takes one more unit of the disk.
    fn grow(&self, request: &SpoolRequest<'_>, received: &mut Received) -> Result<(), ApiError> {
        let mut of_address = self.files.share(request.peer);
        of_address
            .take(UNIT_BYTES)
            .map_err(|full| ApiError::new(Code::Busy, full.reached("bytes of long request bodies")).retry_after(1))?;
        let of_owner = self.owners.take(request.owner, UNIT_BYTES, of_address.is_of_little());
        let of_owner = of_owner.ok_or_else(|| {
            ApiError::new(Code::Busy, "the tools of this builder have reached their share of bytes of long request bodies").retry_after(1)
        })?;
        match &mut received.file {
            Some(file) => {
                file.share.of_address.join(of_address);
                file.share.of_owner.join(of_owner);
                file.room += UNIT_BYTES as u64;
            }
            none => {
                let file = tempfile::tempfile_in(&self.folder).map_err(|error| unstored(&error))?;
                *none = Some(SpoolFile { file, share: FileShare { of_address, of_owner }, room: UNIT_BYTES as u64 });
            }
        }
        Ok(())
    }
}

/// The part of a body that has come so far.
#[derive(Default)]
struct Received {
    bytes: u64,
    /// Bytes that are hashed, and in the file if there is one.
    hashed: u64,
    hash: PiecewiseHash,
    /// The last bytes.
    block: Vec<u8>,
    /// Maximum bytes of the block, which the share covers. 0 if all of the body came at once.
    room: usize,
    /// The share of the memory for bodies. It grows with what has come, so that a client that sends little takes little
    /// from others.
    share: Option<QuotaShare>,
    /// `None` before the first block is full, and for a body that is not kept.
    file: Option<SpoolFile>,
}

struct SpoolFile {
    file: File,
    share: FileShare,
    /// Bytes that the share covers.
    room: u64,
}

/// The share of a file. Dropping it frees the room.
struct FileShare {
    of_address: QuotaShare,
    of_owner: OwnerShare,
}

impl Received {
    /// Makes room for more bytes in the block, with a share from `hold`. Returns false if the block must be written
    /// first: it has its maximum, or there is no memory for a larger one.
    fn enlarge(&mut self, hold: impl FnOnce(usize) -> Result<QuotaShare, ApiError>) -> Result<bool, ApiError> {
        let max = if self.hashed == 0 { BLOCK_BYTES } else { FILE_BLOCK_BYTES };
        let room = (self.room * 2).clamp(LEAST_BLOCK_BYTES, max);
        if self.room >= room {
            return Ok(false);
        }
        let more = match hold(room - self.room) {
            Ok(more) => more,
            Err(_) if self.room > 0 => return Ok(false),
            Err(refused) => return Err(refused),
        };
        match &mut self.share {
            Some(share) => share.join(more),
            none => *none = Some(more),
        }
        self.block.reserve_exact(room - self.block.len());
        self.room = room;
        Ok(true)
    }

    /// Hashes the block, and writes it to the file if there is one. If this future is dropped, the file keeps its share
    /// until it is closed.
    async fn write(&mut self) -> Result<(), ApiError> {
        let (mut hash, block, mut file) = (std::mem::take(&mut self.hash), std::mem::take(&mut self.block), self.file.take());
        let work = move || {
            hash.update(&block);
            let written = file.as_mut().map_or(Ok(()), |file| file.file.write_all(&block));
            (hash, block, file, written)
        };
        let (hash, mut block, file, written) = on_body_thread(work).await.map_err(|error| unstored(&error))?;
        written.map_err(|error| unstored(&error))?;
        self.hashed += block.len() as u64;
        block.clear();
        if self.room > FILE_BLOCK_BYTES {
            block.shrink_to(FILE_BLOCK_BYTES);
            drop(self.share.as_mut().map(|share| share.split(self.room - FILE_BLOCK_BYTES)));
            self.room = FILE_BLOCK_BYTES;
        }
        (self.hash, self.block, self.file) = (hash, block, file);
        Ok(())
    }

    async fn finish(mut self, content_type: String, is_kept: bool) -> Result<RawBody, ApiError> {
        let bytes = self.bytes;
        if self.file.is_none() && self.hashed == 0 {
            self.block.shrink_to_fit();
            let share = self.share.map(|mut share| share.split(self.block.len()));
            let content = Bytes::from_owner(HeldBlock { block: self.block, _share: share });
            let (hash, content) = hash_of(content).await?;
            return Ok(RawBody { content_type, bytes, hash, content: is_kept.then(|| Arc::new(CallBody::in_memory(content))) });
        }
        let content = self.file.filter(|_| is_kept).map(|SpoolFile { file, share, .. }| Arc::new(CallBody::in_file(file, bytes, share)));
        Ok(RawBody { content_type, bytes, hash: self.hash.finish(), content })
    }
}

/// Hashes a body in memory, off the runtime if it is long.
async fn hash_of(content: Bytes) -> Result<(String, Bytes), ApiError> {
    let hash = move || {
        let mut hash = PiecewiseHash::default();
        hash.update(&content);
        (hash.finish(), content)
    };
    on_body_thread(hash).await.map_err(|error| unstored(&error))
}

/// A body in memory, with its share.
struct HeldBlock {
    block: Vec<u8>,
    _share: Option<QuotaShare>,
}

impl AsRef<[u8]> for HeldBlock {
    fn as_ref(&self) -> &[u8] {
        &self.block
    }
}

fn unstored(error: &io::Error) -> ApiError {
    tracing::error!(%error, "a request body could not be written to the data folder");
    ApiError::new(Code::Busy, "the host cannot store the body now").retry_after(5)
}

/// Bytes of files by owner. An owner gets no more room once it uses seven times the bytes that are free. The reserve is
/// not free for callers that use more than a little, so that they leave some of their owner's share to its other callers.
#[derive(Debug)]
struct OwnerBytes {
    max: Option<usize>,
    /// Bytes for addresses that use little.
    reserve: usize,
    owners: Lock<OwnerUse>,
}

#[derive(Debug, Default)]
struct OwnerUse {
    all: usize,
    /// Owners with nothing have no entry.
    owners: HashMap<String, usize>,
}

/// The bytes of one file. Dropping it frees them.
struct OwnerShare {
    bytes: Arc<OwnerBytes>,
    owner: String,
    amount: usize,
}

impl OwnerBytes {
    fn take(self: &Arc<Self>, owner: &str, more: usize, is_of_little: bool) -> Option<OwnerShare> {
        let mut used = self.owners.lock();
        let has = used.owners.get(owner).copied().unwrap_or_default();
        let reserve = if is_of_little { 0 } else { self.reserve };
        if let Some(max) = self.max.map(|max| max - reserve) {
            let units = |bytes: usize| bytes / UNIT_BYTES;
            if !Share::OfFree.allows(units(max), units(has), units(max.saturating_sub(used.all))) {
                return None;
            }
        }
        used.all += more;
        *used.owners.entry(owner.to_owned()).or_default() += more;
        Some(OwnerShare { bytes: Arc::clone(self), owner: owner.to_owned(), amount: more })
    }
}

impl OwnerShare {
    /// Merges another share of the same owner into this one.
    fn join(&mut self, mut other: Self) {
        self.amount += std::mem::take(&mut other.amount);
    }
}

impl Drop for OwnerShare {
    fn drop(&mut self) {
        let mut used = self.bytes.owners.lock();
        used.all -= self.amount;
        if let Some(has) = used.owners.get_mut(&self.owner) {
            *has -= self.amount;
            if *has == 0 {
                used.owners.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests;
