//! Names in the options, which are names of parameters.
//! Also the name of the operation, which is stored.

use crate::{
    errors::{Errors, did_you_mean},
    item::Function,
    options::{Args, Expression, is_operation},
    plan::{operation as operation_of, roles::Roles},
};

/// Without `operation` the function's name is stored, and it must be storable.
pub(super) fn operation(args: &Args, function: &Function, errors: &mut Errors) {
    if !is_operation(&operation_of(args, function)) {
        errors.on(
            &function.sig.ident,
            "expected a name of 1 to 128 visible ASCII characters, which is stored as the operation: add \
             `operation = \"…\"`",
        );
    }
}

pub(super) fn scope(args: &Args, roles: &Roles<'_>, errors: &mut Errors) {
    let Some(scope) = args.scope() else { return };
    let (name, identifies) = (&scope.parameter, roles.kind.scope_noun());
    if roles.is_tx_param(name) {
        let tx_noun = roles.tx_noun();
        errors.on(name, format!("`scope` cannot be the {tx_noun}: write the parameter that identifies {identifies}"));
    } else if roles.owner(name).is_none() {
        let end = near(&name.to_string(), roles)
            .unwrap_or_else(|| format!(": add the parameter that identifies {identifies}"));
        errors.on(name, format!("no parameter is called `{name}`{end}"));
    }
}

pub(super) fn key_and_payload(args: &Args, roles: &Roles<'_>, errors: &mut Errors) {
    for expression in [args.key(), args.payload()].into_iter().flatten() {
        begins_with_parameter(expression, roles, errors);
    }
}

fn begins_with_parameter(expression: &Expression, roles: &Roles<'_>, errors: &mut Errors) {
    let (option, name) = (expression.option.name, &expression.parameter);
    if roles.is_tx_param(name) {
        let tx_noun = roles.tx_noun();
        errors.on(name, format!("`{option}` cannot be in the {tx_noun}: begin it with the parameter that has it"));
    } else if roles.owner(name).is_none() {
        let expected = if option == "key" && expression.is_name() {
            "expected `optional`, `required` or a parameter"
        } else {
            "expected a parameter"
        };
        let end = near(&name.to_string(), roles).unwrap_or_else(|| ": add the parameter that has it".to_owned());
        errors.on(name, format!("invalid value for `{option}`: {expected}, found `{name}`{end}"));
    }
}

/// The parameter that `name` probably means, or all parameters. `None`: the function has no parameters.
fn near(name: &str, roles: &Roles<'_>) -> Option<String> {
    let names = roles.names();
    if names.is_empty() { None } else { Some(did_you_mean(name, "parameters", &names)) }
}
