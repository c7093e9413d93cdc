//! The code that all front ends share: callers and their limits, payments, request bodies, and API errors.

#![warn(missing_docs)]

pub mod accept;
pub(crate) mod address;
pub mod body;
mod caller;
mod compress;
pub mod cursor;
mod failures;
mod fault;
mod faults;
mod forwarded;
mod frame;
mod intake;
mod limits;
pub mod names;
mod origins;
mod params;
mod payment;
mod places;
mod quota;
mod serve;
mod shared;
mod shutdown;
pub mod sse;
pub mod via;

#[cfg(any(test, feature = "testing"))]
pub use self::frame::framed_routes;
pub use self::{
    address::{host_name, network, peer},
    caller::{Caller, Known, not_suspended},
    compress::{Document, takes_gzip},
    fault::{AboutBody, REQUEST, code_of},
    frame::worded,
    params::{PathParams, QueryParams},
    payment::{bearer, bought, credit, offered, quote, settlement},
    places::Places,
    quota::{Full, Quota, Share},
    via::{ByPage, via},
};
pub use self::{
    caller::Callers,
    failures::{CredentialCheck, Sender},
    fault::Fault,
    faults::{Charged, Code, Party, Row},
    forwarded::{Proxies, Warning, before_a_proxy},
    frame::{Check, Door, Fronts, Teller, Told, Wording},
    intake::Intake,
    limits::Limits,
    origins::AllowedOrigins,
    serve::serve,
    shared::Shared,
    shutdown::Shutdown,
};
