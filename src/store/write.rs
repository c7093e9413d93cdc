//! The checks and writes of a commit, in bytes.

use bytes::Bytes;

use super::space::Space;

/// A condition for a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The space of the key.
    pub space: Space,
    /// The key.
    pub key: Vec<u8>,
    /// The value that must be stored, byte for byte. `None` requires that the key is absent.
    pub expected: Option<Bytes>,
}

/// A change by a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The space of the key.
    pub space: Space,
    /// The key.
    pub key: Vec<u8>,
    /// The new value. `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

impl Check {
    /// Requires that `key` has exactly this value.
    #[must_use]
    pub fn holds(space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), expected: Some(Bytes::from(value.into())) }
    }

    /// Requires that `key` is absent.
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

    /// Deletes `key` if it exists.
    #[must_use]
    pub fn delete(space: Space, key: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), value: None }
    }
}
