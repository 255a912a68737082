//! What is read off the arguments by reference, before the body takes them: the scope, a key, a payload.
//! The way there is the parameter's own pattern, reduced to one name.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, Pat, PatType, Result, ext::IdentExt as _, spanned::Spanned as _};

use crate::{
    errors::{Errors, instead},
    item::parameters::Parameters,
    item::patterns,
    item::types,
    options::args::{Expression, ScopeArg},
};

/// The way from the arguments to something that one of them has.
pub(crate) struct Reading {
    /// For each argument, its part of the pattern.
    pub(crate) patterns: Vec<Option<TokenStream>>,
    /// A reference to what is read, in terms of what the pattern binds.
    pub(crate) value: TokenStream,
    /// The name as the user's parameter binds it.
    pub(crate) name: Ident,
}

/// The parameter that `scope` names.
pub(crate) fn scope(wanted: &ScopeArg, parameters: &Parameters<'_>, errors: &mut Errors) -> Option<Reading> {
    let kind = parameters.kind;
    let name = &wanted.parameter;
    if is_lent(name, parameters) {
        let (lent, whose) = (parameters.effects.lent(), kind.whose());
        errors.on(name, format!("`{name}` is the {lent}: `scope` names the parameter that identifies {whose}"));
        return None;
    }
    let Some(owner) = owner(name, parameters) else {
        let add = format!(": add the parameter that identifies {}", kind.whose());
        errors.on(name, format!("no parameter is called `{name}`{}", or_near(name, parameters, &add)));
        return None;
    };
    let binding = Ident::new("whose", Span::mixed_site().located_at(scope_caret(owner)));
    Some(reading(name, owner, parameters, &binding, quote!(#binding)))
}

/// What `key` or `payload` begins with a parameter for.
pub(crate) fn expression(
    option: &str,
    wanted: &Expression,
    parameters: &Parameters<'_>,
    errors: &mut Errors,
) -> Option<Reading> {
    let name = &wanted.parameter;
    if is_lent(name, parameters) {
        let lent = parameters.effects.lent();
        errors.on(name, format!("`{name}` is the {lent}: `{option}` begins with the parameter that has it"));
        return None;
    }
    let Some(owner) = owner(name, parameters) else {
        let begins = if option == "key" && wanted.is_name() {
            "`key` is `optional`, `required`, or begins with a parameter".to_owned()
        } else {
            format!("`{option}` begins with a parameter")
        };
        let near = or_near(name, parameters, ": add the parameter that has it");
        errors.on(name, format!("{begins}, and no parameter is called `{name}`{near}"));
        return None;
    };
    // By its own name, for rustc's messages; but not the user's, for lints on shadowing.
    let mut expression = wanted.expression.clone();
    let binding = base(option, &mut expression).ok()?;
    binding.set_span(Span::mixed_site().located_at(binding.span()));
    let binding = binding.clone();
    let value = quote_spanned!(Span::mixed_site().located_at(expression.span())=> &#expression);
    Some(reading(name, owner, parameters, &binding, value))
}

/// The name that an expression of fields and method calls begins with.
pub(crate) fn base<'e>(option: &str, expression: &'e mut Expr) -> Result<&'e mut Ident> {
    match expression {
        Expr::Field(field) => base(option, &mut field.base),
        Expr::MethodCall(call) => base(option, &mut call.receiver),
        Expr::Index(index) => base(option, &mut index.expr),
        Expr::Group(group) => base(option, &mut group.expr),
        Expr::Paren(paren) => base(option, &mut paren.expr),
        Expr::Reference(reference) => Err(syn::Error::new(
            reference.and_token.span,
            format!("`{option}` is read by reference as it is: leave the `&` out"),
        )),
        Expr::Path(path) => {
            let refused = no_parameter(option, &*path);
            let is_name = path.qself.is_none() && path.path.get_ident().is_some();
            path.path.segments.first_mut().filter(|_| is_name).map(|segment| &mut segment.ident).ok_or(refused)
        }
        other => Err(no_parameter(option, other)),
    }
}

fn no_parameter(option: &str, written: impl ToTokens) -> syn::Error {
    let such_as = if option == "key" { "id" } else { "body" };
    let message = format!(
        "`{option}` begins with a parameter, whose fields and methods may follow: write `{option} = message.{such_as}`"
    );
    syn::Error::new_spanned(written, message)
}

fn reading(name: &Ident, owner: &PatType, parameters: &Parameters<'_>, binding: &Ident, value: TokenStream) -> Reading {
    let patterns = parameters.extractors.iter().map(|typed| patterns::only(&typed.pat, name, binding)).collect();
    let bound = patterns::names(&owner.pat).into_iter().find(|bound| bound.unraw() == name.unraw());
    Reading { patterns, value, name: bound.unwrap_or_else(|| name.clone()) }
}

fn is_lent(name: &Ident, parameters: &Parameters<'_>) -> bool {
    parameters.lent.iter().any(|lent| patterns::binds(&lent.parameter.pat, name))
}

fn owner<'p>(name: &Ident, parameters: &Parameters<'p>) -> Option<&'p PatType> {
    parameters.extractors.iter().find(|typed| patterns::binds(&typed.pat, name)).copied()
}

/// The parameters that there are, or `none`.
fn or_near(name: &Ident, parameters: &Parameters<'_>, none: &str) -> String {
    let names: Vec<_> = parameters
        .extractors
        .iter()
        .flat_map(|typed| patterns::names(&typed.pat))
        .map(|name| name.to_string())
        .collect();
    match names.as_slice() {
        [] => none.to_owned(),
        names => instead(&name.to_string(), "parameters", names),
    }
}

/// The type that has to be a `Scope`, as far as the tokens tell: `Account` in `Extension(account): Extension<Account>`.
fn scope_caret(owner: &PatType) -> Span {
    match &*owner.pat {
        Pat::TupleStruct(parts) if parts.elems.len() == 1 => {
            types::caret(types::argument(&owner.ty).unwrap_or(&owner.ty))
        }
        _ => types::caret(&owner.ty),
    }
}
