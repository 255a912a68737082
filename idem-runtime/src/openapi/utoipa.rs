//! Documents of `utoipa`: how an operation comes by its handler's choices,
//! and how what is said is written into it.
//!
//! `routes!` and `#[openapi(paths(…))]` ask `__path_pay::operation()`, where `utoipa::path` has put the type beside the handler
//! `pay` and has made it an `utoipa::Path`. The expansion gives that type a function of the same name, which comes first,
//! and which adds the choices to what `utoipa::Path` says. Where no `utoipa::path` stands, the name is that of a stand-in.

use http::Method;
use serde_json::Value;
use utoipa::openapi::{
    Components, OpenApi, Ref, RefOr, Response,
    content::Content,
    extensions::Extensions,
    header::Header,
    path::{Parameter, ParameterIn, PathItem},
    schema::{AnyOfBuilder, Schema},
};
pub use utoipa::{
    Path,
    openapi::path::{HttpMethod, Operation},
};

use super::{
    routes::{Document, MARK, Say, sealed::Sealed},
    text::{Answer, Text},
};

/// Tells an `utoipa::path` beside a handler of its choices.
#[doc(hidden)]
#[macro_export]
macro_rules! __documented {
    ($path:ident $fallback:ident $choices:expr) => {
        mod $fallback {
            pub enum Undocumented {}
            pub use self::Undocumented as $path;
            impl $crate::__private::Path for Undocumented {
                fn methods() -> ::std::vec::Vec<$crate::__private::HttpMethod> {
                    ::std::vec::Vec::new()
                }
                fn path() -> ::std::string::String {
                    ::std::string::String::new()
                }
                fn operation() -> $crate::__private::Operation {
                    $crate::__private::Operation::new()
                }
            }
        }
        // What `utoipa::path` has put there hides this one.
        use $fallback::*;
        impl $path {
            #[doc(hidden)]
            pub fn operation() -> $crate::__private::Operation {
                $crate::__private::marked(<$path as $crate::__private::Path>::operation(), $choices)
            }
        }
    };
}

/// The operation with the choices of its handler.
#[must_use]
pub fn marked(mut operation: Operation, choices: u128) -> Operation {
    let extensions = operation.extensions.get_or_insert_with(Extensions::default);
    extensions.insert(MARK.to_owned(), Value::String(choices.to_string()));
    operation
}

impl Sealed for OpenApi {}

impl Document for OpenApi {
    fn each(&mut self, say: &mut Say<'_>) {
        let components = self.components.as_ref();
        for (path, item) in &mut self.paths.paths {
            for (method, operation) in operations(item) {
                let mark = taken(operation);
                if let Some(text) = say(&method, path, mark) {
                    write(operation, text, components);
                }
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let fixed = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::OPTIONS, &mut item.options),
        (Method::HEAD, &mut item.head),
        (Method::PATCH, &mut item.patch),
        (Method::TRACE, &mut item.trace),
    ];
    fixed.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Takes the mark off.
fn taken(operation: &mut Operation) -> Option<u128> {
    let extensions = operation.extensions.as_mut()?;
    let mark = extensions.remove(MARK);
    if extensions.is_empty() {
        operation.extensions = None;
    }
    mark?.as_str()?.parse().ok()
}

fn write(operation: &mut Operation, text: Text, components: Option<&Components>) {
    if let Some(parameter) = text.parameter.and_then(|parameter| serde_json::from_value::<Parameter>(parameter).ok()) {
        let parameters = operation.parameters.get_or_insert_default();
        parameters.retain(|other| !is_same(other, &parameter));
        parameters.push(RefOr::T(parameter));
    }
    let responses = &mut operation.responses.responses;
    if let Ok(replayed) = serde_json::from_value::<Header>(text.replayed) {
        for response in responses.values_mut() {
            if let Some(response) = inlined(response, components) {
                response.headers.insert("Idempotent-Replayed".to_owned(), RefOr::T(replayed.clone()));
            }
        }
    }
    for answer in text.answers {
        let response = responses.entry(answer.status.to_string()).or_insert_with(|| RefOr::T(Response::new("")));
        if let Some(response) = inlined(response, components) {
            add(response, answer);
        }
    }
}

fn is_same(one: &RefOr<Parameter>, other: &Parameter) -> bool {
    let RefOr::T(one) = one else { return false };
    one.parameter_in == ParameterIn::Header && one.name.eq_ignore_ascii_case(&other.name)
}

/// The response itself: one that is shared by reference is copied before anything is added.
fn inlined<'r>(response: &'r mut RefOr<Response>, components: Option<&Components>) -> Option<&'r mut Response> {
    if let RefOr::Ref(Ref { ref_location, .. }) = &*response {
        let name = ref_location.strip_prefix("#/components/responses/")?;
        let RefOr::T(shared) = components?.responses.get(name)? else { return None };
        *response = RefOr::T(shared.clone());
    }
    match response {
        RefOr::T(response) => Some(response),
        RefOr::Ref(_) => None,
    }
}

fn add(response: &mut Response, answer: Answer) {
    if !response.description.is_empty() {
        response.description.push_str("\n\n");
    }
    response.description.push_str(&answer.description);
    if let Some(Ok(header)) = answer.retry_after.map(serde_json::from_value::<Header>) {
        response.headers.insert("Retry-After".to_owned(), RefOr::T(header));
    }
    let Some(Ok(problem)) = answer.problem.map(serde_json::from_value::<RefOr<Schema>>) else { return };
    let content = response.content.entry("application/problem+json".to_owned());
    let content = content.or_insert_with(|| RefOr::T(Content::builder().build()));
    if let RefOr::T(content) = content {
        content.schema = Some(match content.schema.take() {
            None => problem,
            Some(theirs) => AnyOfBuilder::new().item(theirs).item(problem).into(),
        });
    }
}
