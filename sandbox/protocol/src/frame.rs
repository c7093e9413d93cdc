//! Frames: a little-endian `u32` length, then that many bytes of postcard.

use serde::{Serialize, de::DeserializeOwned};

/// Bytes of the length prefix.
pub const PREFIX_BYTES: usize = 4;

/// Largest frame either side accepts, in bytes without the prefix. A bound on memory, far above
/// what the limits on bodies, results and files let through. 8 MiB.
pub const MAX_FRAME_BYTES: usize = 8 << 20;

/// A frame that could not be written or read. After one the stream is out of step: end the worker.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length prefix names more than [`MAX_FRAME_BYTES`].
    #[error("frame is {0} bytes, limit {MAX_FRAME_BYTES}")]
    TooLarge(usize),
    /// The bytes are not the message that was expected.
    #[error("frame does not decode")]
    Malformed(#[from] postcard::Error),
}

/// Appends `message` to `buffer` as one frame, so that several go out in one write.
///
/// # Errors
///
/// [`FrameError::TooLarge`] when the message would not be accepted; `buffer` is then as before.
pub fn encode<T: Serialize>(message: &T, buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; PREFIX_BYTES]);
    let taken = postcard::to_extend(message, std::mem::take(buffer));
    *buffer = taken?;
    let length = buffer.len() - start - PREFIX_BYTES;
    if length > MAX_FRAME_BYTES {
        buffer.truncate(start);
        return Err(FrameError::TooLarge(length));
    }
    let prefix = u32::try_from(length).map_err(|_| FrameError::TooLarge(length))?;
    buffer[start..start + PREFIX_BYTES].copy_from_slice(&prefix.to_le_bytes());
    Ok(())
}

/// Reads the length prefix at the head of a frame.
///
/// # Errors
///
/// [`FrameError::TooLarge`], before anything of that size is allocated.
pub fn length(prefix: [u8; PREFIX_BYTES]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MAX_FRAME_BYTES { Err(FrameError::TooLarge(length)) } else { Ok(length) }
}

/// Decodes the bytes behind a prefix.
///
/// # Errors
///
/// [`FrameError::Malformed`] when they are not a `T`.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, FrameError> {
    Ok(postcard::from_bytes(payload)?)
}
