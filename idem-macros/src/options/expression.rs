//! `key = message.id`, `payload = message.body`: a parameter, then fields, methods and indices.
//! The name that the expression begins with says which parameter is read.

use proc_macro2::{Ident, Span};
use syn::{Expr, Result, Token, ext::IdentExt as _, parse::ParseStream, token};

use super::row::Row;

/// Something that a parameter has.
pub(crate) struct Expression {
    /// The option that says it.
    pub(crate) option: &'static Row,
    /// The name that it begins with.
    pub(crate) parameter: Ident,
    whole: Expr,
}

impl Expression {
    pub(super) fn read(option: &'static Row, input: ParseStream<'_>) -> Result<Self> {
        if !(input.peek(Ident::peek_any) || input.peek(Token![&]) || input.peek(token::Paren)) {
            return Err(option.invalid_next(input));
        }
        let mut expression: Expr = input.parse()?;
        let parameter = base(option, &mut expression)?.clone();
        Ok(Self { option, parameter, whole: expression })
    }

    /// Whether it is the parameter itself.
    pub(crate) fn is_name(&self) -> bool {
        matches!(bare(&self.whole), Expr::Path(_))
    }

    /// The expression, with `span` as the span of the name that it begins with.
    pub(crate) fn beginning_at(&self, span: Span) -> Expr {
        let mut expression = self.whole.clone();
        if let Ok(name) = base(self.option, &mut expression) {
            name.set_span(span);
        }
        expression
    }
}

/// `expression` without the group that a `macro_rules!` puts around one.
fn bare(expression: &Expr) -> &Expr {
    match expression {
        Expr::Group(group) => bare(&group.expr),
        other => other,
    }
}

/// The name that an expression of fields and method calls begins with.
fn base<'e>(option: &Row, expression: &'e mut Expr) -> Result<&'e mut Ident> {
    match expression {
        Expr::Field(field) => base(option, &mut field.base),
        Expr::MethodCall(call) => base(option, &mut call.receiver),
        Expr::Index(index) => base(option, &mut index.expr),
        Expr::Group(group) => base(option, &mut group.expr),
        Expr::Paren(paren) => base(option, &mut paren.expr),
        Expr::Reference(reference) => {
            let message = format!("`{}` is read by reference: remove the `&`", option.name);
            Err(syn::Error::new(reference.and_token.span, message))
        }
        Expr::Path(path) => {
            let refused = option.invalid_on(&*path);
            let is_name = path.qself.is_none() && path.path.get_ident().is_some();
            path.path.segments.first_mut().filter(|_| is_name).map(|segment| &mut segment.ident).ok_or(refused)
        }
        other => Err(option.invalid_on(other)),
    }
}
