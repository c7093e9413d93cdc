//! Counts the chunks of an HTTP/1 body.
//!
//! A chunk costs about a third of a microsecond, whatever its size. Rate limits count requests, so a body of chunks of
//! one byte would cost much more than it appears to.

/// Chunks of a body that cost nothing, whatever their size.
const FREE_CHUNKS: u64 = 1_000;

/// Bytes of a body for which one more chunk costs nothing.
const BYTES_PER_CHUNK: u64 = 16;

/// The chunks of a body so far.
#[derive(Debug, Default)]
pub(super) struct ChunkCount {
    chunks: u64,
    bytes: u64,
}

impl ChunkCount {
    /// Counts a chunk. Returns whether it counts as overhead, because the body has very many chunks for its size.
    pub(super) fn is_overhead(&mut self, bytes: usize) -> bool {
        self.chunks = self.chunks.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.chunks > FREE_CHUNKS + self.bytes / BYTES_PER_CHUNK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of these chunks are overhead.
    fn overhead(chunks: usize, bytes: usize) -> usize {
        let mut count = ChunkCount::default();
        (0..chunks).filter(|_| count.is_overhead(bytes)).count()
    }

    #[test]
    fn only_many_tiny_chunks_are_overhead() {
        assert_eq!((overhead(1_000, 0), overhead(1_000, 1), overhead(100_000, 16)), (0, 0, 0));
        assert_eq!(overhead(16_000, 0), 15_000);
        assert_eq!(overhead(16_000, 1), 14_934);
    }
}
