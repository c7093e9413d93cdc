//! Finds prose in JavaScript and TypeScript: comments, and the messages of errors.

use super::{
    comments::{self, Lines},
    literal,
    passage::{Area, Passage},
};

#[path = "../../../src/base/lexer.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is also a module of `tollhouse-base`")]
mod lexer;

/// Returns the prose of a script.
pub(super) fn passages(source: &str) -> Vec<Passage> {
    let lines = Lines::new(source);
    let (mut comments, mut found) = (Vec::new(), Vec::new());
    for token in lexer::tokens(source) {
        match token.kind {
            lexer::Kind::Comment => comments.push(token.start..token.end),
            lexer::Kind::Str | lexer::Kind::Template => {
                // The quotes of Rust, so that all kinds of strings are read alike.
                let text = format!("\"{}\"", token.text(source).trim_matches(['"', '\'']));
                if literal::is_prose(&text) {
                    let mut passage = Passage::new(Area::Message);
                    literal::push(&mut passage, &text, lines.line(token.start));
                    found.push(passage);
                }
            }
            _ => {}
        }
    }
    found.extend(comments::passages(source, &comments, &lines));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_messages_are_found() {
        let source =
            "// One\n// two.\nthrow new TypeError('a name must be a string');\n/** Three. */\nconst x = `${count} calls are open`;\n";
        let found = passages(source);
        let found: Vec<_> = found.iter().map(|passage| (passage.text.as_str(), passage.line(0), passage.area)).collect();
        let expected = [
            ("a name must be a string", 3, Area::Message),
            (" calls are open", 5, Area::Message),
            ("One two.", 1, Area::Comment),
            ("Three.", 4, Area::Comment),
        ];
        assert_eq!(found, expected);
    }
}
