//! Chance that can be repeated.

/// Numbers from a seed that is printed (splitmix64).
pub struct Random(u64);

impl Random {
    /// From the seed in `TOLLHOUSE_TEST_SEED`, to repeat a run, or a new one.
    pub fn seeded() -> Self {
        let given = std::env::var_os("TOLLHOUSE_TEST_SEED").and_then(|seed| seed.to_str()?.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        });
        println!("TOLLHOUSE_TEST_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}
