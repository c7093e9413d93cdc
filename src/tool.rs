//! The nouns: what a tool is. No IO, no imports of ours but `clock` and `id`.

mod endpoint;
mod price;
mod schema;
mod slug;

pub use endpoint::{Capabilities, ContentSafety, Endpoint, Handler, HandlerType, Owner, PricingMode, Runtime, Status, Visibility};
pub use price::{MicroUsd, PriceError};
pub use schema::{Mismatch, Problem, Schema, SchemaError};
pub use slug::{Slug, SlugError};
