//! The nouns: what a tool is. No IO, no imports of ours but `clock` and `id`.

mod endpoint;
mod price;
mod schema;
mod slug;

pub use endpoint::{Capabilities, CatalogForm, ContentSafety, Endpoint, Handler, HandlerType, Owner, PricingMode, Runtime, Status};
pub use price::{MicroUsd, PriceError};
pub use schema::{MAX_PROBLEMS, Mismatch, Problem, Schema, SchemaError, depth};
pub use slug::{Slug, SlugError};
