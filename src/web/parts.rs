//! What pages are made of.

pub(super) mod chart;
pub(super) mod code;
pub(super) mod diff;
pub(super) mod empty;
pub(super) mod facts;
pub(super) mod follow;
pub(super) mod form;
pub(super) mod happened;
mod highlight;
pub(super) mod lines;
pub(super) mod link;
pub(super) mod money;
pub(super) mod pager;
pub(super) mod places;
pub(super) mod same;
pub(super) mod sample;
pub(super) mod schema;
pub(super) mod schema_form;
pub(super) mod sign_in;
pub(super) mod since;
pub(super) mod source;
pub(super) mod state;
pub(super) mod table;
pub(super) mod tabs;
pub(super) mod text;
pub(super) mod time;
pub(super) mod ways;
