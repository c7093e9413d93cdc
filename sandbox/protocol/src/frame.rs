//! Frames: a little-endian `u32` length, then that many bytes of postcard.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _, SeqAccess, Visitor},
};

/// Size of the length prefix, in bytes.
pub const PREFIX_BYTES: usize = 4;

/// Largest frame that either side accepts, in bytes without the prefix. It bounds memory and is far
/// above the limits on bodies, results and files. 8 MiB.
pub const MAX_FRAME_BYTES: usize = 8 << 20;

/// Error of a frame that could not be written or read. The stream is then out of sync, and the
/// worker must be ended.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length prefix exceeds [`MAX_FRAME_BYTES`].
    #[error("the frame has {0} bytes, and the maximum is {MAX_FRAME_BYTES}")]
    TooLarge(usize),
    /// The bytes are not a valid message of the expected type.
    #[error("the frame cannot be decoded")]
    Malformed(#[from] postcard::Error),
}

/// Appends `message` to `buffer` as one frame, so that several frames can be written at once.
///
/// # Errors
///
/// [`FrameError::TooLarge`] if the receiver would not accept the message. `buffer` is unchanged
/// then.
pub fn encode<T: Serialize>(message: &T, buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; PREFIX_BYTES]);
    let written = postcard::to_extend(message, std::mem::take(buffer));
    *buffer = written?;
    let length = buffer.len() - start - PREFIX_BYTES;
    if length > MAX_FRAME_BYTES {
        buffer.truncate(start);
        return Err(FrameError::TooLarge(length));
    }
    let prefix = u32::try_from(length).map_err(|_| FrameError::TooLarge(length))?;
    buffer[start..start + PREFIX_BYTES].copy_from_slice(&prefix.to_le_bytes());
    Ok(())
}

/// Reads the length prefix of a frame.
///
/// # Errors
///
/// [`FrameError::TooLarge`], before anything of that size is allocated.
pub fn length(prefix: [u8; PREFIX_BYTES]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MAX_FRAME_BYTES { Err(FrameError::TooLarge(length)) } else { Ok(length) }
}

/// Decodes a list of at most `MAX` items. A longer list is an error, because items in memory can be
/// many times larger than in the frame.
pub(crate) fn bounded_list<'de, T: Deserialize<'de>, D: Deserializer<'de>, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct BoundedList<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for BoundedList<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX} items")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                if list.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                list.push(item);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(BoundedList::<T, MAX>(PhantomData))
}

/// Decodes the bytes after a prefix.
///
/// # Errors
///
/// [`FrameError::Malformed`] if they are not a valid `T`.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, FrameError> {
    Ok(postcard::from_bytes(payload)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AtomicCheck, AtomicWrite, JailLayer, JailReport, LayerRefusal, MAX_PROBLEMS, OpRequest, Outcome, Problem, ReplyBody, Side, Spent,
        ToHost, ToolReply, jail::MAX_LAYERS, limits::CALL_BYTES, outcome::MAX_HEADERS,
    };

    fn decodes(message: &ToHost) -> bool {
        let mut frame = vec![];
        encode(message, &mut frame).unwrap();
        decode::<ToHost>(&frame[PREFIX_BYTES..]).is_ok()
    }

    #[test]
    fn lists_of_a_request_decode_up_to_the_bytes_of_a_call() {
        let asks = |request| ToHost::Op { op: 1, request };
        let headers = |count| vec![<(String, String)>::default(); count];
        let get = |count| asks(OpRequest::HttpGetJson { url: String::new(), headers: headers(count), timeout_ms: None, auth: None });
        let check = AtomicCheck { key: String::new(), value: None };
        let checks = |count| asks(OpRequest::KvAtomic { checks: vec![check.clone(); count], writes: vec![] });
        let write = AtomicWrite::Delete { key: String::new() };
        let writes = |count| asks(OpRequest::KvAtomic { checks: vec![], writes: vec![write.clone(); count] });
        let open = |count| asks(OpRequest::StreamOpen { status: 200, headers: headers(count), first: bytes::Bytes::new() });
        assert!(decodes(&open(CALL_BYTES / 48)) && !decodes(&open(CALL_BYTES / 8)));
        assert!(decodes(&get(CALL_BYTES / 48)) && decodes(&checks(1_000)) && decodes(&writes(1_000)));
        assert!([get(CALL_BYTES / 8), checks(CALL_BYTES / 8), writes(CALL_BYTES / 8)].iter().all(|message| !decodes(message)));
    }

    #[test]
    fn lists_of_a_worker_decode_up_to_their_bounds() {
        let done = |outcome| ToHost::Done { outcome, spent: Spent::default() };
        let invalid = |count| done(Outcome::Invalid(Side::Input, vec![Problem { pointer: String::new(), message: String::new() }; count]));
        let body = ReplyBody::Raw(bytes::Bytes::new());
        let reply =
            |count| done(Outcome::Returned(ToolReply { status: 200, headers: vec![Default::default(); count], body: body.clone() }));
        let ready = |in_force, refused| {
            let refused = vec![LayerRefusal { layer: JailLayer::Seccomp, errno: 1 }; refused];
            ToHost::Ready { jail: JailReport { in_force: vec![JailLayer::Seccomp; in_force], refused } }
        };
        assert!(decodes(&invalid(MAX_PROBLEMS)) && decodes(&reply(MAX_HEADERS)) && decodes(&ready(MAX_LAYERS, MAX_LAYERS)));
        for count in [1, 1_000_000] {
            assert!(!decodes(&invalid(MAX_PROBLEMS + count)));
            assert!(!decodes(&reply(MAX_HEADERS + count)));
            assert!(!decodes(&ready(MAX_LAYERS + count, 0)) && !decodes(&ready(0, MAX_LAYERS + count)));
        }
    }
}
