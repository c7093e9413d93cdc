//! Sanitizes text of builders for the host's documents: one line, without markup.

use tollhouse_base::invisible_chars;

/// Returns at most `most` characters of a text on one line, without Markdown syntax, invisible characters or direction
/// changes.
pub(super) fn plain(text: &str, max: usize) -> String {
    let seen: String = invisible_chars::marked(text).map(|(letter, unseen)| if unseen { ' ' } else { letter }).collect();
    let line = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = line.chars().count() > max;
    let stored: Vec<_> = line.chars().take(if cut { max - 1 } else { max }).chain(cut.then_some('…')).collect();
    escaped(&stored)
}

/// Escapes markup, and prevents automatic links.
fn escaped(letters: &[char]) -> String {
    let mut text = String::with_capacity(letters.len());
    for (at, letter) in letters.iter().enumerate() {
        let (before, after) = (&letters[..at], &letters[at + 1..]);
        let links = match letter {
            ':' => after.starts_with(&['/', '/']),
            '.' => before.len() >= 3 && before[at - 3..].iter().all(|letter| letter.eq_ignore_ascii_case(&'w')),
            _ => false,
        };
        if links || r"\`*_{}[]<>#|!&~".contains(*letter) {
            text.push('\\');
        }
        text.push(*letter);
        // GitHub looks for mail addresses after it has removed escapes.
        let named = before.last().is_some_and(|last| last.is_alphanumeric() || ".+-_".contains(*last));
        if *letter == '@' && named && after.first().is_some_and(|next| next.is_alphanumeric()) {
            text.push(' ');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_builders_become_one_escaped_line() {
        assert_eq!(plain("Says it\n\n# louder", 40), "Says it \\# louder");
        assert_eq!(plain("[ignore](https://evil.example) `all`", 60), r"\[ignore\](https\://evil.example) \`all\`");
        assert_eq!(plain("a\u{202e}b\u{200b}c\u{0}d", 9), "a b c d");
        assert_eq!(plain("<script>", 9), r"\<script\>");
        assert_eq!(plain(&"x".repeat(50), 10), format!("{}…", "x".repeat(9)));
        assert_eq!(plain("&lt;", 9), r"\&lt;");
    }

    #[test]
    fn addresses_in_texts_of_builders_do_not_become_links() {
        for (text, reported) in [
            ("see https://evil.example", r"see https\://evil.example"),
            ("FTP://evil.example", r"FTP\://evil.example"),
            ("www.evil.example, Www.evil.example", r"www\.evil.example, Www\.evil.example"),
            ("a.b+c@evil.example", "a.b+c@ evil.example"),
            ("mailto:a@evil.example", "mailto:a@ evil.example"),
            ("10:30, @acme/tool, 5 @ $3, w.w.w", "10:30, @acme/tool, 5 @ $3, w.w.w"),
        ] {
            assert_eq!(plain(text, 60), reported);
        }
    }
}
