//! What an operator looks at.

pub mod database;
pub mod disk;
pub mod jail;
pub mod process;
