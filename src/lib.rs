//! Tollhouse: a host for paid JavaScript tools.
