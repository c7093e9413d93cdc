//! Requests that this process makes to itself on behalf of a client. They count toward the client's limits, not toward
//! those of the host's own address.

use std::{net::IpAddr, sync::LazyLock};

use subtle::ConstantTimeEq as _;
use ulid::Ulid;

/// The header that names the client's address.
pub const HEADER: &str = "x-tollhouse-on-behalf-of";

/// A secret that only this process knows. It proves that the header comes from this process.
static WORD: LazyLock<String> = LazyLock::new(|| format!("{}{}", Ulid::generate(), Ulid::generate()));

/// Returns the header's value for a request to this host on behalf of `address`.
pub fn forwarded_value(address: IpAddr) -> String {
    format!("{address} {}", *WORD)
}

/// Returns the client that a request is made for, if the header was set by this process.
pub fn parse_forwarded(message: &[u8]) -> Option<IpAddr> {
    let (address, word) = std::str::from_utf8(message).ok()?.split_once(' ')?;
    bool::from(word.as_bytes().ct_eq(WORD.as_bytes())).then(|| address.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_value_of_another_process_is_rejected() {
        for address in ["127.0.0.2", "2001:db8::1"].map(|address| address.parse().unwrap()) {
            assert_eq!(parse_forwarded(forwarded_value(address).as_bytes()), Some(address));
        }
        for message in ["", "127.0.0.1", "127.0.0.1 ", "127.0.0.1 01M815SNBRFK5W9N9KTE3F3SM801M815SNBRFK5W9N9KTE3F3SM8"] {
            assert_eq!(parse_forwarded(message.as_bytes()), None, "{message}");
        }
        assert_eq!(parse_forwarded(&[0xff, b' ']), None);
    }
}
