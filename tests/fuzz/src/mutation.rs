//! Deterministic mutations of seeds.

/// Bytes that parsers treat specially, and boundary values of numbers.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\xff",
    b"\x80",
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"/",
    b"=",
    b"%",
    b".",
    b"-",
    b"0",
    b"null",
    b"1e999",
    b"18446744073709551616",
    b"-9223372036854775808",
    b"\\ud800",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x92\xa9",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\0\0\0\0\0\0\0\0",
];

/// An endless sequence of mutations.
pub(crate) struct Mutations {
    seeds: Vec<Vec<u8>>,
    state: u64,
    max_bytes: usize,
}

impl Mutations {
    /// Creates the sequence from `seeds`, which must not be empty. `name` seeds the random numbers.
    pub(crate) fn new(name: &str, seeds: Vec<Vec<u8>>, max_bytes: usize) -> Self {
        // FNV-1a. It is not zero for any of our names, as the generator requires.
        let state = name.bytes().fold(0xcbf2_9ce4_8422_2325, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { seeds, state, max_bytes }
    }

    /// Returns a seed with one to eight changes.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let seed = self.below(self.seeds.len());
        let mut bytes = self.seeds[seed].clone();
        for _ in 0..=self.below(8) {
            self.change(&mut bytes);
        }
        bytes.truncate(self.max_bytes);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let (at, other) = (self.below(bytes.len() + 1), self.below(self.seeds.len()));
        let end = (at + self.below(32)).min(bytes.len());
        match self.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 => _ = bytes.drain(at..end),
            2 => bytes.truncate(at),
            3 => {
                let again = bytes[at..end].repeat(1 + self.below(64));
                bytes.splice(at..at, again);
            }
            4 => {
                let from = self.below(self.seeds[other].len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&self.seeds[other][from..]);
            }
            _ => {
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(at..end.min(at + word.len()), word.iter().copied());
            }
        }
        bytes.truncate(self.max_bytes);
    }

    /// Returns a number below `bound`, or 0 (xorshift64).
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 11).unwrap_or_default() % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_are_deterministic_bounded_and_distinct() {
        let all = || {
            let mut mutations = Mutations::new("one", vec![b"{\"a\":1}".to_vec(), vec![]], 64);
            (0..500).map(|_| mutations.next()).collect::<Vec<_>>()
        };
        let mut made = all();
        assert_eq!(made, all());
        assert!(made.iter().all(|bytes| bytes.len() <= 64));
        made.sort_unstable();
        made.dedup();
        assert!(made.len() > 250, "{} of 500", made.len());
    }
}
