//! The value of each option, read and checked on its own.
//! Every refusal says what to write instead.

use quote::quote;
use syn::{
    Expr, Ident, LitInt, LitStr, Path, Result, Token, ext::IdentExt as _, parse::ParseStream, punctuated::Punctuated,
    token,
};

use crate::{
    errors::listed,
    options::args::{Args, Effects, Expression, RetentionArg, ScopeArg, Value},
    options::units::{BYTES, Fault, LONG, SHORT, total},
    options::usage::{LEVELS, Words, form},
    plan::access::base,
};

const LONGEST_WAIT: u64 = 3_600_000;
const LONGEST_RETENTION: u64 = 36_500 * 86_400;
const LONGEST_LEASE: u64 = 24 * 3_600_000;

/// The next token is of the wrong kind.
fn wrong_kind(name: &str, input: ParseStream<'_>) -> syn::Error {
    let wrong = input.cursor().token_tree().map_or_else(|| input.span(), |(token, _)| token.span());
    syn::Error::new(wrong, format!("not a value of `{name}`: {}", form(name)))
}

fn literal(name: &str, input: ParseStream<'_>) -> Result<LitStr> {
    if input.peek(LitStr) { input.parse() } else { Err(wrong_kind(name, input)) }
}

/// A word out of the option's own list; a number counts as one.
pub(crate) fn word(name: &'static str, input: ParseStream<'_>) -> Result<Value> {
    let Some(words) = Words::of(name) else {
        return Err(wrong_kind(name, input));
    };
    let (typed, span) = if input.peek(LitInt) {
        let number: LitInt = input.parse()?;
        (number.to_string(), number.span())
    } else if input.peek(Ident::peek_any) {
        let word = input.call(Ident::parse_any)?;
        (word.to_string(), word.span())
    } else {
        return Err(wrong_kind(name, input));
    };
    match words.variants.iter().find(|(word, _)| *word == typed) {
        Some((_, variant)) => Ok(Value::Variant { of: words.sets, variant }),
        None => Err(syn::Error::new(span, format!("not a value of `{name}`: {}", form(name)))),
    }
}

/// What `key` says.
pub(crate) enum Key {
    /// The key is in the header, and must or may be there.
    Presence(Value),
    /// The key is in an argument.
    Of(Expression),
}

pub(crate) fn key(input: ParseStream<'_>) -> Result<Key> {
    let ahead = input.fork();
    let alone = ahead.call(Ident::parse_any).is_ok_and(|word| word == "optional" || word == "required")
        && (ahead.is_empty() || ahead.peek(Token![,]));
    if alone { word("key", input).map(Key::Presence) } else { expression("key", input).map(Key::Of) }
}

/// What an argument has.
pub(crate) fn expression(name: &str, input: ParseStream<'_>) -> Result<Expression> {
    if !(input.peek(Ident::peek_any) || input.peek(Token![&]) || input.peek(token::Paren)) {
        return Err(wrong_kind(name, input));
    }
    let mut expression: Expr = input.parse()?;
    let parameter = base(name, &mut expression)?.clone();
    Ok(Expression { expression, parameter })
}

/// An option that is a word alone.
pub(crate) fn bare(name: &str, input: ParseStream<'_>) -> Result<Value> {
    if input.peek(Token![=]) || input.peek(token::Paren) {
        return Err(syn::Error::new(input.span(), format!("`{name}` takes no value: {}", form(name))));
    }
    Ok(Value::Bare)
}

pub(crate) fn effects(input: ParseStream<'_>) -> Result<Effects> {
    match word("effects", input)? {
        Value::Variant { variant: "External", .. } => Ok(Effects::External),
        _ => Ok(Effects::Database),
    }
}

pub(crate) fn scope(input: ParseStream<'_>) -> Result<ScopeArg> {
    if input.peek(token::Paren) {
        let inside;
        let parentheses = syn::parenthesized!(inside in input);
        let names = Punctuated::<Ident, Token![,]>::parse_terminated_with(&inside, Ident::parse_any)
            .map_err(|error| syn::Error::new(error.span(), format!("not a value of `scope`: {}", form("scope"))))?;
        return match (names.len(), names.first(), names.last()) {
            (2, Some(parameter), Some(endpoint)) if endpoint == "endpoint" => {
                Ok(ScopeArg { parameter: parameter.clone(), and_endpoint: true })
            }
            (2, _, Some(other)) => Err(syn::Error::new(
                other.span(),
                "the second part of `scope` is `endpoint`: write `scope = (account, endpoint)`",
            )),
            _ => Err(syn::Error::new(parentheses.span.join(), format!("not a value of `scope`: {}", form("scope")))),
        };
    }
    if !input.peek(Ident::peek_any) {
        return Err(wrong_kind("scope", input));
    }
    Ok(ScopeArg { parameter: input.call(Ident::parse_any)?, and_endpoint: false })
}

