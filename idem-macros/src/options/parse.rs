//! Reads the option list. What is between two commas is one option; after a mistake the next comma is looked for,
//! so that each mistake is one error and the other options are still read.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Ident, Result, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
    token,
};

use super::{
    args::{Args, Given, Setting, Value},
    row::{Form, Row},
    table::{names, row},
};
use crate::errors::{Errors, did_you_mean, listed, meant};

/// Reads the option list; its mistakes go to `errors`.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let read = (|input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Err(error) = option(input, &mut args) {
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
    args
}

/// One option with its value, up to the comma.
fn option(input: ParseStream<'_>, args: &mut Args) -> Result<()> {
    let Ok(name) = input.call(Ident::parse_any) else {
        return Err(input.error(format!("expected an option: one of {}", listed(&names()))));
    };
    let typed = name.unraw().to_string();
    let Some(option) = row(&typed) else {
        // A misspelled `scope` is not also a missing one, nor is a misspelled `effects` the default.
        if let Some(near) = meant(&typed, &names()).and_then(row) {
            args.mention(near.name);
        }
        let instead = did_you_mean(&typed, "options", &names());
        return Err(syn::Error::new(name.span(), format!("unknown option `{typed}`{instead}")));
    };
    if args.mentions(option.name) {
        return Err(syn::Error::new(name.span(), format!("`{typed}` is given twice: remove one")));
    }
    args.mention(option.name);
    let (value, value_span) = value(option, name.span(), input)?;
    args.give(Given { option, value, name_span: name.span(), value_span });
    if input.is_empty() || input.peek(Token![,]) { Ok(()) } else { Err(option.no_comma(input)) }
}

/// The value of `option`, whose name stands at `name`, and where the value begins.
fn value(option: &'static Row, name: Span, input: ParseStream<'_>) -> Result<(Value, Span)> {
    match option.form {
        Form::Flag if input.peek(Token![=]) || input.peek(token::Paren) => Err(option.takes_no_value(input.span())),
        Form::Flag => Ok((Value::Setting(Setting::Flag), name)),
        Form::List(read) if input.peek(token::Paren) => {
            let span = input.span();
            Ok((read(option, input)?, span))
        }
        Form::List(_) => Err(option.missing(name)),
        Form::Value(read) => {
            let assigned = input.parse::<Token![=]>().is_ok();
            if !assigned || input.is_empty() || input.peek(Token![,]) {
                return Err(option.missing(name));
            }
            let span = input.span();
            Ok((read(option, input)?, span))
        }
    }
}

/// Skips the rest of an option that was refused.
fn skip_value(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}
