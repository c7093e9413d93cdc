//! Content codings of responses: gzip, deflate, br and zstd (RFC 9110, section 8.4). Some servers use one even if it was
//! not requested.

use std::io::Read;

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use bytes::Bytes;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use hyper::header::{CONTENT_ENCODING, HeaderMap};
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::error::FetchError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Size of the brotli decoder's input buffer, in bytes.
const BROTLI_BUFFER_BYTES: usize = 4 << 10;

/// Maximum window of a zstd frame, in bytes (RFC 9659).
const ZSTD_WINDOW_BYTES: u64 = 8 << 20;

/// Maximum window of a brotli stream, in bytes (RFC 7932, section 9.1). The larger windows of an extension are refused.
const BROTLI_WINDOW_BYTES: usize = 16 << 20;

/// Approximate maximum expansion factor of deflate.
const INFLATES: usize = 1_032;

/// The codings that a server may use if the request takes a compressed response.
pub(super) const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// Values that say nothing about a body's bytes, which storage services echo from uploads.
const PLAIN: [&str; 4] = ["", "identity", "utf-8", "aws-chunked"];

impl Coding {
    /// Returns the coding that the headers name.
    ///
    /// # Errors
    ///
    /// [`FetchError::Encoded`] for any other coding and for stacked codings.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, FetchError> {
        let named: Vec<String> = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .flat_map(|value| String::from_utf8_lossy(value.as_bytes()).split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>())
            .filter(|name| !PLAIN.contains(&&*name.to_ascii_lowercase()))
            .collect();
        match named.as_slice() {
            [] => Ok(Self::Identity),
            [one] if one.eq_ignore_ascii_case("gzip") || one.eq_ignore_ascii_case("x-gzip") => Ok(Self::Gzip),
            [one] if one.eq_ignore_ascii_case("deflate") => Ok(Self::Deflate),
            [one] if one.eq_ignore_ascii_case("br") => Ok(Self::Brotli),
            [one] if one.eq_ignore_ascii_case("zstd") => Ok(Self::Zstd),
            all => Err(FetchError::Encoded(all.join(", ").chars().take(40).collect())),
        }
    }

    /// Returns how many bytes can be decoded from `coded` bytes before `limit` stops it. The decoders of brotli and zstd
    /// fill a window before they return its first byte.
    pub(super) fn decoded_bytes(self, coded: usize, limit: usize) -> usize {
        match self {
            Self::Identity => 0,
            Self::Gzip | Self::Deflate => limit.min(coded.saturating_mul(INFLATES)),
            Self::Brotli | Self::Zstd => limit.max(BROTLI_WINDOW_BYTES),
        }
    }

    /// Decodes a body, up to `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`FetchError::TooLarge`] as soon as the output exceeds `limit`, and [`FetchError::Undecodable`].
    pub(super) fn decode(self, coded: &Bytes, limit: usize) -> Result<Bytes, FetchError> {
        if coded.is_empty() {
            return Ok(Bytes::new());
        }
        match self {
            Self::Identity => Ok(coded.clone()),
            Self::Gzip => read(MultiGzDecoder::new(&coded[..]), "gzip", limit),
            Self::Deflate if is_zlib(coded) => read(ZlibDecoder::new(&coded[..]), "deflate", limit),
            // Raw deflate, as some servers understand the name.
            Self::Deflate => read(DeflateDecoder::new(&coded[..]), "deflate", limit),
            Self::Brotli => {
                let mut decoder = Decompressor::new(&coded[..], BROTLI_BUFFER_BYTES);
                // Otherwise a kilobyte can fill a window of 1 GiB.
                decoder.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
                read(decoder, "br", limit)
            }
            Self::Zstd => read_zstd(coded, limit),
        }
    }
}

/// Returns whether the bytes begin like a zlib stream (RFC 1950, section 2.2).
pub(super) fn is_zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [method, flags, ..] if method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0)
}

