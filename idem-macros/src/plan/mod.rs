//! Options and function together: first the checks, then the `Plan`, which makes every decision.
//! Uses `options`, `item` and `errors`.

mod access;
mod checks;
mod kind;
mod roles;

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident};
use syn::{Attribute, PatType, Path, ReturnType, Type};

pub(crate) use self::{
    access::Access,
    checks::{options as check_options, signature as check_signature},
    kind::Kind,
};

use self::roles::Roles;
use crate::{
    errors::Errors,
    item::{Function, state_of, tx_param, types},
    options::{Args, ScopeArg, Setting, Value},
};

/// All that the expansion needs.
pub(crate) struct Plan<'p> {
    pub(crate) crate_path: Option<&'p Path>,
    pub(crate) function: &'p Function,
    pub(crate) body: &'p Group,
    pub(crate) options: HandlerOptions<'p>,
    /// The type behind the one `&mut`.
    pub(crate) tx_type: &'p Type,
    /// The trait of the runtime that says which effects that type stands for.
    pub(crate) effects_trait: &'static str,
    /// The parameters in the user's order.
    pub(crate) parameters: Vec<Parameter<'p>>,
    pub(crate) scope: Access,
    pub(crate) key: Key,
    pub(crate) returns: Returns<'p>,
    pub(crate) debug_copy: Option<DebugCopy<'p>>,
}

/// What the runtime's constant options of this function are made of.
pub(crate) struct HandlerOptions<'p> {
    pub(crate) operation: String,
    pub(crate) constructor: Constructor,
    /// The setters and their values, in the user's order.
    pub(crate) settings: Vec<(&'static str, &'p Setting)>,
}

pub(crate) enum Constructor {
    /// With this variant of the runtime's `ScopeRule`.
    New {
        scope_rule: &'static str,
    },
    OfEvents,
}

pub(crate) enum Parameter<'p> {
    /// The transaction or the attempt.
    Tx,
    /// An extractor; in a consumer, any other parameter.
    Extractor { ty: &'p Type, name: Ident },
}

/// Where the key is. This also says what the function becomes.
pub(crate) enum Key {
    /// In the header of a request.
    Header,
    /// In the event that a webhook handler receives.
    Event(Access),
    /// In the message that a consumer is called with.
    Message { id: Access, payload: Option<Access> },
}

/// The return type, and where the expansion may write it again.
pub(crate) enum Returns<'p> {
    Unit,
    /// Anywhere.
    Owned(&'p Type),
    /// Not where there are no parameters: it may borrow from one.
    Borrowing(&'p Type),
    /// Nowhere in a body: it contains `impl Trait`.
    Opaque(&'p Type),
}

/// The copy of a handler that axum's `debug_handler` checks.
pub(crate) struct DebugCopy<'p> {
    pub(crate) attributes: &'p [Attribute],
    /// The type of the state, if known.
    pub(crate) state: Option<TokenStream>,
}

/// The plan. `None`: `errors` says why not.
pub(crate) fn plan<'p>(args: &'p Args, function: &'p Function, errors: &mut Errors) -> Option<Plan<'p>> {
    let roles = Roles::of(args, function);
    checks::variant(args, function, &roles, errors);
    let key = key(args, function, &roles)?;
    let scope = args.scope()?;
    Some(Plan {
        crate_path: args.crate_path(),
        function,
        body: function.block()?,
        options: HandlerOptions {
            operation: operation(args, function),
            constructor: constructor(&key, scope),
            settings: settings(args),
        },
        tx_type: &roles.tx_params.first()?.reference.elem,
        effects_trait: roles.effects_trait(),
        parameters: parameters(function),
        scope: Access::scope(scope, &roles)?,
        key,
        returns: returns(&function.sig.output),
        debug_copy: debug_copy(function, &roles.extractors),
    })
}

/// The stored name: `operation`, or else the function's name.
fn operation(args: &Args, function: &Function) -> String {
    args.operation().map_or_else(|| function.name(), str::to_owned)
}

fn key(args: &Args, function: &Function, roles: &Roles<'_>) -> Option<Key> {
    let id = || Access::expression(args.key()?, roles);
    Some(match Kind::of(args, function)? {
        Kind::Request => Key::Header,
        Kind::Webhook => Key::Event(id()?),
        Kind::Consumer => {
            Key::Message { id: id()?, payload: args.payload().and_then(|it| Access::expression(it, roles)) }
        }
    })
}

fn constructor(key: &Key, scope: &ScopeArg) -> Constructor {
    match (key, &scope.endpoint) {
        (Key::Event(_), _) => Constructor::OfEvents,
        (Key::Header | Key::Message { .. }, None) => Constructor::New { scope_rule: "Account" },
        (Key::Header | Key::Message { .. }, Some(_)) => Constructor::New { scope_rule: "AccountAndEndpoint" },
    }
}

fn settings(args: &Args) -> Vec<(&'static str, &Setting)> {
    let mut settings = Vec::new();
    for entry in args.given() {
        if let (Some(setter), Value::Setting(setting)) = (entry.option.setter, &entry.value) {
            settings.push((setter, setting));
        }
    }
    settings
}

fn parameters(function: &Function) -> Vec<Parameter<'_>> {
    let name = |index| format_ident!("__argument_{index}", span = Span::mixed_site());
    function
        .typed()
        .enumerate()
        .map(|(index, typed)| match tx_param(typed) {
            Some(_) => Parameter::Tx,
            None => Parameter::Extractor { ty: &typed.ty, name: name(index) },
        })
        .collect()
}

fn returns(output: &ReturnType) -> Returns<'_> {
    match output {
        ReturnType::Default => Returns::Unit,
        ReturnType::Type(_, ty) if types::impl_trait(ty).is_some() => Returns::Opaque(ty),
        ReturnType::Type(_, ty) if types::is_owned(ty) => Returns::Owned(ty),
        ReturnType::Type(_, ty) => Returns::Borrowing(ty),
    }
}

fn debug_copy<'p>(function: &'p Function, extractors: &[&PatType]) -> Option<DebugCopy<'p>> {
    let attributes = function.attributes.debug.as_slice();
    let written = state_of(attributes.first()?);
    let mut states = extractors.iter().filter_map(|typed| types::state(&typed.ty)).map(ToTokens::to_token_stream);
    let inferred = states.next().filter(|state| states.all(|other| other.to_string() == state.to_string()));
    Some(DebugCopy { attributes, state: written.or(inferred) })
}
