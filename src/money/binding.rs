//! What a payment is bound to: the request that it bought.

use sha2::{Digest as _, Sha256};

use super::receipt::written;

/// Names a request by all that its payment is bound to: the tool, the method, the query and the body. The same over every
/// front, and at every time: nothing of it hangs on what the tool is, or costs, at the moment.
///
/// The query is text as it stands in the URL, since a handler reads it there: what is encoded in another way, or in another
/// order, is another request. The body is whatever form of it tells one from another; `None` where the method has none.
#[must_use]
pub fn binding(slug: &str, method: &str, query: Option<&str>, body: Option<&[u8]>) -> String {
    // None of the first three can have a line feed in it.
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
