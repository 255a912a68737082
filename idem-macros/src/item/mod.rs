//! The annotated item, as far as its tokens tell.
//! Uses `errors` alone.

pub(crate) mod cfg_variants;
pub(crate) mod function;
pub(crate) mod parameters;
pub(crate) mod patterns;
pub(crate) mod types;
