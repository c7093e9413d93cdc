//! Streaming text decoders of a handler.
//!
//! A streaming decoder has state: a partial character, or the alphabet that an escape sequence
//! selected. The state is stored here until the last piece or the end of the call. Scripts refer to
//! it by a number, which is never reused in a worker's life, so no text of one call can get into
//! another's.

use std::collections::HashMap;

use encoding_rs::{CoderResult, Decoder, DecoderResult, Encoding};
use tollhouse_protocol::limits::DECODERS;

/// The decoders of one call that have not received their last piece.
#[derive(Default)]
pub(crate) struct Decoders {
    last: u32,
    open: HashMap<u32, Decoder>,
}

impl Decoders {
    /// Returns `held` if it is a decoder of this call, else the number of a new one, or 0 if there
    /// are [`DECODERS`] already.
    pub(crate) fn begin(&mut self, held: u32, encoding: &'static Encoding, keep_mark: bool) -> u32 {
        if self.open.contains_key(&held) {
            return held;
        }
        if self.open.len() >= DECODERS {
            return 0;
        }
        self.last += 1;
        let decoder = if keep_mark { encoding.new_decoder_without_bom_handling() } else { encoding.new_decoder_with_bom_removal() };
        self.open.insert(self.last, decoder);
        self.last
    }

    /// Decodes the next piece. Returns `None` if `fatal` is set and the piece is invalid in the
    /// decoder's encoding.
    pub(crate) fn decode(&mut self, number: u32, piece: &[u8], fatal: bool, is_last: bool) -> Option<String> {
        let text = feed(self.open.get_mut(&number)?, piece, fatal, is_last);
        if is_last {
            self.open.remove(&number);
        }
        text
    }

    /// Removes all decoders, because another call begins.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }
}

impl std::fmt::Debug for Decoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoders").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

fn feed(decoder: &mut Decoder, piece: &[u8], fatal: bool, is_last: bool) -> Option<String> {
    let room =
        if fatal { decoder.max_utf8_buffer_length_without_replacement(piece.len()) } else { decoder.max_utf8_buffer_length(piece.len()) };
    let mut text = String::with_capacity(room?);
    let whole = if fatal {
        matches!(decoder.decode_to_string_without_replacement(piece, &mut text, is_last).0, DecoderResult::InputEmpty)
    } else {
        matches!(decoder.decode_to_string(piece, &mut text, is_last).0, CoderResult::InputEmpty)
    };
    whole.then_some(text)
}
