//! Search for similar names, to correct typing errors.

/// Maximum length of a name. No slug is longer.
const MAX: usize = 64;

/// A name for comparisons.
pub(super) struct NamePattern {
    /// For each byte, a bit mask of its positions.
    positions: [u64; 256],
    length: usize,
}

impl NamePattern {
    /// Normalizes a typed name to the characters of slugs. Returns `None` if no slug can be
    /// similar.
    pub(super) fn of(name: &str) -> Option<Self> {
        let mut letters = Vec::new();
        for letter in name.trim().bytes() {
            letters.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { b'-' });
        }
        if letters.is_empty() || letters.len() > MAX {
            return None;
        }
        let mut positions = [0; 256];
        for (position, letter) in letters.iter().enumerate() {
            positions[usize::from(*letter)] |= 1 << position;
        }
        Some(Self { positions, length: letters.len() })
    }

    /// Returns the edit distance to `slug` if it is at most a third of the name's length.
    pub(super) fn distance(&self, slug: &str) -> Option<usize> {
        let near = (self.length / 3).max(1);
        if slug.len().abs_diff(self.length) > near {
            return None;
        }
        Some(self.edits(slug.as_bytes())).filter(|distance| *distance <= near)
    }

    /// Computes the Levenshtein distance column by column. The bits of `up` and `down` say where
    /// the table rises and falls from one row to the next (Myers 1999, as formulated by Hyyrö
    /// 2003).
    fn edits(&self, text: &[u8]) -> usize {
        let (mut up, mut down, last, mut edits) = (u64::MAX, 0_u64, 1 << (self.length - 1), self.length);
        for letter in text {
            let same = self.positions[usize::from(*letter)];
            let vertical = same | down;
            let horizontal = ((same & up).wrapping_add(up) ^ up) | same;
            let (mut right, mut remaining) = (down | !(horizontal | up), up & horizontal);
            if right & last != 0 {
                edits += 1;
            } else if remaining & last != 0 {
                edits -= 1;
            }
            (right, remaining) = (right << 1 | 1, remaining << 1);
            (up, down) = (remaining | !(vertical | right), right & vertical);
        }
        edits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the same with the complete table.
    fn normalized(one: &[u8], other: &[u8]) -> usize {
        let mut row: Vec<usize> = (0..=other.len()).collect();
        for (at, letter) in one.iter().enumerate() {
            let mut before = std::mem::replace(&mut row[0], at + 1);
            for (position, against) in other.iter().enumerate() {
                let changed = before + usize::from(letter != against);
                before = row[position + 1];
                row[position + 1] = changed.min(before + 1).min(row[position] + 1);
            }
        }
        row[other.len()]
    }

    #[test]
    fn edit_distance_agrees_with_the_full_table() {
        let full = "a-name-of-as-many-letters-as-a-slug-has-and-that-is-sixty-four-x";
        let names = ["a", "ab", "text-summary", "text-sumary", "txt-summery", "summary-text", "receipt-echo-paid", &full[1..], full];
        for (one, other) in names.iter().flat_map(|one| names.map(|other| (*one, other))) {
            assert_eq!(
                NamePattern::of(one).unwrap().edits(other.as_bytes()),
                normalized(one.as_bytes(), other.as_bytes()),
                "{one} {other}"
            );
        }
        assert!(full.len() == MAX && NamePattern::of(&format!("{full}x")).is_none() && NamePattern::of(" ").is_none());
    }

    #[test]
    fn similar_names_are_within_a_third_of_the_length() {
        let near = |name: &str, slug| NamePattern::of(name).unwrap().distance(slug);
        assert_eq!(near("text-sumary", "text-summary"), Some(1));
        assert_eq!(near(" Text Summary", "text-summary"), Some(0));
        assert_eq!(near("abc", "abd"), Some(1));
        assert_eq!((near("abc", "bcd"), near("text-summary", "creator-plan"), near("text", "text-summary")), (None, None, None));
    }
}
