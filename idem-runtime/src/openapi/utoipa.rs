//! Documents of `utoipa`: how an operation gets the mark of its handler, and which parts of it change.
//!
//! `routes!` and `#[openapi(paths(…))]` call `__path_pay::operation()`. `utoipa::path` puts the type `__path_pay` beside the
//! handler `pay` and makes it a `utoipa::Path`. The expansion gives that type a function of the same name. It takes
//! precedence, and adds the mark to what `utoipa::Path` says. Without a `utoipa::path` the name is that of a stand-in.

use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::openapi::{
    Components, OpenApi, RefOr, Response,
    content::Content,
    header::Header,
    path::{Parameter, ParameterIn, PathItem},
    schema::{AnyOfBuilder, Schema},
};
pub use utoipa::{
    Path,
    openapi::path::{HttpMethod, Operation},
};

use super::{
    marks::{self, MARK},
    patch::{self, Part, operations, patch},
    routes::{Describe, Document, sealed::Sealed},
};
use crate::model::handler_options::{HandlerMarker, HandlerOptions};

/// Lets a `utoipa::path` beside a handler mark its operation.
#[doc(hidden)]
#[macro_export]
macro_rules! __documented {
    ($path:ident $fallback:ident $handler:ident) => {
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
                $crate::__private::marked::<$handler>(<$path as $crate::__private::Path>::operation())
            }
        }
    };
}

/// The operation with the mark of the handler that `H` stands for.
#[must_use]
pub fn marked<H: HandlerMarker>(mut operation: Operation) -> Operation {
    operation.extensions.get_or_insert_default().insert(MARK.to_owned(), marks::mark::<H>());
    operation
}

impl Sealed for OpenApi {}

impl Document for OpenApi {
    fn each(&mut self, describe: &mut Describe<'_>) {
        let components = self.components.as_ref();
        for (path, item) in &mut self.paths.paths {
            for (method, operation) in all_operations(item) {
                let handler = unmarked(operation);
                if let Some(text) = describe(&method, path, handler) {
                    patch(operation, text, components);
                }
            }
        }
    }
}

/// The operations, those of OpenAPI 3.2 included.
fn all_operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let query = item.query.as_mut().map(|operation| ("QUERY", operation));
    let other = item.additional_operations.iter_mut().map(|(method, operation)| (method.as_str(), operation));
    let named = query.into_iter().chain(other);
    let named = named.filter_map(|(method, operation)| Some((method.parse().ok()?, operation)));
    operations!(item).chain(named)
}

/// Takes the mark off, and returns the options of its handler.
fn unmarked(operation: &mut Operation) -> Option<&'static HandlerOptions> {
    let extensions = operation.extensions.as_mut()?;
    let mark = extensions.remove(MARK);
    if extensions.is_empty() {
        operation.extensions = None;
    }
    marks::marked(&mark?)
}

impl<T: Clone + DeserializeOwned> Part for RefOr<T> {
    type Item = T;

    fn reference(&self) -> Option<&str> {
        match self {
            Self::Ref(reference) => Some(&reference.ref_location),
            Self::T(_) => None,
        }
    }

    fn item(&self) -> Option<&T> {
        match self {
            Self::Ref(_) => None,
            Self::T(item) => Some(item),
        }
    }

    fn item_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Ref(_) => None,
            Self::T(item) => Some(item),
        }
    }
}

impl patch::Operation for Operation {
    type Parameter = RefOr<Parameter>;
    type Response = RefOr<Response>;
    type Components = Components;

    fn parameters(&mut self) -> &mut Vec<Self::Parameter> {
        self.parameters.get_or_insert_default()
    }

    fn header_name(parameter: &Parameter) -> Option<&str> {
        (parameter.parameter_in == ParameterIn::Header).then_some(&*parameter.name)
    }

    fn responses(&mut self) -> impl Iterator<Item = &mut Self::Response> {
        self.responses.responses.values_mut()
    }

    fn response(&mut self, status: u16) -> &mut Self::Response {
        let responses = &mut self.responses.responses;
        responses.entry(status.to_string()).or_insert_with(|| RefOr::T(Response::default()))
    }

    fn shared_parameter<'c>(components: &'c Components, name: &str) -> Option<&'c Self::Parameter> {
        components.parameters.get(name)
    }

    fn shared_response<'c>(components: &'c Components, name: &str) -> Option<&'c Self::Response> {
        components.responses.get(name)
    }
}

impl patch::Response for Response {
    fn description(&mut self) -> &mut String {
        &mut self.description
    }

    fn set_header(&mut self, name: &str, header: Value) {
        if let Ok(header) = serde_json::from_value::<Header>(header) {
            self.headers.retain(|other, _| !other.eq_ignore_ascii_case(name));
            self.headers.insert(name.to_owned(), RefOr::T(header));
        }
    }

    fn add_schema(&mut self, media_type: &str, schema: Value) {
        let Ok(schema) = serde_json::from_value::<RefOr<Schema>>(schema) else { return };
        let content = self.content.entry(media_type.to_owned()).or_insert_with(|| RefOr::T(Content::default()));
        if let Some(content) = content.item_mut() {
            content.schema = Some(match content.schema.take() {
                None => schema,
                Some(theirs) => AnyOfBuilder::new().item(theirs).item(schema).into(),
            });
        }
    }
}
