//! Reads the value of each option that is not simply one word of a list, and checks it alone.
//! A reader gets the option's row and says by it what was expected.

use quote::quote;
use syn::{
    Ident, LitInt, LitStr, Path, Result, Token, ext::IdentExt as _, parse::ParseStream, punctuated::Punctuated, token,
};

use super::{
    args::{Effects, Permission, ScopeArg, Setting, Value},
    expression::Expression,
    row::{Row, Word},
    units::{self, Fault},
};
use crate::errors::{alternatives, meant};

/// The methods that have effects: `methods` may name them.
const PROTECTABLE: &[&str; 4] = &["DELETE", "PATCH", "POST", "PUT"];
const SAFE: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

const MAX_WAIT_MILLISECONDS: u64 = 3_600_000;
const MAX_RETENTION_SECONDS: u64 = 36_500 * 86_400;
const MAX_LEASE_MILLISECONDS: u64 = 24 * 3_600_000;

fn literal(row: &Row, input: ParseStream<'_>) -> Result<LitStr> {
    if input.peek(LitStr) { input.parse() } else { Err(row.invalid_next(input)) }
}

/// One of the option's words: an identifier, a number, or a string of either case.
pub(super) fn word(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let (written, span) = if input.peek(LitInt) {
        let number: LitInt = input.parse()?;
        (number.to_string(), number.span())
    } else if input.peek(LitStr) {
        let string: LitStr = input.parse()?;
        (format!("\"{}\"", string.value().to_ascii_lowercase()), string.span())
    } else if input.peek(Ident::peek_any) {
        let word = input.call(Ident::parse_any)?;
        (word.to_string(), word.span())
    } else {
        return Err(row.invalid_next(input));
    };
    row.value_of(&written).ok_or_else(|| row.invalid(span))
}

impl Row {
    /// The value that one of the option's words is.
    fn value_of(&self, written: &str) -> Option<Value> {
        let word = self.words.iter().find(|word| word.written == written)?;
        Some(Value::Setting(Setting::Word { enum_name: self.enum_name, word }))
    }
}

pub(super) fn effects(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    Ok(Value::Effects(match word(row, input)? {
        Value::Setting(Setting::Word { word: Word { written: "external", .. }, .. }) => Effects::External,
        _ => Effects::Database,
    }))
}

/// A word, or where the key is in a message or an event.
pub(super) fn key(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let ahead = input.fork();
    let first = ahead.call(Ident::parse_any).map(|word| word.to_string()).unwrap_or_default();
    let is_alone = ahead.is_empty() || ahead.peek(Token![,]);
    match row.value_of(&first).filter(|_| is_alone) {
        Some(_) => word(row, input),
        None => Expression::read(row, input).map(Value::Key),
    }
}

pub(super) fn payload(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    Expression::read(row, input).map(Value::Payload)
}

pub(super) fn scope(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    if input.peek(token::Paren) {
        return account_and_endpoint(row, input);
    }
    if !input.peek(Ident::peek_any) {
        return Err(row.invalid_next(input));
    }
    let parameter = input.call(Ident::parse_any)?;
    // A word after it is rather an option whose comma is missing.
    if !(input.is_empty() || input.peek(Token![,]) || input.peek(Ident)) {
        return Err(input
            .error("expected a parameter's name alone: write `scope = account`, and implement `Scope` for its type"));
    }
    Ok(Value::Scope(ScopeArg { parameter, endpoint: None }))
}

fn account_and_endpoint(row: &Row, input: ParseStream<'_>) -> Result<Value> {
    let inside;
    let parentheses = syn::parenthesized!(inside in input);
    let names = Punctuated::<Ident, Token![,]>::parse_terminated_with(&inside, Ident::parse_any)
        .map_err(|error| row.invalid(error.span()))?;
    let mut names = names.into_iter();
    match (names.next(), names.next(), names.next()) {
        (Some(parameter), Some(endpoint), None) if endpoint == "endpoint" => {
            Ok(Value::Scope(ScopeArg { parameter, endpoint: Some(endpoint) }))
        }
        (_, Some(other), None) => Err(syn::Error::new(
            other.span(),
            format!("expected `endpoint`, found `{other}`: write `scope = (account, endpoint)`"),
        )),
        _ => Err(row.invalid(parentheses.span.join())),
    }
}

