//! Tests of a complete host without a listener.

mod fuzz;
