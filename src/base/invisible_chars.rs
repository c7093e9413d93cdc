//! Finds characters that are invisible or that change how other text is displayed.

/// Returns whether a character is invisible or changes how others are displayed: control characters except white space,
/// Unicode's default ignorables (direction marks, joiners, fillers, selectors, tags), line and paragraph separators,
/// and the blank Braille pattern.
#[must_use]
pub fn is_invisible(char: char) -> bool {
    match char {
        '\t' | '\n' | '\r' => false,
        _ if char.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}' | '\u{1bca0}'..='\u{1bca3}' => true,
        '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// Returns each character of a text and whether it [is invisible](is_invisible) there. A joiner or emoji variation
/// selector after a visible character belongs to that character and does not count.
pub fn marked(text: &str) -> impl Iterator<Item = (char, bool)> + '_ {
    let mut before = Before::Other;
    text.chars().map(move |char| {
        let joins = match char {
            '\u{200c}' | '\u{200d}' => before != Before::Other,
            '\u{fe0f}' => before == Before::Seen,
            _ => false,
        };
        let unseen = is_invisible(char) && !joins;
        before = match char {
            '\u{fe0f}' if joins => Before::Coloured,
            _ if unseen || joins || char.is_ascii() || char.is_whitespace() => Before::Other,
            _ => Before::Seen,
        };
        (char, unseen)
    })
}

/// The kind of text that precedes a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A visible non-ASCII character.
    Seen,
    /// A visible non-ASCII character with an emoji variation selector.
    Coloured,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        marked(text).map(|(char, unseen)| if unseen { '.' } else { char }).collect()
    }

    #[test]
    fn invisible_characters_are_found() {
        for text in
            ["\u{0}", "\u{7f}", "\u{85}", "\u{ad}", "\u{34f}", "\u{180e}", "\u{200b}", "\u{2028}", "\u{202e}", "\u{2064}", "\u{2800}"]
        {
            assert_eq!(shown(&format!("a{text}b")), "a.b", "{text:?}");
        }
        for text in ["\u{115f}", "\u{17b4}", "\u{3164}", "\u{fe00}", "\u{feff}", "\u{ffa0}", "\u{fff3}", "\u{e0041}", "\u{e0101}"] {
            assert_eq!(shown(&format!("é{text}é")), "é.é", "{text:?}");
        }
        assert_eq!(shown("one\ttwo\r\nthree"), "one\ttwo\r\nthree");
        assert_eq!(shown("𝒳 ‖ ● é 日本語 \u{a0}|"), "𝒳 ‖ ● é 日本語 \u{a0}|");
    }

    #[test]
    fn joiners_within_letters_and_emoji_are_visible() {
        for whole in ["👩\u{200d}💻", "❤\u{fe0f}", "👁\u{fe0f}\u{200d}🗨\u{fe0f}", "می\u{200c}خواهم", "क\u{94d}\u{200d}ष"]
        {
            assert_eq!(shown(whole), whole);
        }
        assert_eq!(shown("a\u{200d}b\u{fe0f}"), "a.b.");
        assert_eq!(shown("❤\u{fe0f}\u{fe0f}é\u{200d}\u{200d}\u{200d} \u{200d}"), "❤\u{fe0f}.é\u{200d}.. .", "each once");
    }
}
