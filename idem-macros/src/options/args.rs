//! The attribute's option list as `Args`: each option read once, with the span of what it says.
//! What one option alone can get wrong is found here; what two together can, in `plan`.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Expr, Ident, Path, Result, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

use crate::{
    errors::{Errors, instead, listed, meant},
    item::function::Handler,
    item::parameters::typed,
    item::patterns,
    options::usage::form,
    options::values,
    plan::kind::Kind,
};

/// Every option there is.
const OPTIONS: &[&str] = &[
    "allow",
    "crate",
    "effects",
    "fingerprint",
    "in_progress",
    "isolation",
    "key",
    "key_format",
    "lease",
    "max_response",
    "methods",
    "mismatch",
    "on_server_error",
    "operation",
    "payload",
    "replay",
    "retention",
    "scope",
    "set_cookie",
    "store_request",
    "webhook",
];

/// The options that are a word alone.
const BARE: &[&str] = &["store_request", "webhook"];

/// What the attribute says.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) krate: Option<Path>,
    /// `None` where what is said of it is not readable.
    pub(crate) kind: Option<Kind>,
    pub(crate) scope: Option<ScopeArg>,
    /// Where the key is in an argument.
    pub(crate) key: Option<Expression>,
    pub(crate) payload: Option<Expression>,
    /// `None` where it is said, and not readable: then nothing is held against it.
    pub(crate) effects: Option<Effects>,
    pub(crate) operation: Option<String>,
    pub(crate) retention: Option<RetentionArg>,
    pub(crate) settings: Vec<Setting>,
    /// The options that are given, where they are.
    pub(crate) given: Vec<(&'static str, Span)>,
    pub(crate) pool_allowed: bool,
    pub(crate) short_retention_allowed: bool,
}

/// Where the handler's effects live.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effects {
    /// All in our transaction.
    Database,
    /// Some in another system.
    External,
}

pub(crate) struct ScopeArg {
    pub(crate) parameter: Ident,
    pub(crate) and_endpoint: bool,
}

/// Something that an argument has.
pub(crate) struct Expression {
    pub(crate) expression: Expr,
    /// The name that it begins with.
    pub(crate) parameter: Ident,
}

pub(crate) struct RetentionArg {
    pub(crate) seconds: u64,
    pub(crate) span: Span,
}

/// One option that goes to the runtime's `Handler` as it is.
pub(crate) struct Setting {
    pub(crate) option: &'static str,
    pub(crate) value: Value,
    /// Where a message about it has its caret.
    pub(crate) span: Span,
}

pub(crate) enum Value {
    Variant {
        of: &'static str,
        variant: &'static str,
    },
    Declared(Path),
    Wait {
        milliseconds: u64,
    },
    Number(u64),
    /// The option is a word alone.
    Bare,
}

/// Reads the option list; its mistakes go to `errors`.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let mut seen = Vec::new();
    let read = (|input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Err(error) = option(input, &mut args, &mut seen) {
                errors.push(error);
                skip_value(input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    })
    .parse2(tokens);
    if let Err(error) = read {
        errors.push(error);
    }
    if !seen.contains(&"effects") {
        args.effects = Some(Effects::Database);
    }
    args.kind = kind(&mut args, &seen, errors);
    if args.kind == Some(Kind::Messages) && seen.contains(&"effects") {
        // Reported as misplaced.
        args.effects = None;
    }
    if !seen.contains(&"scope") {
        errors.at(Span::call_site(), missing_scope(args.kind));
    }
    args
}

fn missing_scope(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Requests) | None => {
            "`scope` is missing, it says whose keys these are: write `#[idempotent(scope = account)]`, \
             where `account` is the parameter that identifies the caller"
        }
        Some(Kind::Events) => {
            "`scope` is missing, it says whose events these are: add `scope = provider`, \
             where `provider` is the parameter that identifies the sender"
        }
        Some(Kind::Messages) => {
            "`scope` is missing, it says whose messages these are: add `scope = source`, \
             where `source` is the parameter that identifies where they come from"
        }
    }
}

