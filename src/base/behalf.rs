//! Requests that this process makes to itself because somebody asked: they count as that one's, not as its own address's.

use std::{net::IpAddr, sync::LazyLock};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use subtle::ConstantTimeEq as _;
use ulid::Ulid;

/// Has an address, and a word that nobody else knows.
static HEADER: HeaderName = HeaderName::from_static("x-tollhouse-on-behalf-of");

/// Of this process alone.
static WORD: LazyLock<String> = LazyLock::new(|| format!("{}{}", Ulid::generate(), Ulid::generate()));

/// Says in a request to this host that it is made for `address`.
pub(crate) fn put(headers: &mut HeaderMap, address: IpAddr) {
    let value = HeaderValue::try_from(format!("{address} {}", *WORD)).expect("addresses and letters");
    headers.insert(HEADER.clone(), value);
}

/// Takes that out of a request: for whom it is made, if this process says so.
pub(crate) fn take(headers: &mut HeaderMap) -> Option<IpAddr> {
    let said = headers.remove(&HEADER)?;
    let (address, word) = said.to_str().ok()?.split_once(' ')?;
    bool::from(word.as_bytes().ct_eq(WORD.as_bytes())).then(|| address.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_process_says_for_whom_it_asks() {
        let address: IpAddr = "2001:db8::1".parse().unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(take(&mut headers), None);
        put(&mut headers, address);
        assert_eq!(take(&mut headers), Some(address));
        assert!(headers.is_empty(), "nobody behind is told the word");
        for said in ["127.0.0.1", "127.0.0.1 ", "127.0.0.1 01M815SNBRFK5W9N9KTE3F3SM801M815SNBRFK5W9N9KTE3F3SM8"] {
            headers.insert(HEADER.clone(), HeaderValue::from_static(said));
            assert_eq!(take(&mut headers), None, "{said}");
            assert!(headers.is_empty());
        }
    }
}
