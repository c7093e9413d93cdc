//! The streams that a handler compresses or decompresses.
//!
//! Scripts refer to a stream by a number, which is never reused in a worker's life. Input is
//! processed in small pieces: a stopped call ends between two of them. Output is refused as soon as
//! the buffer limit does not permit it, so that a short input cannot become a large process.

use std::{
    collections::HashMap,
    io::{Error, Result, Write},
};

use brotli_decompressor::{Allocator, BrotliDecoderParameter, writer::DecompressorWriterCustomAlloc};
use flate2::{
    Compression,
    write::{DeflateDecoder, DeflateEncoder, GzDecoder, GzEncoder, ZlibDecoder, ZlibEncoder},
};
use tollhouse_protocol::limits::COMPRESSORS;

use crate::{
    counted_alloc::{CountedAlloc, CountedMemory},
    memory,
};

/// A decoder whose window counts as a buffer.
type BrotliDecoder = DecompressorWriterCustomAlloc<Output, CountedMemory<u8>, CountedAlloc, CountedAlloc, CountedAlloc>;

/// Bytes of input that are processed without looking whether the call was stopped.
const PIECE_BYTES: usize = 64 << 10;

/// Buffer of a brotli decoder, in bytes.
const BROTLI_BUFFER_BYTES: usize = 4 << 10;

/// The streams of one call that have not ended.
#[derive(Default)]
pub(crate) struct Compressors {
    last: u32,
    open: HashMap<u32, Codec>,
}

/// A stream in a format of the Compression standard.
enum Codec {
    Inflate(ZlibDecoder<Output>),
    Deflate(ZlibEncoder<Output>),
    InflateRaw(DeflateDecoder<Output>),
    DeflateRaw(DeflateEncoder<Output>),
    Gunzip(GzDecoder<Output>),
    Gzip(GzEncoder<Output>),
    /// Boxed because it is large.
    Brotli(Box<BrotliDecoder>),
}

