//! What a commit checks, and what it writes, in bytes.

use bytes::Bytes;

use super::space::Space;

/// What must hold for a commit to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Where the key is.
    pub space: Space,
    /// The key.
    pub key: Vec<u8>,
    /// The value that must be there, byte for byte; `None` wants the key absent.
    pub expected: Option<Bytes>,
}

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Where the key is.
    pub space: Space,
    /// The key.
    pub key: Vec<u8>,
    /// `None` deletes.
    pub value: Option<Vec<u8>>,
}

impl Check {
    /// Wants `key` to hold exactly `value`.
    #[must_use]
    pub fn holds(space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), expected: Some(Bytes::from(value.into())) }
    }

    /// Wants `key` to be absent.
    #[must_use]
    pub fn absent(space: Space, key: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), expected: None }
    }
}

impl Write {
    /// Puts `value` at `key`.
    #[must_use]
    pub fn put(space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), value: Some(value.into()) }
    }

    /// Takes `key` away, if it is there.
    #[must_use]
    pub fn delete(space: Space, key: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), value: None }
    }
}