fn read(decoder: impl Read, coding: &'static str, limit: usize) -> Result<Bytes, FetchError> {
    let mut body = Vec::new();
    decoder.take(limit as u64 + 1).read_to_end(&mut body).map_err(|_| FetchError::Undecodable(coding))?;
    if body.len() > limit { Err(FetchError::TooLarge(limit)) } else { Ok(body.into()) }
}

/// Decodes the frames of a body, which can be several (RFC 8878, section 3).
fn read_zstd(mut coded: &[u8], limit: usize) -> Result<Bytes, FetchError> {
    const UNDECODABLE: FetchError = FetchError::Undecodable("zstd");
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW_BYTES);
    let mut body = Vec::new();
    while !coded.is_empty() {
        match decoder.init(&mut coded) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                coded = usize::try_from(length).ok().and_then(|length| coded.get(length..)).ok_or(UNDECODABLE)?;
                continue;
            }
            Err(_) => return Err(UNDECODABLE),
        }
        while !decoder.is_finished() {
            decoder.decode_blocks(&mut coded, BlockDecodingStrategy::UptoBlocks(1)).map_err(|_| UNDECODABLE)?;
            let room = (limit - body.len()) as u64 + 1;
            decoder.by_ref().take(room).read_to_end(&mut body).map_err(|_| UNDECODABLE)?;
            if body.len() > limit {
                return Err(FetchError::TooLarge(limit));
            }
        }
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write};
    use hyper::header::HeaderValue;

    use super::*;

    /// `{"a":1}` a hundred times, as Node.js 20 and zstd 1.5 compress it.
    const BROTLI: &str = "1bbb02f88dd462adb037d6223a617b2aa62f6a8b04be9950";
    const ZSTD: &str = "28b52ffd64bc01750000387b2261223a317d0100b25415234f24d83e";

    /// A frame with a window of 128 MiB.
    const WIDE_ZSTD: &str = "28b52ffd0088010000";

    #[test]
    fn a_zstd_frame_with_a_large_window_is_not_decoded() {
        let wide = Bytes::from(hex::decode(WIDE_ZSTD).unwrap());
        assert_eq!(Coding::Zstd.decode(&wide, 1 << 20), Err(FetchError::Undecodable("zstd")));
    }

    /// The text of [`BROTLI`] with a window of 1 GiB and of 4 MiB, in the format of large windows.
    const LARGE_BROTLI: [&str; 2] =
        ["115eec0ae037528bb5c2de588be884eda998bea82d12f0cd8402", "1156ec0ae037528bb5c2de588be884eda998bea82d12f0cd8402"];

    #[test]
    fn a_brotli_stream_with_a_large_window_is_not_decoded() {
        for wide in LARGE_BROTLI {
            let wide = Bytes::from(hex::decode(wide).unwrap());
            assert_eq!(Coding::Brotli.decode(&wide, 1 << 20), Err(FetchError::Undecodable("br")));
        }
    }

    #[test]
    fn decoders_that_fill_a_window_count_as_long_work() {
        for (coding, coded, limit, bytes) in [
            (Coding::Gzip, 10, 1 << 20, 10_320),
            (Coding::Deflate, 10_000, 1_000, 1_000),
            (Coding::Brotli, 10, 1_000, BROTLI_WINDOW_BYTES),
            (Coding::Zstd, 10, 1_000, BROTLI_WINDOW_BYTES),
            (Coding::Brotli, 10, 32 << 20, 32 << 20),
        ] {
            assert_eq!(coding.decoded_bytes(coded, limit), bytes, "{coding:?}");
        }
    }

    /// `{"a":1}` with and without a checksum, as zstd 1.5 compresses it.
    const ZSTD_FRAMES: [&str; 2] = ["28b52ffd04583900007b2261223a317d488bfc32", "28b52ffd00583900007b2261223a317d"];

    /// A frame of three bytes that say nothing about the content.
    const SKIPPED_FRAME: &str = "502a4d1803000000ffffff";

    #[test]
    fn all_frames_of_zstd_are_decoded() {
        let [first, second] = ZSTD_FRAMES;
        let decode = |frames: &[&str], limit| Coding::Zstd.decode(&Bytes::from(hex::decode(frames.concat()).unwrap()), limit);
        for frames in [&[first, second][..], &[SKIPPED_FRAME, first, SKIPPED_FRAME, second, SKIPPED_FRAME]] {
            assert_eq!(decode(frames, 14).unwrap(), "{\"a\":1}{\"a\":1}");
            assert_eq!(decode(frames, 13), Err(FetchError::TooLarge(13)));
        }
        for broken in [&[first, "00"][..], &[first, "502a4d1804000000ffffff"], &[&second[..20]]] {
            assert_eq!(decode(broken, 100), Err(FetchError::Undecodable("zstd")), "{broken:?}");
        }
    }

    fn named(values: &[&'static str]) -> Result<Coding, FetchError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
        }
        Coding::of(&headers)
    }

    #[test]
    fn codings_are_recognized_in_any_case() {
        for plain in [&[][..], &[""], &["identity"], &["Identity"], &["utf-8"], &["aws-chunked"], &["identity, ", "IDENTITY"]] {
            assert_eq!(named(plain), Ok(Coding::Identity), "{plain:?}");
        }
        for gzip in [&["gzip"][..], &["GZip"], &["x-gzip"], &["identity, gzip"], &["aws-chunked", "gzip"]] {
            assert_eq!(named(gzip), Ok(Coding::Gzip), "{gzip:?}");
        }
        for (name, coding) in [("Deflate", Coding::Deflate), ("br", Coding::Brotli), ("ZSTD", Coding::Zstd)] {
            assert_eq!(named(&[name]), Ok(coding));
        }
        for (other, reported) in
            [(&["compress"][..], "compress"), (&["dcb"], "dcb"), (&["gzip, br"], "gzip, br"), (&["gzip", "gzip"], "gzip, gzip")]
        {
            assert_eq!(named(other), Err(FetchError::Encoded(reported.into())), "{other:?}");
        }
    }

    #[test]
    fn bodies_are_decoded_up_to_their_limit() {
        let text = b"{\"a\":1}".repeat(100);
        let mut gzip = write::GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&text).unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        let mut zlib = write::ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(&text).unwrap();
        let mut deflate = write::DeflateEncoder::new(Vec::new(), Compression::best());
        deflate.write_all(&text).unwrap();
        for (coding, coded) in [
            (Coding::Gzip, gzip.clone()),
            (Coding::Deflate, zlib.finish().unwrap().into()),
            (Coding::Deflate, deflate.finish().unwrap().into()),
            (Coding::Brotli, hex::decode(BROTLI).unwrap().into()),
            (Coding::Zstd, hex::decode(ZSTD).unwrap().into()),
        ] {
            assert_eq!(coding.decode(&coded, text.len()).unwrap(), text);
            assert_eq!(coding.decode(&coded, text.len() - 1), Err(FetchError::TooLarge(text.len() - 1)));
            assert!(matches!(coding.decode(&coded.slice(..coded.len() / 2), text.len()), Err(FetchError::Undecodable(_))));
            assert_eq!(coding.decode(&Bytes::new(), 0).unwrap(), "", "an answer without a body has none to decode");
        }
        let members = [&gzip[..], &gzip[..]].concat();
        assert_eq!(Coding::Gzip.decode(&members.into(), 2 * text.len()).unwrap().len(), 2 * text.len());
        for (coding, name) in [(Coding::Gzip, "gzip"), (Coding::Zstd, "zstd")] {
            assert_eq!(coding.decode(&Bytes::from_static(b"{}"), 10), Err(FetchError::Undecodable(name)));
        }
    }
}
