//! The annotated item, read from its tokens: the function, its attributes, parameters, patterns and types.
//! Uses `errors` and no other folder: nothing here depends on the options.

mod attributes;
mod broken;
mod cfg_variants;
mod function;
mod parameters;
pub(crate) mod patterns;
pub(crate) mod types;

pub(crate) use self::{
    attributes::state_of,
    cfg_variants::{Variant, variants},
    function::{Body, Function, Item, parse},
    parameters::{Parameters, TxParam, tx_param},
};
