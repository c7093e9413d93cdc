//! Deceptive characters: direction controls, invisible characters, and look-alikes.

/// Returns whether it is an embedding, override or isolate of the bidirectional algorithm.
pub(super) fn is_bidi_control(char: char) -> bool {
    matches!(char, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character has no width or ink, but is not white space.
pub(super) fn is_invisible(char: char) -> bool {
    matches!(char, '\u{200B}'..='\u{200D}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' | '\u{180E}' | '\u{115F}' | '\u{1160}'
        | '\u{3164}' | '\u{FFA0}' | '\u{E0000}'..='\u{E007F}')
}

/// Returns the first position of an invisible character among ASCII ones. Such characters are
/// legitimate beside letters of other scripts and in emoji, and U+FEFF at the start of a file.
pub(super) fn hidden(text: &str) -> Option<usize> {
    let mut before = None;
    // Number of tag characters that may still follow. An emoji flag is a black flag, followed by
    // its region's name in tags.
    let mut tags_left = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let useful = |other: Option<char>| other.is_some_and(|other| !other.is_ascii() && !is_invisible(other));
        let fine = match char {
            '\u{1F3F4}' => {
                tags_left = MAX_FLAG;
                true
            }
            '\u{E0000}'..='\u{E007F}' => {
                tags_left -= 1;
                tags_left >= 0
            }
            '\u{FEFF}' if at == 0 => true,
            _ => {
                tags_left = 0;
                !is_invisible(char) || useful(before) || useful(chars.peek().map(|(_, next)| *next))
            }
        };
        if !fine {
            return Some(at);
        }
        before = Some(char);
    }
    None
}

/// Tag characters of the longest flag: six for its region, one for its end.
const MAX_FLAG: i32 = 7;

/// Returns the Latin letter that looks the same as a letter of another script or form.
fn latin_twin(char: char) -> Option<char> {
    let table = [
        ("асеорхуіјѕһԁԛԝӏ", "aceopxyijshdqwl"),
        ("АВЕКМНОРСТХУІЈЅЗ", "ABEKMHOPCTXYIJS3"),
        ("ο", "o"),
        ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
        ("օոսհյցԼՕՏ", "onuhjgLOS"),
        ("ɡɑıℓ", "gail"),
    ];
    let code = u32::from(char);
    let shifted = |from: u32, to: char| char::from_u32(u32::from(to) + (code - from));
    match code {
        0xFF21..=0xFF3A => shifted(0xFF21, 'A'),
        0xFF41..=0xFF5A => shifted(0xFF41, 'a'),
        // Mathematical letters: thirteen alphabets of 52.
        0x1D400..=0x1D6A3 => {
            let position = (code - 0x1D400) % 52;
            if position < 26 { char::from_u32(u32::from('A') + position) } else { char::from_u32(u32::from('a') + position - 26) }
        }
        _ => table.iter().find_map(|(from, to)| from.chars().position(|twin| twin == char).and_then(|position| to.chars().nth(position))),
    }
}

/// Returns the Latin name that a name with look-alike letters imitates. `None` if it has no such
/// letters, or is clearly in another script.
///
/// A name is suspicious if it mixes look-alike with Latin letters, or looks entirely Latin.
pub(super) fn looks_like(name: &str) -> Option<String> {
    if name.is_ascii() {
        return None;
    }
    let (mut seems, mut twins) = (String::with_capacity(name.len()), 0);
    for char in name.chars() {
        match latin_twin(char) {
            Some(twin) => {
                twins += 1;
                seems.push(twin);
            }
            None if char.is_ascii() => seems.push(char),
            // A Cyrillic, Greek or Armenian letter without a Latin twin: this is a word of that
            // script.
            None if matches!(u32::from(char), 0x370..=0x58F) => return None,
            None => seems.push(char),
        }
    }
    (twins > 0).then_some(seems)
}

/// Returns whether a name has ASCII letters.
pub(super) fn has_latin(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_alphabetic())
}
