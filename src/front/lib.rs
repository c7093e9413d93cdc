//! The code that all front ends share: callers and their limits, payments, request bodies, and API errors.

#![warn(missing_docs)]

pub mod accept;
pub(crate) mod address;
mod allowed_origins;
mod api_error;
mod auth_failures;
pub mod body;
mod caller;
mod compress;
pub mod cursor;
pub mod entry_point;
mod error_codes;
mod extractors;
mod forwarded;
mod front_services;
pub mod header_names;
mod memory_budget;
mod middleware;
mod payment;
mod places;
mod quota;
mod rate_limits;
mod serve;
mod shutdown;
mod spool;
pub mod sse;
mod stream_access;

#[cfg(any(test, feature = "testing"))]
pub use self::middleware::framed_routes;
pub use self::{
    address::{host_name, network, peer},
    api_error::{AboutBody, REQUEST, code_of},
    caller::{Caller, KnownCaller, not_suspended},
    compress::{DocumentMark, takes_gzip},
    entry_point::{FromPage, entry_point},
    extractors::{PathParams, QueryParams},
    middleware::worded,
    payment::{bearer, bought, credit, idempotency_key, offered, quote, reserved_key, settlement},
    places::Places,
    quota::{Quota, QuotaFull, QuotaShare},
};
pub use self::{
    allowed_origins::AllowedOrigins,
    api_error::ApiError,
    auth_failures::{CredentialCheck, Sender},
    caller::Authenticator,
    error_codes::{Charged, Code, CodeRow, Party},
    forwarded::{Proxies, before_a_proxy},
    front_services::FrontServices,
    memory_budget::MemoryBudget,
    middleware::{ErrorWording, ErrorWriter, ErrorWriterFactory, Fronts, HostCheck, RequestCheck},
    rate_limits::Limits,
    serve::serve,
    shutdown::Shutdown,
    spool::{Spool, SpoolRequest},
    stream_access::{RequestSession, StreamAccess},
};
