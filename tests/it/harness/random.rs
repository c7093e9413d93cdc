//! Reproducible random numbers.

/// Returns a generator with the seed in `TOLLHOUSE_TEST_SEED`, to repeat a run, or with a new one.
/// Prints the seed.
pub fn random() -> fastrand::Rng {
    let given = std::env::var_os("TOLLHOUSE_TEST_SEED").and_then(|seed| seed.to_str()?.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("TOLLHOUSE_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
