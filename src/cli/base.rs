//! Shared by all commands that use a host: choosing the host and the identity, sending requests, printing answers, and
//! errors.

pub(crate) mod address;
pub(crate) mod answer;
pub(crate) mod changed;
pub(crate) mod client;
pub(crate) mod credentials;
pub(crate) mod dotenv;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod follow;
pub(crate) mod global;
pub(crate) mod output;
pub(crate) mod paging;
pub(crate) mod private_files;
pub(crate) mod profile;
pub(crate) mod prompt;
pub(crate) mod sanitize;
pub(crate) mod session;
pub(crate) mod sse;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod tool_state;
