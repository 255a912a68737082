//! The attribute.
/// Entry.
#[proc_macro_attribute]
pub fn idempotent(_a: proc_macro::TokenStream, i: proc_macro::TokenStream) -> proc_macro::TokenStream {
    i
}
