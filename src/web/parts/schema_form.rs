//! Forms for a JSON Schema, and their conversion back to JSON.
//!
//! A form and its JSON are two views of the same state. A value that its field cannot hold (another
//! type, an invisible character, a field without an input) goes to a separate JSON field, so that
//! nothing is lost in either direction. Numbers keep all their digits, and empty fields are left
//! out.
//!
//! Schemas are untrusted: a large one gets a limited number of fields, and the JSON field holds the
//! rest.

mod draft;
mod fill;
mod kind;
mod layout;
mod raw;
mod view;

pub(crate) use self::{
    draft::{FormDraft, Problem},
    fill::initial,
    layout::Form,
    raw::{minified, spread},
};
