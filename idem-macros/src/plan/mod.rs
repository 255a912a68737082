//! `Args` and `Handler` together: the checks that need both, then the `Plan`.
//! After this nothing can be wrong that tokens can tell.

pub(crate) mod access;
mod checks;
pub(crate) mod kind;

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::{Attribute, PatType, Path, ReturnType, Type, Visibility, ext::IdentExt as _};

use crate::{
    errors::Errors,
    item::function::Handler,
    item::parameters::{Parameters, lent, typed},
    item::types,
    options::args::{Args, Setting},
    plan::access::Reading,
    plan::kind::Kind,
};

/// All that the expansion needs, decided.
pub(crate) struct Plan<'p> {
    pub(crate) krate: Option<&'p Path>,
    pub(crate) handler: &'p Handler,
    pub(crate) vis: &'p Visibility,
    pub(crate) body: &'p Group,
    pub(crate) operation: String,
    pub(crate) and_endpoint: bool,
    pub(crate) retention: Option<u64>,
    pub(crate) settings: &'p [Setting],
    /// The type behind the one `&mut`, and the trait that says which effects it stands for.
    pub(crate) lent: &'p Type,
    pub(crate) on: &'static str,
    /// The parameters in the user's order.
    pub(crate) parameters: Vec<Parameter<'p>>,
    pub(crate) scope: Reading,
    pub(crate) key: Key,
    pub(crate) returns: Returns<'p>,
    pub(crate) debug_copy: Option<DebugCopy<'p>>,
}

pub(crate) enum Parameter<'p> {
    Lent,
    /// An extractor; of a consumer, whatever it is called with.
    Given {
        ty: &'p Type,
        name: Ident,
    },
}

/// Where the key is, which is also what the function is.
pub(crate) enum Key {
    /// In the header of a request.
    Header,
    /// In the event that a handler is sent.
    Event(Reading),
    /// In the message that a consumer is called with.
    Message { id: Reading, payload: Option<Reading> },
}

/// What the handler returns, and whether the type can be named again.
pub(crate) enum Returns<'p> {
    Nothing,
    Named(&'p Type),
    /// With `impl Trait` in it, which may not stand in a turbofish.
    Opaque(&'p Type),
}

/// The handler as axum's `debug_handler` can check it.
pub(crate) struct DebugCopy<'p> {
    pub(crate) attributes: &'p [Attribute],
    /// The state, where it is known.
    pub(crate) state: Option<TokenStream>,
}

/// The plan, or `None` where `errors` says why not.
pub(crate) fn plan<'p>(args: &'p Args, handler: &'p Handler, errors: &mut Errors) -> Option<Plan<'p>> {
    let parameters = Parameters::of(args, handler);
    let kind = args.kind_of(handler);
    checks::options_of_this_kind(args, kind, errors);
    checks::one_lent(handler, &parameters, errors);
    checks::something_lent(handler, &parameters, errors);
    checks::connection_served(&parameters, errors);
    checks::no_attempt_with_database(&parameters, errors);
    checks::no_transaction_with_external(&parameters, errors);
    match kind {
        Some(Kind::Requests | Kind::Events) => {
            checks::no_values(&parameters, errors);
            checks::at_most_sixteen(&parameters, errors);
            checks::body_last(&parameters, errors);
        }
        Some(Kind::Messages) => {
            checks::nothing_of_axum(handler, &parameters, errors);
            checks::value_can_be_stored(handler, errors);
        }
        None => {}
    }
    checks::no_pool(args, &parameters, errors);
    checks::options_of_external(args, errors);
    checks::server_error_fits(args, errors);
    checks::retention_long_enough(args, errors);
    checks::name_can_be_stored(args, handler, errors);
    let scope = args.scope.as_ref().and_then(|wanted| access::scope(wanted, &parameters, errors));
    let key = args.key.as_ref().map(|wanted| access::expression("key", wanted, &parameters, errors));
    let payload = args.payload.as_ref().map(|wanted| access::expression("payload", wanted, &parameters, errors));
    let key = match (kind?, key) {
        (Kind::Requests, _) => Key::Header,
        (Kind::Events, key) => Key::Event(key??),
        (Kind::Messages, key) => Key::Message { id: key??, payload: payload.flatten() },
    };

    let lent = parameters.lent.first()?;
    Some(Plan {
        krate: args.krate.as_ref(),
        handler,
        vis: &handler.vis,
        body: handler.body.as_ref()?,
        operation: operation(args, handler),
        and_endpoint: args.scope.as_ref()?.and_endpoint,
        retention: args.retention.as_ref().map(|retention| retention.seconds),
        settings: &args.settings,
        lent: &lent.reference.elem,
        on: parameters.effects.on(),
        parameters: in_order(handler),
        scope: scope?,
        key,
        returns: returns(&handler.sig.output),
        debug_copy: debug_copy(handler, &parameters.extractors),
    })
}

pub(crate) fn operation(args: &Args, handler: &Handler) -> String {
    args.operation.clone().unwrap_or_else(|| handler.sig.ident.unraw().to_string())
}

fn in_order(handler: &Handler) -> Vec<Parameter<'_>> {
    let name = |index| format_ident!("argument_{index}", span = Span::mixed_site());
    typed(handler)
        .enumerate()
        .map(|(index, typed)| match lent(typed) {
            Some(_) => Parameter::Lent,
            None => Parameter::Given { ty: &typed.ty, name: name(index) },
        })
        .collect()
}

fn returns(output: &ReturnType) -> Returns<'_> {
    match output {
        ReturnType::Default => Returns::Nothing,
        ReturnType::Type(_, ty) if types::impl_trait(ty).is_some() => Returns::Opaque(ty),
        ReturnType::Type(_, ty) => Returns::Named(ty),
    }
}

fn debug_copy<'p>(handler: &'p Handler, extractors: &[&PatType]) -> Option<DebugCopy<'p>> {
    let attributes = handler.debug.as_slice();
    let written = state_written(attributes.first()?);
    let mut states = extractors.iter().filter_map(|typed| types::state(&typed.ty)).map(ToTokens::to_token_stream);
    let inferred = states.next().filter(|state| states.all(|other| other.to_string() == state.to_string()));
    Some(DebugCopy { attributes, state: written.or(inferred) })
}

/// `App` of `debug_handler(state = App)`, also inside a `cfg_attr`.
fn state_written(attribute: &Attribute) -> Option<TokenStream> {
    let tokens = attribute.meta.to_token_stream().into_iter();
    let lists = tokens.filter_map(|token| match token {
        TokenTree::Group(list) => Some(list.stream()),
        _ => None,
    });
    let list = lists.last()?;
    match list.clone().into_iter().last() {
        // `cfg_attr(p, debug_handler(…))`
        Some(TokenTree::Group(inside)) if attribute.path().is_ident("cfg_attr") => value_of_state(inside.stream()),
        _ => value_of_state(list),
    }
}

fn value_of_state(list: TokenStream) -> Option<TokenStream> {
    let mut tokens = list.into_iter();
    let is_state = matches!(tokens.next(), Some(TokenTree::Ident(word)) if word == "state");
    tokens.next().filter(|_| is_state)?;
    Some(tokens.take_while(|token| !matches!(token, TokenTree::Punct(comma) if comma.as_char() == ',')).collect())
}
