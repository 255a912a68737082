//! Every check that needs more than one option, or options and signature together. One named function for each.
//! The caret is on what the user has to change.

mod consumer;
mod names;
mod options;
mod parameters;
mod signature;

use super::{kind::Kind, roles::Roles};
use crate::{errors::Errors, item::Function, options::Args};

/// The checks of the options alone, before anything is known of the item.
pub(crate) fn options(args: &Args, errors: &mut Errors) {
    options::key_fits_kind(args, errors);
    options::scope_present(args, errors);
}

/// The checks of what all `cfg` variants of the function share.
pub(crate) fn signature(args: &Args, function: &Function, errors: &mut Errors) {
    let kind = Kind::of_options(args).unwrap_or(Kind::Request);
    signature::has_body(function, kind, errors);
    signature::qualifiers(function, kind, errors);
    signature::generics(function, kind, errors);
    signature::receiver(function, kind, errors);
}

/// The checks of one `cfg` variant.
pub(super) fn variant(args: &Args, function: &Function, roles: &Roles<'_>, errors: &mut Errors) {
    let kind = Kind::of(args, function);
    options::apply_to_kind(args, kind, errors);
    options::endpoint_fits_kind(args, kind, errors);
    parameters::one_tx_param(function, roles, errors);
    parameters::has_tx_param(function, roles, errors);
    parameters::connection_supported(roles, errors);
    parameters::no_attempt_with_database_effects(roles, errors);
    parameters::no_transaction_with_external_effects(roles, errors);
    match kind {
        Some(Kind::Request | Kind::Webhook) => {
            parameters::are_extractors(roles, errors);
            parameters::at_most_sixteen(roles, errors);
            parameters::body_last(roles, errors);
        }
        Some(Kind::Consumer) => {
            consumer::parameters(roles, errors);
            consumer::no_debug_handler(function, errors);
            consumer::return_type(function, errors);
        }
        None => {}
    }
    parameters::no_pool(args, roles, errors);
    options::apply_to_effects(args, errors);
    options::client_error_fits_effects(args, errors);
    options::server_error_fits_effects(args, errors);
    options::retention_long_enough(args, errors);
    names::operation(args, function, errors);
    names::scope(args, roles, errors);
    names::key_and_payload(args, roles, errors);
}
