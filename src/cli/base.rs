//! What every command of the faces stands on: which host is meant and by whom, asking it, telling what it said, and why it ended.

pub(crate) mod address;
pub(crate) mod answer;
pub(crate) mod changed;
pub(crate) mod clean;
pub(crate) mod client;
pub(crate) mod credentials;
pub(crate) mod dotenv;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod folder;
pub(crate) mod follow;
pub(crate) mod global;
pub(crate) mod out;
pub(crate) mod pages;
pub(crate) mod places;
pub(crate) mod profile;
pub(crate) mod prompt;
pub(crate) mod session;
pub(crate) mod sse;
pub(crate) mod table;
pub(crate) mod words;
