//! Options that contradict each other, or that do not apply to this kind of function.
//! The options' table says which option applies where.

use proc_macro2::Span;

use crate::{
    errors::Errors,
    options::{Args, Effects, Permission, Setting, Value},
    plan::kind::{Kind, key_presence},
};

const SECONDS_PER_DAY: u64 = 86_400;

/// `webhook` needs a key in the event, `payload` a key in the message.
pub(super) fn key_fits_kind(args: &Args, errors: &mut Errors) {
    match (args.get("webhook"), args.get("key"), args.get("payload")) {
        (Some(webhook), None, _) if !args.mentions("key") => errors.at(
            webhook.name_span,
            "`key` is missing: write `webhook, key = event.id`, where `event` is the parameter that has the id",
        ),
        (Some(_), Some(key), _) if key_presence(args) => errors.at(
            key.value_span,
            "a webhook handler takes its key from the event: write `key = event.id`, or remove `webhook`",
        ),
        (None, None, Some(payload)) if !args.mentions("webhook") && !args.mentions("key") => errors.at(
            payload.name_span,
            "`payload` only applies to consumers, which have the key in the message: add `key = message.id`",
        ),
        _ => {}
    }
}

pub(super) fn scope_present(args: &Args, errors: &mut Errors) {
    if args.mentions("scope") {
        return;
    }
    let write = match Kind::of_options(args) {
        Some(Kind::Request) | None => "write `#[idempotent(scope = account)]`, where `account`",
        Some(Kind::Webhook) => "add `scope = provider`, where `provider`",
        Some(Kind::Consumer) => "add `scope = source`, where `source`",
    };
    let identifies = Kind::of_options(args).unwrap_or(Kind::Request).scope_noun();
    errors.at(Span::call_site(), format!("`scope` is missing: {write} is the parameter that identifies {identifies}"));
}

pub(super) fn apply_to_kind(args: &Args, kind: Option<Kind>, errors: &mut Errors) {
    let Some(kind) = kind else { return };
    for entry in args.given() {
        let refused = &entry.option.refused;
        let instead = match kind {
            Kind::Request => refused.requests,
            Kind::Webhook => refused.webhooks,
            Kind::Consumer => refused.consumers,
        };
        if let Some(instead) = instead {
            let (name, functions) = (entry.option.name, kind.plural());
            errors.at(entry.name_span, format!("`{name}` does not apply to {functions}: {instead}"));
        }
    }
}

pub(super) fn endpoint_fits_kind(args: &Args, kind: Option<Kind>, errors: &mut Errors) {
    let Some(endpoint) = args.scope().and_then(|scope| scope.endpoint.as_ref()) else { return };
    let message = match kind {
        Some(Kind::Request) | None => return,
        Some(Kind::Webhook) => {
            "`endpoint` does not apply to webhook handlers, whose keys are separate for each operation: \
             write `scope = provider`"
        }
        Some(Kind::Consumer) => "`endpoint` does not apply to consumers, which have none: write `scope = source`",
    };
    errors.on(endpoint, message);
}

pub(super) fn apply_to_effects(args: &Args, errors: &mut Errors) {
    if args.effects() != Some(Effects::Database) || Kind::of_options(args) == Some(Kind::Consumer) {
        return;
    }
    for entry in args.given() {
        if let Some(instead) = entry.option.refused.database_effects {
            let name = entry.option.name;
            errors.at(entry.name_span, format!("`{name}` does not apply to database effects: {instead}"));
        }
    }
}

/// Whether a 5xx may release its key depends on where the effects are.
pub(super) fn server_error_fits_effects(args: &Args, errors: &mut Errors) {
    if Kind::of_options(args) == Some(Kind::Consumer) {
        return;
    }
    let Some(entry) = args.get("on_server_error") else { return };
    let Value::Setting(Setting::Word { word, .. }) = &entry.value else { return };
    let message = match (args.effects(), word.written) {
        (Some(Effects::Database), "reconcile") => {
            "database effects are rolled back, so there is nothing to reconcile: write `on_server_error = release` or \
             `on_server_error = store`, or add `effects = external`"
        }
        (Some(Effects::External), "release") => {
            "an external effect may have happened before the error, so the key cannot be released: write \
             `on_server_error = reconcile` or `on_server_error = store`"
        }
        _ => return,
    };
    errors.at(entry.value_span, message);
}

/// A 4xx after a call says nothing of the call, so with external effects it cannot release its key.
pub(super) fn client_error_fits_effects(args: &Args, errors: &mut Errors) {
    let Some(entry) = args.get("on_client_error") else { return };
    let Value::Setting(Setting::Word { word, .. }) = &entry.value else { return };
    if args.effects() == Some(Effects::External) && word.written == "release" {
        errors.at(
            entry.value_span,
            "an external effect may have happened before the 4xx, so the key cannot be released: write \
             `on_client_error = store`, and respond with `Settle::NothingExecuted` where no call was made",
        );
    }
}

pub(super) fn retention_long_enough(args: &Args, errors: &mut Errors) {
    let Some(entry) = args.get("retention") else { return };
    if matches!(entry.value, Value::Setting(Setting::Number(seconds)) if seconds < SECONDS_PER_DAY)
        && !args.allows(Permission::ShortRetention)
    {
        errors.at(
            entry.value_span,
            "with a `retention` under 24 hours a late retry runs again: write `retention = \"24h\"` or longer, or add \
             `allow(short_retention)`",
        );
    }
}
