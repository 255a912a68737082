//! The runtime's constant options of a handler or a consumer: a constructor, then one setter for each option given.
//! Names of setters and of enums come from the options' table.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};

use crate::{
    options::Setting,
    plan::{Constructor, Plan},
};

/// The options as a constant expression.
pub(super) fn handler_options(private: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let operation = &plan.options.operation;
    let new = match plan.options.constructor {
        Constructor::OfEvents => quote_spanned!(Span::mixed_site()=> #private::HandlerOptions::of_events(#operation)),
        Constructor::New { scope_rule } => {
            let scope_rule = Ident::new(scope_rule, Span::mixed_site());
            quote_spanned!(Span::mixed_site()=> #private::HandlerOptions::new(#operation, #private::ScopeRule::#scope_rule))
        }
    };
    let setters = plan.options.settings.iter().map(|(setter, setting)| {
        let (setter, value) = (Ident::new(setter, Span::mixed_site()), value(private, setting));
        quote_spanned!(Span::mixed_site()=> .#setter(#value))
    });
    quote_spanned!(Span::mixed_site()=> #new #(#setters)*)
}

fn value(private: &TokenStream, setting: &Setting) -> TokenStream {
    match setting {
        Setting::Flag => TokenStream::new(),
        Setting::Word { enum_name, word } => {
            let enum_name = Ident::new(enum_name, Span::mixed_site());
            let variant = Ident::new(word.variant, Span::mixed_site());
            quote_spanned!(Span::mixed_site()=> #private::#enum_name::#variant)
        }
        Setting::Number(number) => Literal::u64_unsuffixed(*number).into_token_stream(),
        Setting::Wait(milliseconds) => {
            let milliseconds = Literal::u64_unsuffixed(*milliseconds);
            quote_spanned!(Span::mixed_site()=> #private::InProgress::Wait(#private::Duration::from_millis(#milliseconds)))
        }
        Setting::Function(path) => {
            quote_spanned!(Span::mixed_site()=> #private::FingerprintRule::Custom(#path))
        }
        Setting::Methods(methods) => {
            let methods = methods.iter().map(|method| Ident::new(method, Span::mixed_site()));
            let each = methods.map(|method| quote_spanned!(Span::mixed_site()=> #private::Methods::#method));
            let all = each.reduce(|all, method| quote_spanned!(Span::mixed_site()=> #all.and(#method)));
            all.unwrap_or_default()
        }
    }
}
