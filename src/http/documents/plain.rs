//! Words of builders in documents of the host's: one line, of which no program makes anything but text.

use std::iter;

/// At most so many characters of a text, on one line, with nothing in it that Markdown heeds or that turns the direction of writing.
pub(super) fn plain(text: &str, most: usize) -> String {
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control() || unseen(letter)).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    let cut = line.chars().count() > most;
    let kept = line.chars().take(if cut { most - 1 } else { most });
    kept.chain(cut.then_some('…')).flat_map(|letter| escape(letter).into_iter().chain([letter])).collect()
}

/// What stands before a letter that Markdown or HTML heeds.
fn escape(letter: char) -> Option<char> {
    iter::once('\\').find(|_| r"\`*_{}[]<>#|!&~".contains(letter))
}

/// Marks that show nothing: of direction, of joining, tags.
fn unseen(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_builders_are_one_line_of_text() {
        assert_eq!(plain("Says it\n\n# louder", 40), "Says it \\# louder");
        assert_eq!(plain("[ignore](https://evil.example) `all`", 60), r"\[ignore\](https://evil.example) \`all\`");
        assert_eq!(plain("a\u{202e}b\u{200b}c\u{0}d", 9), "a b c d");
        assert_eq!(plain("<script>", 9), r"\<script\>");
        assert_eq!(plain(&"x".repeat(50), 10), format!("{}…", "x".repeat(9)));
        assert_eq!(plain("&lt;", 9), r"\&lt;");
    }
}
