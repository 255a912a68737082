//! The attribute's options: which there are, and how each is read.
//! Uses `errors` alone.

pub(crate) mod args;
pub(crate) mod units;
pub(crate) mod usage;
pub(crate) mod values;
