//! The attribute's options: `table` says which there are, `parse` reads them, `Args` is what they say.
//! Uses `errors` and no other folder. Checks what one option can get wrong alone; the rest is checked in `plan`.

mod args;
mod expression;
mod parse;
mod row;
mod table;
mod units;
mod usage;
mod values;

pub(crate) use self::{
    args::{Args, Effects, Permission, ScopeArg, Setting, Value},
    expression::Expression,
    parse::parse,
    values::is_operation,
};
