//! The pages, one file each: what it asks for, and what it shows of the answer.

pub(super) mod docs;
pub(super) mod find_slip;
pub(super) mod guide;
pub(super) mod payment;
pub(super) mod receipt;
pub(super) mod tool;
pub(super) mod tools;
