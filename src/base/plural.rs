//! Formats counts and ranges in texts for people, so that one item reads as one.

use std::fmt::Display;

/// Formats a count with its regular noun: `1 entry`, `2 entries`.
pub fn plural(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    match noun.strip_suffix('y') {
        _ if count == "1" => format!("{count} {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{count} {stem}ies"),
        Some(_) | None => format!("{count} {noun}s"),
    }
}

/// Formats a range of numbers, both included: `frame 7`, `frames 7 to 9`.
pub fn plural_range(noun: &str, first: u64, last: u64) -> String {
    if first == last { format!("{noun} {first}") } else { format!("{noun}s {first} to {last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_item_reads_as_one() {
        let cases = [
            (plural(1, "tool"), "1 tool"),
            (plural(0, "tool"), "0 tools"),
            (plural(2_u64, "tool"), "2 tools"),
            (plural(1, "entry"), "1 entry"),
            (plural(3, "entry"), "3 entries"),
            (plural(11, "way"), "11 ways"),
            (plural_range("frame", 7, 7), "frame 7"),
            (plural_range("frame", 7, 9), "frames 7 to 9"),
        ];
        for (formatted, expected) in cases {
            assert_eq!(formatted, expected);
        }
    }
}
