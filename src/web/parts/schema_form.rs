//! A form out of a JSON schema, made on the server, and back: what was typed as the JSON that it is.
//!
//! A form and its JSON are one state. What a field cannot hold, be it another type, a character that is not seen, or a member that no
//! field is for, stands in a field of JSON beside them, so that nothing is lost on the way there and back. Numbers stay as they were
//! written, to the last digit, and what is left empty is left out.
//!
//! A schema is a stranger's: of one of any size there are so many fields, and the rest is that one field.

mod draft;
mod fill;
mod kind;
mod layout;
mod raw;
mod view;

pub(crate) use self::{
    draft::{Draft, Problem},
    fill::initial,
    layout::Form,
    raw::{minified, spread},
};
