//! Decodes a body in pieces, as it arrives.

use std::io::{self, ErrorKind, Read};

use bytes::Bytes;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use tollhouse_protocol::limits::FETCH_CHUNK_BYTES;

use super::{
    coding::{Coding, is_zlib},
    error::FetchError,
};

/// Decodes gzip or deflate, whose windows are small. The other codings need up to 16 MiB for each body, and are decoded
/// whole.
pub(super) struct PieceDecoder {
    coding: Coding,
    /// The first bytes, until they show which form of deflate it is.
    first: Vec<u8>,
    /// `None` before the first bytes.
    decoder: Option<Box<dyn Decode>>,
    has_ended: bool,
}

trait Decode: Read + Send {
    fn input(&mut self) -> &mut Input;
}

/// The bytes that have arrived and are not decoded yet.
struct Input {
    bytes: Bytes,
    /// Whether no further bytes come.
    is_last: bool,
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            return if self.is_last { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let length = into.len().min(self.bytes.len());
        into[..length].copy_from_slice(&self.bytes.split_to(length));
        Ok(length)
    }
}

impl Decode for MultiGzDecoder<Input> {
    fn input(&mut self) -> &mut Input {
        self.get_mut()
    }
}

impl Decode for ZlibDecoder<Input> {
    fn input(&mut self) -> &mut Input {
        self.get_mut()
    }
}

impl Decode for DeflateDecoder<Input> {
    fn input(&mut self) -> &mut Input {
        self.get_mut()
    }
}

impl PieceDecoder {
    /// Returns a decoder, or `None` for a coding that is not decoded in pieces.
    pub(super) fn of(coding: Coding) -> Option<Self> {
        matches!(coding, Coding::Gzip | Coding::Deflate).then(|| Self { coding, first: Vec::new(), decoder: None, has_ended: false })
    }

    /// Decodes up to [`FETCH_CHUNK_BYTES`] of `more` and what is left of earlier input. Pass more only after an empty
    /// result. `is_last` says that nothing follows `more`: then an empty result is the end of the body.
    ///
    /// # Errors
    ///
    /// [`FetchError::Undecodable`].
    pub(super) fn decode(&mut self, more: &[u8], is_last: bool) -> Result<Bytes, FetchError> {
        if self.has_ended {
            return Ok(Bytes::new());
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => {
                let input = decoder.input();
                if !more.is_empty() {
                    input.bytes = if input.bytes.is_empty() { Bytes::copy_from_slice(more) } else { [&input.bytes, more].concat().into() };
                }
                input.is_last = is_last;
                decoder
            }
            None => {
                self.first.extend_from_slice(more);
                // A body without bytes has none to decode.
                if self.first.is_empty() || (self.first.len() < 2 && !is_last) {
                    return Ok(Bytes::new());
                }
                let input = Input { bytes: std::mem::take(&mut self.first).into(), is_last };
                let decoder: Box<dyn Decode> = match self.coding {
                    Coding::Deflate if is_zlib(&input.bytes) => Box::new(ZlibDecoder::new(input)),
                    Coding::Deflate => Box::new(DeflateDecoder::new(input)),
                    _ => Box::new(MultiGzDecoder::new(input)),
                };
                self.decoder.insert(decoder)
            }
        };
        let (mut decoded, mut length) = (vec![0; FETCH_CHUNK_BYTES], 0);
        while length < decoded.len() {
            match decoder.read(&mut decoded[length..]) {
                Ok(0) => {
                    self.has_ended = true;
                    break;
                }
                Ok(read) => length += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(FetchError::Undecodable(if self.coding == Coding::Gzip { "gzip" } else { "deflate" })),
            }
        }
        Ok(Bytes::copy_from_slice(&decoded[..length]))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write};

    use super::*;

    /// Feeds `coded` in pieces of `size` bytes. Returns everything that was decoded.
    fn decode(coding: Coding, coded: &[u8], size: usize) -> Result<Vec<u8>, FetchError> {
        let mut decoder = PieceDecoder::of(coding).unwrap();
        let (mut all, mut pieces) = (Vec::new(), coded.chunks(size));
        let mut more: &[u8] = &[];
        let mut is_last = false;
        loop {
            let piece = decoder.decode(more, is_last)?;
            assert!(piece.len() <= FETCH_CHUNK_BYTES);
            all.extend_from_slice(&piece);
            more = &[];
            if piece.is_empty() {
                match pieces.next() {
                    Some(next) => more = next,
                    None if is_last => return Ok(all),
                    None => is_last = true,
                }
            }
        }
    }

    fn coded() -> (Vec<u8>, [(Coding, Vec<u8>); 3]) {
        let text: Vec<u8> = (0..20_000_u32).flat_map(|at| (at.wrapping_mul(at) / 7).to_le_bytes()).collect();
        let mut gzip = write::GzEncoder::new(Vec::new(), Compression::best());
        let mut zlib = write::ZlibEncoder::new(Vec::new(), Compression::best());
        let mut raw = write::DeflateEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&text).unwrap();
        zlib.write_all(&text).unwrap();
        raw.write_all(&text).unwrap();
        let coded =
            [(Coding::Gzip, gzip.finish().unwrap()), (Coding::Deflate, zlib.finish().unwrap()), (Coding::Deflate, raw.finish().unwrap())];
        (text, coded)
    }

    #[test]
    fn pieces_of_any_size_are_decoded_like_the_whole() {
        let (text, all) = coded();
        for (coding, coded) in &all {
            for size in [3, 7, 4_096, 1 << 20] {
                assert!(decode(*coding, coded, size).unwrap() == text, "{coding:?} in pieces of {size}");
            }
            assert_eq!(decode(*coding, b"", 1), Ok(Vec::new()), "a body without bytes");
        }
        let members = [&all[0].1[..], &all[0].1].concat();
        assert_eq!(decode(Coding::Gzip, &members, 999).unwrap().len(), 2 * text.len());
    }

    #[test]
    fn a_body_that_is_cut_off_or_is_something_else_is_an_error() {
        let (_, all) = coded();
        for (coding, coded) in &all {
            assert!(matches!(decode(*coding, &coded[..coded.len() / 2], 1_000), Err(FetchError::Undecodable(_))), "{coding:?}");
        }
        assert_eq!(decode(Coding::Gzip, b"{}", 1), Err(FetchError::Undecodable("gzip")));
        assert_eq!(decode(Coding::Gzip, b"x", 1), Err(FetchError::Undecodable("gzip")));
    }

    #[test]
    fn a_bomb_comes_in_pieces() {
        let mut gzip = write::GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&vec![0; 8 << 20]).unwrap();
        let bomb = gzip.finish().unwrap();
        assert!(bomb.len() < 10_000);
        let mut decoder = PieceDecoder::of(Coding::Gzip).unwrap();
        assert_eq!(decoder.decode(&bomb, true).unwrap().len(), FETCH_CHUNK_BYTES, "no more is held");
    }

    #[test]
    fn decoded_bytes_do_not_wait_for_the_next_piece() {
        let mut gzip = write::GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"data: 1\n\n").unwrap();
        gzip.flush().unwrap();
        let mut decoder = PieceDecoder::of(Coding::Gzip).unwrap();
        assert_eq!(decoder.decode(gzip.get_ref(), false).unwrap(), "data: 1\n\n");
    }
}
