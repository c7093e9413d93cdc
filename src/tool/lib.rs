//! The data model of tools. It does no I/O, and imports nothing of ours except `clock`, `exact`, `id` and the findings of scans.

#![warn(missing_docs)]

mod approved;
mod capability;
mod endpoint;
pub mod finding;
mod handler;
mod header;
mod price;
mod record;
mod response;
mod review;
mod runs;
mod schema;
mod slug;
pub mod texts;
mod unreadable;
mod version;

pub use capability::{Capabilities, Capability, CapabilityRow, Touches};
pub use endpoint::{Availability, DecidedOn, Endpoint, EndpointState, Owner, PricingMode, SettleTime, Status};
pub use handler::{Builtin, Handler, HandlerType, Runtime};
pub use header::check_headers;
pub use price::{MicroUsd, PriceError, UsdChange};
pub use record::{CatalogForm, Record};
pub use response::{StaticResponse, WithResponse};
pub use review::{ContentSafety, Decided, Decision, Hold, HoldKind, Review};
pub use runs::{ForeignHandler, Runs};
pub use schema::{
    Mismatch, Problem, SchemaError, Shape, TextReader, any_schema, bound, check_patterns, components, depth, looks_around, nests, portable,
    takes_objects, told,
};
pub use slug::{Slug, SlugError};
pub use unreadable::{Unreadable, has_reserved_key, not_json, parse_json};
pub use version::{Maker, Version, Via};
