//! Checks and measurements for operators.

pub mod clock;
pub mod database;
pub mod disk;
pub mod finding;
pub mod jail;
pub mod machine;
pub mod modes;
pub mod process;
pub mod volume;
