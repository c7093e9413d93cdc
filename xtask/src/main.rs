//! `cargo xtask serve`, `test` and `bench`.

fn main() {}
