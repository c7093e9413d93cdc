//! Anchors of headings, as GitHub makes them, so that a link works in the repository and on a page.

use std::collections::BTreeMap;

/// The anchors of one document.
#[derive(Debug, Default)]
pub struct Anchors(BTreeMap<String, usize>);

impl Anchors {
    /// Returns the anchor of the next heading of the document, without `#`. Repeated anchors are numbered.
    pub fn next(&mut self, heading: &str) -> String {
        let kept = heading.to_lowercase().chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char)).collect::<String>();
        let anchor = kept.replace(' ', "-");
        let count = self.0.entry(anchor.clone()).and_modify(|count| *count += 1).or_default();
        if *count == 0 { anchor } else { format!("{anchor}-{count}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_headings_get_numbered_anchors() {
        let anchor = |heading: &str| Anchors::default().next(heading);
        assert_eq!((anchor("409 quote_expired"), anchor("POST /ai/quote")), ("409-quote_expired".to_owned(), "post-aiquote".to_owned()));
        let mut anchors = Anchors::default();
        assert_eq!(
            ["Pay it", "Pay: it", "Other", "Pay it"].map(|heading| anchors.next(heading)),
            ["pay-it", "pay-it-1", "other", "pay-it-2"]
        );
    }
}
