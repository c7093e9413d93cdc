//! The `tollhouse` binary.

fn main() {}