/// Whether a name can be stored as an operation.
pub(crate) fn is_operation(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(crate) fn operation(input: ParseStream<'_>) -> Result<String> {
    let name = literal("operation", input)?;
    let text = name.value();
    if is_operation(&text) {
        Ok(text)
    } else {
        Err(syn::Error::new(
            name.span(),
            "`operation` is a name of 1 to 128 visible ASCII characters, such as `operation = \"payment\"`",
        ))
    }
}

pub(crate) fn retention(input: ParseStream<'_>) -> Result<RetentionArg> {
    let literal = literal("retention", input)?;
    let refuse = |message: &str| Err(syn::Error::new(literal.span(), message));
    match total(&literal.value(), LONG).map(|milliseconds| milliseconds / 1_000) {
        Ok(0) => refuse("a `retention` of zero protects nothing: write `retention = \"24h\"` or longer"),
        Ok(seconds) if seconds <= LONGEST_RETENTION => Ok(RetentionArg { seconds, span: literal.span() }),
        Ok(_) | Err(Fault::Huge) => refuse("`retention` is at most 36500 days: write `retention = \"36500d\"` or less"),
        Err(Fault::Unreadable) => {
            refuse("`retention` is a length of time in d, h, m and s: write `\"24h\"`, `\"30d\"` or `\"1d12h\"`")
        }
    }
}

pub(crate) fn lease(input: ParseStream<'_>) -> Result<Value> {
    let literal = literal("lease", input)?;
    let refuse = |message: &str| Err(syn::Error::new(literal.span(), message));
    match total(&literal.value(), SHORT) {
        Ok(0) => refuse("a `lease` of zero has run out before the attempt begins: write `lease = \"60s\"`"),
        Ok(milliseconds) if milliseconds <= LONGEST_LEASE => Ok(Value::Number(milliseconds)),
        Ok(_) | Err(Fault::Huge) => refuse("`lease` is at most 24 hours: write `lease = \"24h\"` or less"),
        Err(Fault::Unreadable) => {
            refuse("`lease` is a length of time in h, m, ms and s: write `\"60s\"`, `\"500ms\"` or `\"1m30s\"`")
        }
    }
}

pub(crate) fn isolation(input: ParseStream<'_>) -> Result<Value> {
    let literal = literal("isolation", input)?;
    let typed = literal.value().to_ascii_lowercase();
    match LEVELS.iter().find(|(level, _)| *level == typed) {
        Some((_, variant)) => Ok(Value::Variant { of: "Isolation", variant }),
        None => Err(syn::Error::new(literal.span(), format!("not a value of `isolation`: {}", form("isolation")))),
    }
}

pub(crate) fn fingerprint(input: ParseStream<'_>) -> Result<Value> {
    if !(input.peek(Ident::peek_any) || input.peek(Token![::])) {
        return Err(wrong_kind("fingerprint", input));
    }
    let path: Path = input.parse()?;
    Ok(match path.get_ident().map(ToString::to_string).as_deref() {
        Some("bytes") => Value::Variant { of: "Fingerprint", variant: "Bytes" },
        Some("json") => Value::Variant { of: "Fingerprint", variant: "Json" },
        _ => Value::Declared(path),
    })
}

pub(crate) fn in_progress(input: ParseStream<'_>) -> Result<Value> {
    let wrong = wrong_kind("in_progress", input);
    let word = input.call(Ident::parse_any).map_err(|_| wrong.clone())?;
    if word == "reject" {
        return Ok(Value::Variant { of: "InProgress", variant: "Reject" });
    }
    if word != "wait" || !input.peek(token::Paren) {
        return Err(wrong);
    }
    let inside;
    let parentheses = syn::parenthesized!(inside in input);
    let Ok(literal) = inside.parse::<LitStr>() else {
        let span = if inside.is_empty() { parentheses.span.join() } else { inside.span() };
        return Err(syn::Error::new(span, "`wait` takes a length of time in quotes, such as `wait(\"5s\")`"));
    };
    if !inside.is_empty() {
        return Err(inside.error("`wait` takes one length of time, such as `wait(\"5s\")`"));
    }
    match total(&literal.value(), SHORT) {
        Ok(milliseconds @ 1..=LONGEST_WAIT) => Ok(Value::Wait { milliseconds }),
        Ok(0) => Err(syn::Error::new(literal.span(), "a `wait` of zero is a `reject`: write `in_progress = reject`")),
        Ok(_) | Err(Fault::Huge) => Err(syn::Error::new(literal.span(), "a `wait` is at most `\"1h\"`")),
        Err(Fault::Unreadable) => Err(syn::Error::new(
            literal.span(),
            "a `wait` is a length of time in h, m, ms and s: write `\"5s\"`, `\"250ms\"` or `\"1m30s\"`",
        )),
    }
}

pub(crate) fn max_response(input: ParseStream<'_>) -> Result<Value> {
    let (size, span) = if input.peek(LitInt) {
        let number: LitInt = input.parse()?;
        let size = if number.suffix().is_empty() {
            number.base10_parse().map_err(|_| Fault::Huge)
        } else {
            Err(Fault::Unreadable)
        };
        (size, number.span())
    } else {
        let text = literal("max_response", input)?;
        (total(&text.value(), BYTES), text.span())
    };
    match size {
        Ok(0) => Err(syn::Error::new(span, "`max_response` is at least one byte")),
        // What a 32-bit machine can count.
        Ok(bytes) if u32::try_from(bytes).is_ok() => Ok(Value::Number(bytes)),
        Ok(_) | Err(Fault::Huge) => Err(syn::Error::new(span, "`max_response` is less than 4096 MiB")),
        Err(Fault::Unreadable) => Err(syn::Error::new(
            span,
            format!(
                "`max_response` is a whole number of bytes or, in quotes, of {}: {}",
                listed(&BYTES.iter().map(|(unit, _)| unit).collect::<Vec<_>>()),
                form("max_response")
            ),
        )),
    }
}

pub(crate) fn methods(input: ParseStream<'_>) -> Result<Value> {
    if !input.peek(token::Bracket) {
        return Err(wrong_kind("methods", input));
    }
    let inside;
    let brackets = syn::bracketed!(inside in input);
    let (mut post, mut patch) = (false, false);
    while !inside.is_empty() {
        let Ok(method) = inside.call(Ident::parse_any) else {
            return Err(wrong_kind("methods", &inside));
        };
        match method.to_string().as_str() {
            "POST" if !post => post = true,
            "PATCH" if !patch => patch = true,
            twice @ ("POST" | "PATCH") => {
                return Err(syn::Error::new(method.span(), format!("`{twice}` is given twice, keep one of them")));
            }
            free @ ("GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE") => {
                return Err(syn::Error::new(
                    method.span(),
                    format!(
                        "`{free}` is idempotent by definition (RFC 9110), a key sent with it is ignored: \
                             `methods` takes `PATCH` and `POST`"
                    ),
                ));
            }
            _ => {
                return Err(syn::Error::new(method.span(), format!("not a value of `methods`: {}", form("methods"))));
            }
        }
        if !inside.is_empty() {
            inside.parse::<Token![,]>()?;
        }
    }
    let variant = match (post, patch) {
        (true, true) => "PostAndPatch",
        (true, false) => "Post",
        (false, true) => "Patch",
        (false, false) => {
            return Err(syn::Error::new(brackets.span.join(), format!("`methods` is empty: {}", form("methods"))));
        }
    };
    Ok(Value::Variant { of: "Methods", variant })
}

pub(crate) fn allow(key: &Ident, input: ParseStream<'_>, args: &mut Args) -> Result<()> {
    if !input.peek(token::Paren) {
        return Err(syn::Error::new(key.span(), format!("`allow` takes its list in parentheses: {}", form("allow"))));
    }
    let inside;
    let parentheses = syn::parenthesized!(inside in input);
    if inside.is_empty() {
        return Err(syn::Error::new(parentheses.span.join(), format!("`allow` is empty: {}", form("allow"))));
    }
    while !inside.is_empty() {
        let Ok(what) = inside.call(Ident::parse_any) else {
            return Err(wrong_kind("allow", &inside));
        };
        let given = match what.to_string().as_str() {
            "pool" => &mut args.pool_allowed,
            "short_retention" => &mut args.short_retention_allowed,
            _ => {
                return Err(syn::Error::new(what.span(), format!("not a value of `allow`: {}", form("allow"))));
            }
        };
        if std::mem::replace(given, true) {
            return Err(syn::Error::new(what.span(), format!("`{what}` is given twice, keep one of them")));
        }
        if !inside.is_empty() {
            inside.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

pub(crate) fn crate_path(input: ParseStream<'_>) -> Result<Path> {
    let Ok(path) = input.call(Path::parse_mod_style) else {
        return Err(wrong_kind("crate", input));
    };
    let first = path.segments.first().map(|segment| segment.ident.to_string());
    if path.leading_colon.is_some() || matches!(first.as_deref(), Some("crate" | "$crate")) {
        return Ok(path);
    }
    let written = quote!(#path).to_string().replace(' ', "");
    Err(syn::Error::new_spanned(
        &path,
        format!("`crate` is a path from the root: write `crate = ::{written}` or `crate = crate::{written}`"),
    ))
}