/// The output that the script has not taken yet.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// Whether further output is refused: an encoder writes its last output when it is dropped.
    is_closed: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.is_closed {
            return Err(Error::other("the stream is closed"));
        }
        if !memory::permits(self.bytes.len() + bytes.len()) {
            return Err(Error::other("the output exceeds the memory for buffers"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Compressors {
    /// Returns the number of a new stream, or 0 if its format is unknown or there are
    /// [`COMPRESSORS`] already.
    pub(crate) fn begin(&mut self, format: &str, decodes: bool) -> u32 {
        if self.open.len() >= COMPRESSORS {
            return 0;
        }
        let (output, level) = (Output::default(), Compression::default());
        let codec = match (format, decodes) {
            ("deflate", true) => Codec::Inflate(ZlibDecoder::new(output)),
            ("deflate", false) => Codec::Deflate(ZlibEncoder::new(output, level)),
            ("deflate-raw", true) => Codec::InflateRaw(DeflateDecoder::new(output)),
            ("deflate-raw", false) => Codec::DeflateRaw(DeflateEncoder::new(output, level)),
            ("gzip", true) => Codec::Gunzip(GzDecoder::new(output)),
            ("gzip", false) => Codec::Gzip(GzEncoder::new(output, level)),
            ("brotli", true) => Codec::Brotli(Box::new(brotli_decoder(output))),
            _ => return 0,
        };
        self.last += 1;
        self.open.insert(self.last, codec);
        self.last
    }

    /// Processes the next input. Returns the output so far. A stream that failed is closed.
    ///
    /// # Errors
    ///
    /// If the input is not in the format of the stream, or the stream has ended.
    pub(crate) fn write(&mut self, number: u32, input: &[u8]) -> Result<Vec<u8>> {
        let codec = self.open.get_mut(&number).ok_or_else(|| Error::other("the stream belongs to a call that has ended"))?;
        let written = input.chunks(PIECE_BYTES).try_for_each(|piece| if memory::permits(0) { codec.write(piece) } else { Ok(()) });
        let output = written.map(|()| std::mem::take(&mut codec.output().bytes));
        if output.is_err() {
            self.open.remove(&number);
        }
        output
    }

    /// Ends a stream. Returns the rest of its output.
    ///
    /// # Errors
    ///
    /// If the input ended too early, or the stream has ended already.
    pub(crate) fn finish(&mut self, number: u32) -> Result<Vec<u8>> {
        let codec = self.open.remove(&number).ok_or_else(|| Error::other("the stream has ended already"))?;
        let output = match codec {
            Codec::Inflate(codec) => codec.finish(),
            Codec::Deflate(codec) => codec.finish(),
            Codec::InflateRaw(codec) => codec.finish(),
            Codec::DeflateRaw(codec) => codec.finish(),
            Codec::Gunzip(codec) => codec.finish(),
            Codec::Gzip(codec) => codec.finish(),
            Codec::Brotli(codec) => codec.into_inner().map_err(|_| Error::other("the brotli stream is not complete")),
        };
        output.map(|output| output.bytes)
    }

    /// Removes all streams, because another call begins. Their last output must not stop that call.
    pub(crate) fn clear(&mut self) {
        for codec in self.open.values_mut() {
            codec.output().is_closed = true;
        }
        self.open.clear();
    }
}

/// Returns a decoder with windows of RFC 7932, of at most 16 MiB. Those of the extension "large window"
/// have up to 1 GiB, which nothing counts.
fn brotli_decoder(output: Output) -> BrotliDecoder {
    let buffer = <CountedAlloc as Allocator<u8>>::alloc_cell(&mut CountedAlloc, BROTLI_BUFFER_BYTES);
    let mut decoder = BrotliDecoder::new(output, buffer, CountedAlloc, CountedAlloc, CountedAlloc);
    decoder.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    decoder
}

impl Codec {
    /// Processes a piece of input. Decoders write all their output, encoders keep some of it.
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        match self {
            Self::Inflate(codec) => codec.write_all(piece).and_then(|()| codec.flush()),
            Self::Deflate(codec) => codec.write_all(piece),
            Self::InflateRaw(codec) => codec.write_all(piece).and_then(|()| codec.flush()),
            Self::DeflateRaw(codec) => codec.write_all(piece),
            Self::Gunzip(codec) => codec.write_all(piece).and_then(|()| codec.flush()),
            Self::Gzip(codec) => codec.write_all(piece),
            Self::Brotli(codec) => codec.write_all(piece).and_then(|()| codec.flush()),
        }
    }

    fn output(&mut self) -> &mut Output {
        match self {
            Self::Inflate(codec) => codec.get_mut(),
            Self::Deflate(codec) => codec.get_mut(),
            Self::InflateRaw(codec) => codec.get_mut(),
            Self::DeflateRaw(codec) => codec.get_mut(),
            Self::Gunzip(codec) => codec.get_mut(),
            Self::Gzip(codec) => codec.get_mut(),
            Self::Brotli(codec) => codec.get_mut(),
        }
    }
}

impl std::fmt::Debug for Compressors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressors").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(format: &str, decodes: bool, pieces: &[&[u8]]) -> Result<Vec<u8>> {
        let mut all = Compressors::default();
        let number = all.begin(format, decodes);
        let mut output = Vec::new();
        for piece in pieces {
            output.extend(all.write(number, piece)?);
        }
        output.extend(all.finish(number)?);
        assert!(all.open.is_empty());
        Ok(output)
    }

    #[test]
    fn what_is_compressed_is_the_same_after_decompression() {
        let text = b"one two three ".repeat(20_000);
        for format in ["deflate", "deflate-raw", "gzip"] {
            let packed = through(format, false, &[&text[..5], b"", &text[5..]]).unwrap();
            assert!(packed.len() < text.len() / 10, "{format}");
            assert_eq!(through(format, true, &[&packed[..3], &packed[3..]]).unwrap(), text, "{format}");
        }
    }

    #[test]
    fn invalid_truncated_and_longer_input_fails() {
        for format in ["deflate", "deflate-raw", "gzip"] {
            let packed = through(format, false, &[b"some text"]).unwrap();
            through(format, true, &[b"\xff\xff not packed"]).unwrap_err();
            through(format, true, &[&packed[..packed.len() - 1]]).unwrap_err();
            through(format, true, &[&packed, b"more"]).unwrap_err();
        }
    }

    #[test]
    fn brotli_has_no_large_window() {
        // An empty stream with a window of 16 MiB in the form of the extension.
        through("brotli", true, &[b"\x11\xd8"]).unwrap_err();
    }

    #[test]
    fn streams_of_a_call_are_bounded_and_end_with_it() {
        let mut all = Compressors::default();
        assert_eq!(all.begin("zip", true), 0);
        assert_eq!(all.begin("brotli", false), 0);
        let numbers: Vec<_> = (0..COMPRESSORS).map(|_| all.begin("gzip", true)).collect();
        assert!(!numbers.contains(&0));
        assert_eq!(all.begin("gzip", true), 0);
        all.clear();
        all.write(numbers[0], b"").unwrap_err();
        assert!(!numbers.contains(&all.begin("gzip", true)));
    }
}
