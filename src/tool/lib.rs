//! The data model of tools. It does no I/O.

mod capability;
mod cron;
mod endpoint;
pub mod finding;
mod handler;
mod header;
mod portability;
mod price;
pub mod public_texts;
mod record;
mod request_headers;
mod request_types;
mod response;
mod review;
mod reviewed_fields;
mod runs;
mod schema;
mod slug;
mod version;

pub use capability::{Capabilities, Capability, CapabilityRow, CapabilityScope};
pub use cron::{Cron, CronError};
pub use endpoint::{ANY_PUBLIC_HOST, Availability, DecidedOn, Endpoint, EndpointState, Owner, PricingMode, SettleTime, Status};
pub use handler::{Builtin, Handler, HandlerType, Runtime};
pub use header::check_headers;
pub use portability::{PortabilityIssue, has_reserved_key, not_json, parse_json};
pub use price::{MicroUsd, PriceError, UsdChange};
pub use record::{CatalogForm, Record};
pub use request_headers::{MAX_REQUEST_HEADERS, request_header_problem};
pub use request_types::{
    BODY_FIELD, FORM, MAX_REQUEST_TYPES, add_body_field, is_json_media, listed_types, media_type, only_type, request_type_problem,
    takes_type,
};
pub use response::{StaticResponse, WithResponse};
pub use review::{ContentSafety, Hold, HoldKind, Review, ReviewAction, ReviewRecord};
pub use runs::{EndpointCode, ForeignHandler};
pub use schema::{
    Mismatch, Problem, SchemaError, Shape, TextReader, bound, check_patterns, components, depth, dropped_pattern, looks_around, nests,
    portable, standard, takes_objects, worker_schemas,
};
pub use slug::{Slug, SlugError};
pub use version::{ChangedVia, Version, VersionMaker};