/// Whether a name can be stored as an operation.
pub(crate) fn is_operation(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(super) fn operation(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let name = literal(row, input)?;
    if is_operation(&name.value()) {
        return Ok(Value::Operation(name.value()));
    }
    Err(syn::Error::new(
        name.span(),
        "invalid value for `operation`: expected 1 to 128 visible ASCII characters, such as `\"payment\"`",
    ))
}

pub(super) fn retention(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let literal = literal(row, input)?;
    let refuse = |message: &str| Err(syn::Error::new(literal.span(), message));
    match units::total(&literal.value(), units::LONG).map(|milliseconds| milliseconds / 1_000) {
        Ok(0) => refuse("`retention` must be longer than zero: write `retention = \"24h\"` or longer"),
        Ok(seconds) if seconds <= MAX_RETENTION_SECONDS => Ok(Value::Setting(Setting::Number(seconds))),
        Ok(_) | Err(Fault::Huge) => refuse("`retention` is at most 36500 days: write `retention = \"36500d\"` or less"),
        Err(Fault::Unreadable) => refuse(
            "invalid duration for `retention`: expected integers with the units `d`, `h`, `m` and `s`, \
             such as `\"24h\"`, `\"30d\"` or `\"1d12h\"`",
        ),
    }
}

pub(super) fn lease(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let literal = literal(row, input)?;
    let refuse = |message: &str| Err(syn::Error::new(literal.span(), message));
    match units::total(&literal.value(), units::SHORT) {
        Ok(0) => refuse("`lease` must be longer than zero: write `lease = \"60s\"`"),
        Ok(milliseconds) if milliseconds <= MAX_LEASE_MILLISECONDS => Ok(Value::Setting(Setting::Number(milliseconds))),
        Ok(_) | Err(Fault::Huge) => refuse("`lease` is at most 24 hours: write `lease = \"24h\"` or less"),
        Err(Fault::Unreadable) => refuse(
            "invalid duration for `lease`: expected integers with the units `h`, `m`, `s` and `ms`, \
             such as `\"60s\"`, `\"500ms\"` or `\"1m30s\"`",
        ),
    }
}

pub(super) fn fingerprint(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    if !(input.peek(Ident::peek_any) || input.peek(Token![::])) {
        return Err(row.invalid_next(input));
    }
    let path: Path = input.parse()?;
    let word = path.get_ident().and_then(|name| row.value_of(&name.to_string()));
    Ok(word.unwrap_or(Value::Setting(Setting::Function(path))))
}

pub(super) fn in_progress(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let wrong = row.invalid_next(input);
    let word = input.call(Ident::parse_any).map_err(|_| wrong.clone())?;
    if let Some(value) = row.value_of(&word.to_string()) {
        return Ok(value);
    }
    if word == "wait" && input.peek(token::Paren) { wait(input) } else { Err(wrong) }
}

fn wait(input: ParseStream<'_>) -> Result<Value> {
    let inside;
    let parentheses = syn::parenthesized!(inside in input);
    let Ok(literal) = inside.parse::<LitStr>() else {
        let span = if inside.is_empty() { parentheses.span.join() } else { inside.span() };
        return Err(syn::Error::new(span, "expected a duration in quotes: write `wait(\"5s\")`"));
    };
    if !inside.is_empty() {
        return Err(inside.error("`wait` takes one duration: write `wait(\"5s\")`"));
    }
    let refuse = |message: &str| Err(syn::Error::new(literal.span(), message));
    match units::total(&literal.value(), units::SHORT) {
        Ok(milliseconds @ 1..=MAX_WAIT_MILLISECONDS) => Ok(Value::Setting(Setting::Wait(milliseconds))),
        Ok(0) => refuse("`wait` must be longer than zero: write `in_progress = reject` to respond at once"),
        Ok(_) | Err(Fault::Huge) => refuse("`wait` is at most one hour: write `wait(\"1h\")` or less"),
        Err(Fault::Unreadable) => refuse(
            "invalid duration for `wait`: expected integers with the units `h`, `m`, `s` and `ms`, \
             such as `\"5s\"`, `\"250ms\"` or `\"1m30s\"`",
        ),
    }
}

pub(super) fn max_response(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let (size, span) = if input.peek(LitInt) {
        let number: LitInt = input.parse()?;
        let size = match number.suffix() {
            "" => number.base10_parse().map_err(|_| Fault::Huge),
            _ => Err(Fault::Unreadable),
        };
        (size, number.span())
    } else {
        let text = literal(row, input)?;
        (units::total(&text.value(), units::BYTES), text.span())
    };
    let refuse = |message: &str| Err(syn::Error::new(span, message));
    match size {
        Ok(0) => refuse("`max_response` must be at least one byte: write `max_response = \"64KiB\"`"),
        // What a 32-bit machine can count.
        Ok(bytes) if u32::try_from(bytes).is_ok() => Ok(Value::Setting(Setting::Number(bytes))),
        Ok(_) | Err(Fault::Huge) => {
            refuse("`max_response` must be less than 4096 MiB: write `max_response = \"4095MiB\"` or less")
        }
        Err(Fault::Unreadable) => refuse(
            "invalid size for `max_response`: expected a number of bytes, or in quotes integers with the units \
             `B`, `KB`, `KiB`, `MB` and `MiB`, such as `\"64KiB\"`",
        ),
    }
}

pub(super) fn methods(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    if !input.peek(token::Bracket) {
        return Err(row.invalid_next(input));
    }
    let inside;
    let brackets = syn::bracketed!(inside in input);
    let methods = list(row, &inside, |method| {
        let found = method.to_string();
        if let Some(protectable) = PROTECTABLE.iter().find(|name| **name == found) {
            return Ok(*protectable);
        }
        let message = if SAFE.contains(&found.as_str()) {
            format!("`{found}` is a safe method (RFC 9110), with no effect to protect: remove it")
        } else {
            let instead = meant(&found.to_ascii_uppercase(), PROTECTABLE).map_or_else(
                || format!("expected {}", alternatives(&PROTECTABLE.map(|name| format!("`{name}`")))),
                |near| format!("did you mean `{near}`?"),
            );
            format!("invalid value for `methods`: found `{found}`, {instead}")
        };
        Err(syn::Error::new(method.span(), message))
    })?;
    if methods.is_empty() {
        Err(row.empty(brackets.span.join()))
    } else {
        Ok(Value::Setting(Setting::Methods(methods)))
    }
}

pub(super) fn allow(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let inside;
    let parentheses = syn::parenthesized!(inside in input);
    let permissions = list(row, &inside, |word| match word.to_string().as_str() {
        "pool" => Ok(Permission::Pool),
        "short_retention" => Ok(Permission::ShortRetention),
        _ => Err(row.invalid(word.span())),
    })?;
    if permissions.is_empty() { Err(row.empty(parentheses.span.join())) } else { Ok(Value::Allow(permissions)) }
}

/// The words of a list, each read by `read` and given once.
fn list<T: PartialEq>(row: &Row, inside: ParseStream<'_>, read: impl Fn(&Ident) -> Result<T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    while !inside.is_empty() {
        let Ok(word) = inside.call(Ident::parse_any) else {
            return Err(row.invalid_next(inside));
        };
        let value = read(&word)?;
        if all.contains(&value) {
            return Err(syn::Error::new(word.span(), format!("`{word}` is given twice: remove one")));
        }
        all.push(value);
        if !inside.is_empty() {
            inside.parse::<Token![,]>()?;
        }
    }
    Ok(all)
}

pub(super) fn crate_path(row: &'static Row, input: ParseStream<'_>) -> Result<Value> {
    let Ok(path) = input.call(Path::parse_mod_style) else {
        return Err(row.invalid_next(input));
    };
    let first = path.segments.first().map(|segment| segment.ident.to_string());
    if path.leading_colon.is_some() || matches!(first.as_deref(), Some("crate" | "$crate")) {
        return Ok(Value::Crate(path));
    }
    let written = quote!(#path).to_string().replace(' ', "");
    Err(syn::Error::new_spanned(
        &path,
        format!(
            "expected a path from the root, found `{written}`: write `crate = ::{written}` or `crate = crate::{written}`"
        ),
    ))
}
