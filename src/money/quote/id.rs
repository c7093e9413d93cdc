//! Quote ids: the data of a quote and a MAC over it.
//!
//! ```text
//! quo_ base64url( kind 1 | expires, ms 6 | price, micro-USD 5 | endpoint 16 | MAC 20 )
//! ```
//!
//! 48 bytes are 64 characters without unused bits, so an id has one spelling.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_tool::MicroUsd;
use ulid::Ulid;

use super::keys::{MAC_BYTES, QuoteKey};

/// Prefix of quote ids.
const PREFIX: &str = "quo_";

const FIXED: u8 = 1;
const AT_MOST: u8 = 2;

/// Number of bytes that the MAC covers.
const CLAIMS_BYTES: usize = 28;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuoteClaims {
    pub(super) endpoint: EndpointId,
    pub(super) price: MicroUsd,
    pub(super) metered: bool,
    pub(super) expires_at: Timestamp,
}

impl QuoteClaims {
    pub(super) fn written(&self, key: &QuoteKey) -> String {
        let message = self.bytes();
        let mut id = PREFIX.to_owned();
        URL_SAFE_NO_PAD.encode_string([&message[..], &key.mac(&message)].concat(), &mut id);
        id
    }

    fn bytes(&self) -> [u8; CLAIMS_BYTES] {
        let mut bytes = [0; CLAIMS_BYTES];
        bytes[0] = if self.metered { AT_MOST } else { FIXED };
        bytes[1..7].copy_from_slice(&self.expires_at.0.to_be_bytes()[2..]);
        bytes[7..12].copy_from_slice(&self.price.0.to_be_bytes()[3..]);
        bytes[12..].copy_from_slice(&ulid(&self.endpoint));
        bytes
    }

    /// Parses bytes whose MAC is verified. `None` for an unknown kind.
    fn of(bytes: &[u8; CLAIMS_BYTES]) -> Option<Self> {
        let metered = match bytes[0] {
            FIXED => false,
            AT_MOST => true,
            _ => return None,
        };
        let endpoint = Ulid::from_bytes(bytes[12..].try_into().ok()?);
        Some(Self {
            endpoint: format!("{}{endpoint}", EndpointId::PREFIX).parse().ok()?,
            price: MicroUsd(number(&bytes[7..12])),
            metered,
            expires_at: Timestamp(number(&bytes[1..7])),
        })
    }
}

pub(super) fn read(text: &str, keys: &[QuoteKey]) -> Option<QuoteClaims> {
    let encoded = text.strip_prefix(PREFIX)?;
    let mut bytes = [0; CLAIMS_BYTES + MAC_BYTES];
    // Longer texts do not fit, and are not decoded further.
    let read = URL_SAFE_NO_PAD.decode_slice(encoded, &mut bytes).ok()?;
    let (message, mac) = bytes.split_first_chunk().filter(|_| read == bytes.len())?;
    keys.iter().any(|key| key.made(message, mac)).then(|| QuoteClaims::of(message))?
}

fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[8 - bytes.len()..].copy_from_slice(bytes);
    u64::from_be_bytes(whole)
}

fn ulid(endpoint: &EndpointId) -> [u8; 16] {
    Ulid::from_string(&endpoint.as_str()[EndpointId::PREFIX.len()..]).expect("an endpoint's id has a ULID in it").to_bytes()
}
