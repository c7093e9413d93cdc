//! Parses a source into tokens, in a form for pattern matching.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token, or a bracketed group of tokens.
pub(crate) enum Token {
    /// The word and its line.
    Word(String, usize),
    Mark(char),
    /// A literal of any type, without its quotation marks.
    Text(String),
    Within(Delimiter, Vec<Token>),
}

/// Returns the tokens of a source. A doc comment is an attribute.
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
