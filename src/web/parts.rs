//! What pages are made of.

pub(super) mod code;
pub(super) mod empty;
pub(super) mod facts;
pub(super) mod link;
pub(super) mod money;
pub(super) mod pager;
pub(super) mod sample;
pub(super) mod schema;
pub(super) mod state;
pub(super) mod text;
pub(super) mod time;
pub(super) mod ways;
