//! Links and addresses in the texts of documents.

use std::fmt::Write as _;

use super::contents::{INDEX, is_page};

/// Addresses of the host in the repository's examples.
const EXAMPLES: [&str; 3] = ["http://127.0.0.1:4020", "http://localhost:4020", "localhost:4020"];

/// Files beside the pages that the host serves.
const SERVED: [&str; 2] = ["openapi.json", "tool.d.ts"];

/// Makes links to other documents absolute, whatever folder they are in. The readme's link goes to the index instead.
/// Links to other files of the repository become plain text, because their targets are not served.
pub(super) fn absolute_links(text: &str, base: &str) -> String {
    let mut parts = text.split("](");
    let mut message = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        if target.starts_with('#') || target.contains("://") {
            _ = write!(message, "]({target})");
        } else if let Some(path) = served(target) {
            _ = write!(message, "]({base}/docs/{path})");
        } else {
            // The text ends with the words of the link.
            _ = message.rfind('[').map(|open| message.remove(open));
        }
        message += rest;
    }
    message
}

/// Returns the path below `/docs/` of a relative link's target, with its anchor.
fn served(target: &str) -> Option<String> {
    let (file, anchor) = target.find('#').map_or((target, ""), |at| target.split_at(at));
    let name = file.rsplit('/').next().unwrap_or_default();
    if SERVED.contains(&name) {
        return Some(name.to_owned());
    }
    match name.strip_suffix(".md")? {
        // The readmes of folders are not served.
        "README" if file.trim_start_matches("../") == name => Some(format!("{INDEX}.md")),
        "SECURITY" => Some(format!("security.md{anchor}")),
        page if is_page(page) => Some(format!("{page}.md{anchor}")),
        _ => None,
    }
}

/// Replaces the host's address in examples with `base`.
pub(super) fn here(text: &str, base: &str) -> String {
    let (mut reported, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((at, example)) = EXAMPLES.iter().filter_map(|example| Some((rest.find(example)?, example))).min() {
        let (before, after) = (&rest[..at], &rest[at + example.len()..]);
        reported += before;
        // A longer port number is a different address.
        reported += if after.starts_with(|next: char| next.is_ascii_digit()) { example } else { base };
        rest = after;
    }
    reported + rest
}

/// Replaces links with their text.
pub(super) fn without_links(text: &str) -> String {
    let mut message = String::new();
    for part in text.split_inclusive(')') {
        match part.rsplit_once("](") {
            Some((words, _)) => message += &words.replacen('[', "", 1),
            None => message += part,
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_absolute_and_links_out_of_the_documents_become_text() {
        let text = "[the readme](../README.md), [tiers](../../sandbox/README.md#tiers), [limits](../reference/limits.md#a), \
            [faq](faq.md), [report](../SECURITY.md#report), [b](#b), [config](../examples/haproxy.cfg) and [c](https://c.example)";
        let expected = "[the readme](https://a.example/docs/index.md), tiers, [limits](https://a.example/docs/limits.md#a), \
            [faq](https://a.example/docs/faq.md), [report](https://a.example/docs/security.md#report), [b](#b), config and [c](https://c.example)";
        assert_eq!(absolute_links(text, "https://a.example"), expected);
    }

    #[test]
    fn example_addresses_become_the_address_of_the_host() {
        let request = "`curl localhost:4020/llms.txt`, `pay.mjs http://127.0.0.1:4020/tools/echo`";
        let expected = "`curl https://a.example/b/llms.txt`, `pay.mjs https://a.example/b/tools/echo`";
        assert_eq!(here(request, "https://a.example/b"), expected);
        for base in ["http://localhost:4020", "http://127.0.0.1:4020/x", "http://127.0.0.1:40205"] {
            let expected = format!("{base}/a {base}/b {base}/c localhost:40205");
            assert_eq!(here("localhost:4020/a http://localhost:4020/b http://127.0.0.1:4020/c localhost:40205", base), expected);
        }
    }

    #[test]
    fn descriptions_have_no_links() {
        assert_eq!(without_links("see [settings.md](settings.md) first"), "see settings.md first");
    }
}
