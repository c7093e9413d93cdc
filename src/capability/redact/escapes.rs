//! JSON escapes in any text: the text without them, and where each part of it was.

use std::ops::Range;

/// Decodes the JSON escapes of a text. Returns `None` if it has no backslash.
///
/// A backslash that begins no escape stays. An escape that ends with the text before it is complete is removed. Half of
/// a surrogate pair becomes U+FFFD, which no secret is searched for.
pub(super) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    text.contains(&b'\\').then(|| decode(text, |_, _| {}))
}

/// Converts places in the decoded text to places in `text`. A place that is partly in an escape contains all of it.
pub(super) fn origins(text: &[u8], places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    if places.is_empty() {
        return places;
    }
    let mut escapes = Vec::new();
    decode(text, |source, decoded| escapes.push((source, decoded)));
    let start_of = |at: usize| match escapes[..escapes.partition_point(|(_, decoded)| decoded.start <= at)].last() {
        Some((source, decoded)) if at < decoded.end => source.start,
        Some((source, decoded)) => source.end + (at - decoded.end),
        None => at,
    };
    // An incomplete escape at the end has no characters, and belongs to what ends there.
    let begins_before = |decoded: &Range<usize>, at: usize| decoded.start < at || (decoded.is_empty() && decoded.start == at);
    let end_of = |at: usize| match escapes[..escapes.partition_point(|(_, decoded)| begins_before(decoded, at))].last() {
        Some((source, decoded)) if at <= decoded.end => source.end,
        Some((source, decoded)) => source.end + (at - decoded.end),
        None => at,
    };
    places.into_iter().map(|place| start_of(place.start)..end_of(place.end)).collect()
}

/// Returns where the escape at the end of a text begins, if more of the text can change its meaning. Otherwise returns the
/// text's length.
pub(super) fn complete_until(text: &[u8]) -> usize {
    let mut until = text.len();
    if text.contains(&b'\\') {
        decode(text, |source, _| {
            let can_continue = source.len() == 1 || text.get(source.start + 1) == Some(&b'u');
            if source.end == text.len() && can_continue {
                until = source.start;
            }
        });
    }
    until
}

/// Decodes the escapes of a text. Calls `on_escape` for each, with its place in the text and in the decoded text.
fn decode(text: &[u8], mut on_escape: impl FnMut(Range<usize>, Range<usize>)) -> Vec<u8> {
    let (mut decoded, mut done) = (Vec::with_capacity(text.len()), 0);
    while let Some(plain) = text[done..].iter().position(|byte| *byte == b'\\') {
        let at = done + plain;
        decoded.extend_from_slice(&text[done..at]);
        let start = decoded.len();
        let (length, character) = first_escape(&text[at..]);
        if let Some(character) = character {
            decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        done = at + length;
        on_escape(at..done, start..decoded.len());
    }
    decoded.extend_from_slice(&text[done..]);
    decoded
}

/// Returns the length of the escape that `text` begins with, and its character. `text` begins with a backslash.
fn first_escape(text: &[u8]) -> (usize, Option<char>) {
    let character = match text {
        [_] => return (1, None),
        [_, b'u', digits @ ..] if digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit) => return (text.len(), None),
        [_, b'u', digits @ ..] => return unicode(digits).map_or((1, Some('\\')), |(length, character)| (length, Some(character))),
        [_, itself @ (b'"' | b'\\' | b'/'), ..] => char::from(*itself),
        [_, b'b', ..] => '\u{8}',
        [_, b'f', ..] => '\u{c}',
        [_, b'n', ..] => '\n',
        [_, b'r', ..] => '\r',
        [_, b't', ..] => '\t',
        _ => return (1, Some('\\')),
    };
    (2, Some(character))
}

/// Returns the length of `\u` with these digits, or of two of them that are a surrogate pair, and its character.
fn unicode(digits: &[u8]) -> Option<(usize, char)> {
    let first = code_unit(digits)?;
    let second = digits[4..].strip_prefix(b"\\u").and_then(code_unit).unwrap_or_default();
    match char::decode_utf16([first, second]).next() {
        Some(Ok(character)) => Some((6 * character.len_utf16(), character)),
        _ => Some((6, char::REPLACEMENT_CHARACTER)),
    }
}

fn code_unit(digits: &[u8]) -> Option<u16> {
    let digit = |byte: u8| u16::try_from(char::from(byte).to_digit(16)?).ok();
    digits.get(..4)?.iter().try_fold(0_u16, |unit, byte| Some(unit * 16 + digit(*byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_other_backslashes_stay() {
        let cases = [
            (r"a\u0073\/\\\u005C\n\t\r\b\f\u00E4", "as/\\\\\n\t\r\u{8}\u{c}\u{e4}"),
            (r"\ud83d\ude00 \ud83dx \ude00 \ud83d\n", "\u{1f600} \u{fffd}x \u{fffd} \u{fffd}\n"),
            (r"C:\Users\x \u00g0 \u+123", r"C:\Users\x \u00g0 \u+123"),
            (r"cut\", "cut"),
            (r"cut\u", "cut"),
            (r"cut\u00e", "cut"),
            (r"not cut\u00x", r"not cut\u00x"),
        ];
        for (text, decoded) in cases {
            assert_eq!(unescape(text.as_bytes()).map(|text| String::from_utf8(text).unwrap()).as_deref(), Some(decoded), "{text}");
        }
        assert_eq!(unescape("no backslash \u{e4}".as_bytes()), None);
    }

    #[test]
    fn places_are_converted_to_whole_escapes() {
        let text = r"ab\u00e4c\ud83d\ude00d\u0";
        let decoded = String::from_utf8(unescape(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(decoded, "ab\u{e4}c\u{1f600}d");
        let places = vec![0..2, 1..3, 3..5, 4..7, 8..10, 4..5];
        let found: Vec<_> = origins(text.as_bytes(), places).into_iter().map(|place| &text[place]).collect();
        assert_eq!(found, ["ab", r"b\u00e4", r"\u00e4c", r"c\ud83d\ude00", r"\ud83d\ude00d\u0", "c"]);
        assert_eq!(origins(b"plain", vec![0..1, 1..3]), [0..1, 1..3]);
        assert!(origins(text.as_bytes(), Vec::new()).is_empty());
    }
}
