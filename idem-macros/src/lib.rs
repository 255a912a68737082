//! The attribute `#[idempotent]`, which `idem-runtime` re-exports: depend on that crate, not on this one.
//! The entry and the documentation of every option; the work is in the modules.

mod args;
mod errors;
mod expand;
mod fallback;
mod handler;
mod options;
mod patterns;
mod plan;
mod types;
mod values;
mod variants;

use proc_macro2::TokenStream;
use quote::quote;

use crate::{errors::Errors, handler::Item};

/// DOCS
#[proc_macro_attribute]
pub fn idempotent(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expanded(args.into(), item.into()).into()
}

fn expanded(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = args::parse(args, &mut errors);
    let items: TokenStream = match handler::parse(item, &mut errors) {
        Item::Other(item) => item,
        Item::Named { vis, name } => {
            fallback::named(&TokenStream::new(), args.krate.as_ref(), &vis, &name, &TokenStream::new())
        }
        Item::Handler(handler) => {
            let variants = variants::variants(&handler, &mut errors);
            let sound = errors.is_empty();
            variants.iter().map(|variant| of_variant(&args, variant, sound)).collect()
        }
    };
    let errors = errors.read();
    quote!(#(#errors)* #items)
}

fn of_variant(args: &args::Args, variant: &variants::Variant, sound: bool) -> TokenStream {
    let (when, handler) = (&variant.when, &variant.handler);
    let mut errors = Errors::new();
    let plan = plan::plan(args, handler, &mut errors);
    let errors = errors.read();
    match plan {
        Some(plan) if sound && errors.is_empty() => expand::expand(when, &plan),
        _ => {
            let stub = fallback::stub(when, args.krate.as_ref(), handler);
            quote!(#(#when #errors)* #stub)
        }
    }
}
