//! The nouns: what a tool is. No IO, no imports of ours but `clock`, `id` and what a scan finds.

mod endpoint;
pub mod finding;
mod header;
mod price;
mod record;
mod review;
mod schema;
mod slug;

pub use endpoint::{
    Availability, Builtin, Capabilities, DecidedOn, Endpoint, EndpointState, ForeignHandler, Handler, HandlerType, Owner, PricingMode,
    Runs, Runtime, Status, Version,
};
pub use header::check_headers;
pub use price::{MicroUsd, PriceError};
pub use record::{CatalogForm, Record};
pub use review::{ContentSafety, Decided, Decision, Hold, HoldKind, Review};
pub use schema::{Mismatch, Problem, SchemaError, Shape, bound, depth, told};
pub use slug::{Slug, SlugError};
