//! Components of pages.

pub(super) mod call_snippets;
pub(super) mod calls;
pub(super) mod chart;
pub(super) mod cli_hint;
pub(super) mod code;
pub(super) mod diff;
pub(super) mod empty;
pub(super) mod event_lines;
pub(super) mod facts;
pub(super) mod follow;
pub(super) mod form;
mod highlight;
mod languages;
pub(super) mod lines;
pub(super) mod link;
pub(super) mod money;
pub(super) mod page_links;
pub(super) mod pager;
pub(super) mod sample;
pub(super) mod schema;
pub(super) mod schema_form;
pub(super) mod sign_in;
pub(super) mod source;
pub(super) mod state;
pub(super) mod table;
pub(super) mod tabs;
pub(super) mod text;
pub(super) mod time;
pub(super) mod time_range;

pub(super) use self::{
    call_snippets::SnippetParts,
    chart::{Bar, Chart},
    cli_hint::{api_section, curl_command},
    diff::{DiffNames, diff},
    empty::empty,
    follow::{FollowedList, followed},
    lines::lines,
    link::link,
    pager::{onward, pager},
    state::{state, word},
    table::{Column, table},
    tabs::Tab,
    text::{first, line, plain, words},
    time::moment,
    time_range::{MONTH, day},
};
