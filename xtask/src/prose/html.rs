//! Finds the elements of a page whose text is read alone.

use proc_macro2::{Delimiter, TokenTree};

/// Elements whose text is read alone and begins with a capital.
const ALONE: &[&str] =
    &["h1", "h2", "h3", "h4", "p", "button", "th", "label", "legend", "summary", "title", "option", "dt", "li", "caption"];

/// Elements whose text is a heading or label, not a sentence.
const HEADINGS: &[&str] = &["h1", "h2", "h3", "h4", "th", "title", "legend", "summary", "caption", "label", "dt"];

/// The element that a block of `html!` belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) is_alone: bool,
    pub(super) is_heading: bool,
}

/// Returns the element of the block after these tokens. `None` for blocks of code and other elements.
pub(super) fn element(before: &[TokenTree]) -> Option<Element> {
    // The element's name, its classes and attributes follow the last block or void element.
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    };
    // The block of an attribute, as in `name={ "text:" (path) }`.
    if before.last().is_some_and(|last| matches!(last, TokenTree::Punct(punct) if "=#.".contains(punct.as_char()))) {
        return None;
    }
    let is_part_of_another = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if ".#=-@:".contains(punct.as_char()));
    let start = before.iter().rposition(is_end).map_or(0, |at| at + 1);
    let head = &before[start..];
    let name = head.iter().enumerate().rev().find_map(|(at, token)| {
        let TokenTree::Ident(name) = token else { return None };
        let name = name.to_string();
        let is_element = ALONE.contains(&name.as_str()) && (at == 0 || !is_part_of_another(&head[at - 1]));
        is_element.then_some((at, name))
    });
    let (at, name) = name?;
    // A control structure after the element has the block.
    let is_other = head[at + 1..].iter().any(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '@'));
    (!is_other).then(|| Element { is_alone: true, is_heading: HEADINGS.contains(&name.as_str()) })
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use proc_macro2::TokenStream;

    use super::*;

    fn of(text: &str) -> Option<Element> {
        element(&TokenStream::from_str(text).unwrap().into_iter().collect::<Vec<_>>())
    }

    #[test]
    fn elements_are_found_through_their_attributes() {
        let text = Some(Element { is_alone: true, is_heading: false });
        assert_eq!(of("p"), text);
        assert_eq!(of("div { } p.note #id class=\"a\" data-x=(value)"), text);
        assert_eq!(of("h2"), Some(Element { is_alone: true, is_heading: true }));
        assert_eq!(of("span"), None);
        assert_eq!(of("label for="), None);
        assert_eq!(of("p { } @if let Some(p) = p"), None);
        assert_eq!(of("input name=\"x\"; span.p"), None);
    }
}
