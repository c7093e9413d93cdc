//! Why a schema is refused.

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// JSON Pointer to the faulty part of the schema.
    pub pointer: String,
    /// The problem, explained to the builder.
    pub message: String,
}
