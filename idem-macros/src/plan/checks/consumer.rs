//! The user's own code calls a consumer, so it cannot have what only axum's handlers have.
//! Its return value is stored, so it must be data.

use syn::{ReturnType, Type, spanned::Spanned as _};

use super::parameters::by_mutable_reference;
use crate::{
    errors::Errors,
    item::{Function, types, types::written},
    plan::roles::Roles,
};

pub(super) fn parameters(roles: &Roles<'_>, errors: &mut Errors) {
    for ty in roles.extractor_types() {
        if roles.is_by_value(ty) {
            errors.on(ty, by_mutable_reference(ty, roles));
        } else if let Some(name) = types::of_axum(ty) {
            let message = format!(
                "`{name}` is an axum extractor, and this is a consumer: add `webhook` to make it a webhook handler"
            );
            errors.on(ty, message);
        } else if let Some(word) = types::impl_trait(ty) {
            errors.at(word.span(), "a consumer cannot be generic: write a concrete type instead of `impl …`");
        }
    }
}

pub(super) fn no_debug_handler(function: &Function, errors: &mut Errors) {
    if let Some(attribute) = function.attributes.debug.first() {
        errors.on(attribute, "`debug_handler` only applies to axum handlers, and this is a consumer: remove it");
    }
}

/// The return value is a `Result`: an `Ok` is stored, an `Err` is rolled back.
pub(super) fn return_type(function: &Function, errors: &mut Errors) {
    const EXPECTED: &str = "expected a consumer to return `Result<T, E>`";
    const OR_WEBHOOK: &str = "or add `webhook` to make it a webhook handler";
    let ReturnType::Type(_, ty) = &function.sig.output else {
        let end = function.sig.paren_token.span.close();
        errors.at(end, format!("{EXPECTED}: add `-> Result<(), sqlx::Error>`, {OR_WEBHOOK}"));
        return;
    };
    if let Some(response) = types::response(ty) {
        let message = format!("{EXPECTED}, found `{response}`: return data instead of a response, {OR_WEBHOOK}");
        errors.at(response.span(), message);
    } else if let Some(word) = types::impl_trait(ty) {
        errors.at(word.span(), "a consumer's return value is stored: write a concrete type instead of `impl …`");
    } else if types::is_plain(ty) || matches!(types::bare(ty), Type::Tuple(_) | Type::Array(_) | Type::Reference(_)) {
        let found = written(ty);
        errors
            .at(ty.span(), format!("{EXPECTED}, found `{found}`: write `Result<{found}, sqlx::Error>`, {OR_WEBHOOK}"));
    }
}
