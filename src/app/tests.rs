//! A host put together, and asked without a listener.

mod fuzz;
