//! The attribute's option list as `Args`: each option read once, with the span of what it says.
//! What one option alone can get wrong is found here; what two together can, in `plan`.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Ident, Path, Result, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

use crate::{
    errors::{Errors, instead, listed, meant},
    forms::form,
    options,
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
    "retention",
    "scope",
    "set_cookie",
    "store_request",
];

/// What the attribute says.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) krate: Option<Path>,
    pub(crate) scope: Option<ScopeArg>,
    /// `None` where it is said, and not readable: then nothing is held against it.
    pub(crate) effects: Option<Effects>,
    pub(crate) operation: Option<String>,
    pub(crate) retention: Option<RetentionArg>,
    pub(crate) settings: Vec<Setting>,
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
    if !seen.contains(&"scope") {
        errors.at(
            Span::call_site(),
            "`scope` is missing, it says whose keys these are: write `#[idempotent(scope = account)]`, \
             where `account` is the parameter that identifies the caller",
        );
    }
    args
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
    if input.is_empty() || input.peek(Token![,]) {
        Ok(())
    } else {
        let more = if name == "scope" && !input.peek(Ident) {
            "`scope` names a parameter: write `scope = account`, and `impl Scope` for its type".to_owned()
        } else if name == "store_request" {
            format!("expected a comma after `{name}`")
        } else {
            format!("expected a comma after the value of `{name}`")
        };
        Err(input.error(more))
    }
}

fn value(name: &'static str, key: &Ident, input: ParseStream<'_>, args: &mut Args) -> Result<()> {
    if name == "allow" {
        return options::allow(key, input, args);
    }
    if name == "store_request" {
        args.set(name, options::bare(name, input)?, key.span());
        return Ok(());
    }
    let assigned = input.parse::<Token![=]>().is_ok();
    if !assigned || input.is_empty() || input.peek(Token![,]) {
        let message = format!("`{name}` needs a value: {}", form(name));
        return Err(syn::Error::new(key.span(), message));
    }
    let span = input.span();
    match name {
        "crate" => args.krate = Some(options::crate_path(input)?),
        "effects" => args.effects = Some(options::effects(input)?),
        "scope" => args.scope = Some(options::scope(input)?),
        "operation" => args.operation = Some(options::operation(input)?),
        "retention" => args.retention = Some(options::retention(input)?),
        "isolation" => args.set(name, options::isolation(input)?, span),
        "fingerprint" => args.set(name, options::fingerprint(input)?, span),
        "in_progress" => args.set(name, options::in_progress(input)?, span),
        "lease" => args.set(name, options::lease(input)?, key.span()),
        "max_response" => args.set(name, options::max_response(input)?, span),
        "methods" => args.set(name, options::methods(input)?, span),
        _ => args.set(name, options::word(name, input)?, span),
    }
    Ok(())
}

impl Args {
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
