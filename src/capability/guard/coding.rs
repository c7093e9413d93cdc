//! Content codings of responses: gzip and deflate, which some servers send even if not requested (RFC 9110, section
//! 8.4).

use std::io::Read;

use bytes::Bytes;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use hyper::header::{CONTENT_ENCODING, HeaderMap};

use super::error::FetchError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    Deflate,
}

/// The codings that a server may use if the request takes a compressed response.
pub(super) const ACCEPTED: &str = "gzip, deflate";

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
            all => Err(FetchError::Encoded(all.join(", ").chars().take(40).collect())),
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
        }
    }
}

/// Returns whether the bytes begin like a zlib stream (RFC 1950, section 2.2).
fn is_zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [method, flags, ..] if method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0)
}

fn read(decoder: impl Read, coding: &'static str, limit: usize) -> Result<Bytes, FetchError> {
    let mut body = Vec::new();
    decoder.take(limit as u64 + 1).read_to_end(&mut body).map_err(|_| FetchError::Undecodable(coding))?;
    if body.len() > limit { Err(FetchError::TooLarge(limit)) } else { Ok(body.into()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write};
    use hyper::header::HeaderValue;

    use super::*;

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
        assert_eq!(named(&["Deflate"]), Ok(Coding::Deflate));
        for (other, reported) in [(&["br"][..], "br"), (&["zstd"], "zstd"), (&["gzip, br"], "gzip, br"), (&["gzip", "gzip"], "gzip, gzip")]
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
        ] {
            assert_eq!(coding.decode(&coded, text.len()).unwrap(), text);
            assert_eq!(coding.decode(&coded, text.len() - 1), Err(FetchError::TooLarge(text.len() - 1)));
            assert!(matches!(coding.decode(&coded.slice(..coded.len() / 2), text.len()), Err(FetchError::Undecodable(_))));
            assert_eq!(coding.decode(&Bytes::new(), 0).unwrap(), "", "an answer without a body has none to decode");
        }
        let members = [&gzip[..], &gzip[..]].concat();
        assert_eq!(Coding::Gzip.decode(&members.into(), 2 * text.len()).unwrap().len(), 2 * text.len());
        assert_eq!(Coding::Gzip.decode(&Bytes::from_static(b"{}"), 10), Err(FetchError::Undecodable("gzip")));
    }
}