/// What the options together make of the function.
fn kind(args: &mut Args, seen: &[&'static str], errors: &mut Errors) -> Option<Kind> {
    let given = |option| args.given.iter().find(|(known, _)| *known == option).map(|(_, span)| *span);
    let webhook = given("webhook");
    let presence = args.settings.iter().find(|setting| setting.option == "key").map(|setting| setting.span);
    match (webhook, &args.key, presence) {
        (Some(webhook), None, None) => {
            if !seen.contains(&"key") {
                errors.at(
                    webhook,
                    "`key` is missing, it says what identifies an event: write `webhook, key = event.id`, \
                     where `event` is the parameter that has the id",
                );
            }
            Some(Kind::Events)
        }
        (Some(_), None, Some(key)) => {
            errors.at(key, "the key of an event is in the event: write `key = event.id`, or leave `webhook` out");
            Some(Kind::Events)
        }
        (Some(_), Some(_), _) => Some(Kind::Events),
        // Not readable, or misspelt.
        (None, ..) if seen.contains(&"webhook") => None,
        (None, Some(_), _) => Some(Kind::Messages),
        (None, None, Some(_)) => Some(Kind::Requests),
        (None, None, None) if seen.contains(&"key") => None,
        (None, None, None) => match given("payload") {
            Some(payload) => {
                errors.at(
                    payload,
                    "`payload` is for consumers, which also say what identifies a message: add `key = message.id`",
                );
                None
            }
            None => Some(Kind::Requests),
        },
    }
}

/// One option with its value, up to the comma.
fn option(input: ParseStream<'_>, args: &mut Args, seen: &mut Vec<&'static str>) -> Result<()> {
    let Ok(key) = input.call(Ident::parse_any) else {
        return Err(input.error(format!("expected an option: one of {}", listed(OPTIONS))));
    };
    let typed = key.unraw().to_string();
    let Some(name) = OPTIONS.iter().find(|name| **name == typed).copied() else {
        // A misspelt `scope` is not a missing one too, nor `effects` the default.
        seen.extend(meant(&typed, OPTIONS).and_then(|near| OPTIONS.iter().find(|name| **name == near)));
        let instead = instead(&typed, "options", OPTIONS);
        return Err(syn::Error::new(key.span(), format!("unknown option `{typed}`{instead}")));
    };
    if seen.contains(&name) {
        return Err(syn::Error::new(key.span(), format!("`{name}` is given twice, keep one of them")));
    }
    seen.push(name);
    value(name, &key, input, args)?;
    args.given.push((name, key.span()));
    if input.is_empty() || input.peek(Token![,]) {
        Ok(())
    } else {
        let more = if name == "scope" && !input.peek(Ident) {
            "`scope` names a parameter: write `scope = account`, and `impl Scope` for its type".to_owned()
        } else if BARE.contains(&name) {
            format!("expected a comma after `{name}`")
        } else {
            format!("expected a comma after the value of `{name}`")
        };
        Err(input.error(more))
    }
}

fn value(name: &'static str, key: &Ident, input: ParseStream<'_>, args: &mut Args) -> Result<()> {
    if name == "allow" {
        return values::allow(key, input, args);
    }
    if BARE.contains(&name) {
        let bare = values::bare(name, input)?;
        if name != "webhook" {
            args.set(name, bare, key.span());
        }
        return Ok(());
    }
    let assigned = input.parse::<Token![=]>().is_ok();
    if !assigned || input.is_empty() || input.peek(Token![,]) {
        let message = format!("`{name}` needs a value: {}", form(name));
        return Err(syn::Error::new(key.span(), message));
    }
    let span = input.span();
    match name {
        "crate" => args.krate = Some(values::crate_path(input)?),
        "effects" => args.effects = Some(values::effects(input)?),
        "scope" => args.scope = Some(values::scope(input)?),
        "operation" => args.operation = Some(values::operation(input)?),
        "retention" => args.retention = Some(values::retention(input)?),
        "isolation" => args.set(name, values::isolation(input)?, span),
        "fingerprint" => args.set(name, values::fingerprint(input)?, span),
        "key" => match values::key(input)? {
            values::Key::Presence(presence) => args.set(name, presence, span),
            values::Key::Of(expression) => args.key = Some(expression),
        },
        "payload" => args.payload = Some(values::expression(name, input)?),
        "in_progress" => args.set(name, values::in_progress(input)?, span),
        "lease" => args.set(name, values::lease(input)?, key.span()),
        "max_response" => args.set(name, values::max_response(input)?, span),
        "methods" => args.set(name, values::methods(input)?, span),
        _ => args.set(name, values::word(name, input)?, span),
    }
    Ok(())
}

impl Expression {
    /// Whether it is the parameter itself.
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.expression, Expr::Path(_))
    }
}

impl Args {
    /// What the options make of a function with these parameters; `None` where that is not readable.
    pub(crate) fn kind_of(&self, handler: &Handler) -> Option<Kind> {
        let is_consumer = || {
            // A word that names no parameter was to be `optional` or `required`, as likely as not.
            self.payload.is_some()
                || self.key.as_ref().is_none_or(|key| {
                    !key.is_name() || typed(handler).any(|parameter| patterns::binds(&parameter.pat, &key.parameter))
                })
        };
        self.kind.filter(|kind| *kind != Kind::Messages || is_consumer())
    }

    fn set(&mut self, option: &'static str, value: Value, span: Span) {
        self.settings.push(Setting { option, value, span });
    }
}

/// Skips what is left of an option that was refused.
fn skip_value(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}
