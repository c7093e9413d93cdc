//! What an operator looks at.

pub mod disk;
pub mod jail;
