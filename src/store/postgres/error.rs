//! Errors of opening a store in a database.

use std::path::PathBuf;

use tokio_rustls::rustls::{self, pki_types::pem};

use crate::StoreError;

/// Why a store in a database could not be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each error message describes its variant")]
pub enum OpenError {
    #[error("the store's address must have the form `postgres://user@host:5432/database`")]
    Scheme,
    #[error("the store's address is malformed")]
    Address(#[source] tokio_postgres::Error),
    #[error("`sslmode={0}` is not valid; use disable, prefer, require or verify-full")]
    Mode(String),
    #[error("the certificates in `{path}` cannot be read")]
    Roots {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("TLS to the database cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("cannot connect to the database")]
    Connect(#[source] tokio_postgres::Error),
    #[error("cannot connect to the database within {0} s")]
    Slow(u64),
    #[error("the database rejects what the store needs; its user needs the rights to create tables and functions")]
    Refused(#[source] tokio_postgres::Error),
    #[error("the store in the database has version {found}, but this host supports {known}: start a host of that version")]
    Newer { found: i32, known: i32 },
    #[error("the sizes of spaces cannot be read")]
    Sizes(#[source] StoreError),
}
