//! The process that runs one handler.

fn main() {}
