//! Binds a payment to the request that it paid for.

use sha2::{Digest as _, Sha256};

use super::receipt::written;

/// Returns the hash of the request that a payment is bound to: tool, method, query and body. It is the same over every
/// entry point and at any time, because it does not depend on the tool's current state or price.
///
/// The query is the text of the URL, since handlers read it there: another encoding or order is another request. The
/// body may be in any form that distinguishes bodies; it is `None` if the method has none.
pub fn binding(slug: &str, method: &str, query: Option<&str>, body: Option<&[u8]>) -> String {
    // None of the first three can contain a line feed.
    let mut hash = Sha256::new().chain_update(slug).chain_update(b"\n").chain_update(method).chain_update(b"\n");
    if let Some(query) = query {
        hash = hash.chain_update(b"?").chain_update(query);
    }
    if let Some(body) = body {
        hash = hash.chain_update(b"\n").chain_update(body);
    }
    written(hash)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn requests_that_differ_in_anything_have_bindings_of_their_own() {
        let bindings = [
            binding("a", "POST", None, Some(b"{}")),
            binding("b", "POST", None, Some(b"{}")),
            binding("a", "GET", None, Some(b"{}")),
            binding("a", "POST", Some(""), Some(b"{}")),
            binding("a", "POST", Some("x=1"), Some(b"{}")),
            binding("a", "POST", Some("x=1"), None),
            binding("a", "POST", None, Some(b"x=1")),
            binding("a", "POST", None, Some(b"")),
            binding("a", "POST", None, None),
        ];
        assert_eq!(HashSet::from(bindings.clone()).len(), bindings.len());
        assert_eq!(binding("a", "POST", Some("x=1"), None), bindings[5]);
    }
}
