//! The text of a source as tokens, in a form that patterns match.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token, or what stands between brackets.
pub(crate) enum Token {
    /// With its line.
    Word(String, usize),
    Mark(char),
    /// A literal, of whatever type, without its quotation marks.
    Text(String),
    Within(Delimiter, Vec<Token>),
}

/// The tokens of a source. A doc comment is an attribute.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, proc_macro2::LexError> {
    Ok(read(text.parse()?))
}

fn read(stream: TokenStream) -> Vec<Token> {
    let token = |tree| match tree {
        TokenTree::Ident(word) => Token::Word(word.to_string(), word.span().start().line),
        TokenTree::Punct(mark) => Token::Mark(mark.as_char()),
        TokenTree::Literal(literal) => Token::Text(literal.to_string().trim_matches('"').to_owned()),
        TokenTree::Group(group) => Token::Within(group.delimiter(), read(group.stream())),
    };
    stream.into_iter().map(token).collect()
}
