//! Fuzz tests: frames of both directions made of arbitrary bytes.

use serde::{Serialize, de::DeserializeOwned};

use crate::{ToHost, ToWorker, frame};

/// Maximum bytes of memory for each byte of a frame. The worst case is a list item of two bytes.
const MEMORY_FACTOR: usize = 32;

/// Checks that a decoded message survives encoding unchanged and does not grow.
fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let message = frame::decode::<T>(bytes).ok()?;
    let mut sent = Vec::new();
    frame::encode(&message, &mut sent).expect("a decoded message fits into a frame");
    let (prefix, payload) = sent.split_first_chunk().expect("a frame has a prefix");
    assert_eq!(frame::length(*prefix).expect("an encoded length is within the limit"), payload.len());
    assert!(payload.len() <= bytes.len());
    let again: T = frame::decode(payload).expect("an encoded message decodes");
    let mut twice = Vec::new();
    frame::encode(&again, &mut twice).expect("a decoded message can be encoded");
    assert_eq!(sent, twice);
    Some(message)
}

#[test]
fn worker_bytes_parse_to_one_message_or_none_in_bounded_memory() {
    tollhouse_fuzz::check("to-host", |bytes| {
        if let Some(ToHost::Op { request, .. }) = read(bytes) {
            assert!(request.bytes() <= size_of_val(&request) + MEMORY_FACTOR * bytes.len(), "{} bytes of {}", request.bytes(), bytes.len());
        }
    });
}

#[test]
fn host_bytes_parse_to_one_message_or_none() {
    tollhouse_fuzz::check("to-worker", |bytes| _ = read::<ToWorker>(bytes));
}
