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

pub(crate) use self::{
    address::{below, host_name, is_loopback, same_place},
    answer::{Answer, ErrorBody, bytes, cause, is_unavailable, redirected, refusal, retry_after},
    changed::{changes, pairs, short},
    client::{Client, CredentialChoice, PendingRequest, connecting},
    credentials::{CredentialFile, Credentials},
    error::{Error, Exit, Result},
    follow::{follow, is_reader_gone},
    global::{GivenValue, GlobalArgs, Role},
    output::{Output, Style, write},
    paging::{EntryAction, HistoryArgs, ListOrder, Page, PageArgs},
    private_files::without_mark,
    profile::{Config, Profile},
    prompt::{ConfirmArgs, TerminalMode},
    sanitize::{block, first, json, json_for_people, json_text_for_people, line},
    session::Session,
    table::{FactList, Table},
    text::{
        call_price, clock, dollars, endpoint_price, found_at, granted, moment, name, now, optional, price, signed_usd, usd, with_hosts,
    },
    tool_state::{Folder, State},
};
