//! What the fronts share.

pub mod cursor;
mod fault;
mod faults;

pub(crate) use self::fault::{AboutBody, Policy, REQUEST};
pub use self::{
    fault::Fault,
    faults::{Charged, Code, Party, Row},
};
