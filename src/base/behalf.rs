//! Requests that this process makes to itself because somebody asked: they count as that one's, not as its own address's.

use std::{net::IpAddr, sync::LazyLock};

use subtle::ConstantTimeEq as _;
use ulid::Ulid;

/// The header that says so.
pub const HEADER: &str = "x-tollhouse-on-behalf-of";

/// Known to nobody else.
static WORD: LazyLock<String> = LazyLock::new(|| format!("{}{}", Ulid::generate(), Ulid::generate()));

/// What the header says in a request to this host that is made for `address`.
pub fn said_for(address: IpAddr) -> String {
    format!("{address} {}", *WORD)
}

/// For whom a request is made, if this process says so.
pub fn heard(said: &[u8]) -> Option<IpAddr> {
    let (address, word) = std::str::from_utf8(said).ok()?.split_once(' ')?;
    bool::from(word.as_bytes().ct_eq(WORD.as_bytes())).then(|| address.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_process_says_for_whom_it_asks() {
        for address in ["127.0.0.2", "2001:db8::1"].map(|address| address.parse().unwrap()) {
            assert_eq!(heard(said_for(address).as_bytes()), Some(address));
        }
        for said in ["", "127.0.0.1", "127.0.0.1 ", "127.0.0.1 01M815SNBRFK5W9N9KTE3F3SM801M815SNBRFK5W9N9KTE3F3SM8"] {
            assert_eq!(heard(said.as_bytes()), None, "{said}");
        }
        assert_eq!(heard(&[0xff, b' ']), None);
    }
}
