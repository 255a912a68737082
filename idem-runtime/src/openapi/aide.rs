//! Documents of `aide`: an annotated handler goes into `api_route` as any other, if aide can describe its extractors and
//! what it returns. aide reads them off the handler's argument, `Call`.

use aide::{
    OperationInput, OperationOutput,
    generate::GenContext,
    openapi::{Components, Header, OpenApi, Operation, Parameter, ReferenceOr, Response, SchemaObject, StatusCode},
};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Unnamed,
    marks::{MARK, mark, marked},
    patch::{self, Part, operations, patch},
    routes::{Describe, Document, sealed::Sealed},
};
use crate::{
    http::{call::Call, effects::Effects},
    model::handler_options::HandlerMarker,
};

impl<E, T, R, H> OperationInput for Call<E, T, R, H>
where
    E: Effects,
    T: OperationInput,
    R: OperationOutput,
    H: HandlerMarker,
{
    fn operation_input(ctx: &mut GenContext, operation: &mut Operation) {
        T::operation_input(ctx, operation);
        operation.extensions.insert(MARK.to_owned(), mark::<H>());
    }

    /// What the handler returns, and what its extractors do: to aide the handler itself returns nothing but a response.
    fn inferred_early_responses(ctx: &mut GenContext, operation: &mut Operation) -> Vec<(Option<u16>, Response)> {
        let mut responses = R::inferred_responses(ctx, operation);
        responses.extend(T::inferred_early_responses(ctx, operation));
        responses
    }
}

impl OperationOutput for Unnamed {
    type Inner = Self;
}

impl Sealed for OpenApi {}

impl Document for OpenApi {
    fn each(&mut self, describe: &mut Describe<'_>) {
        let components = self.components.as_ref();
        for (path, item) in self.paths.iter_mut().flat_map(|paths| &mut paths.paths) {
            let ReferenceOr::Item(item) = item else { continue };
            for (method, operation) in operations!(item) {
                let mark = operation.extensions.shift_remove(MARK);
                if let Some(text) = describe(&method, path, mark.as_ref().and_then(marked)) {
                    patch(operation, text, components);
                }
            }
        }
    }
}

impl<T: Clone + DeserializeOwned> Part for ReferenceOr<T> {
    type Item = T;

    fn reference(&self) -> Option<&str> {
        match self {
            Self::Reference { reference, .. } => Some(reference),
            Self::Item(_) => None,
        }
    }

    fn item(&self) -> Option<&T> {
        self.as_item()
    }

    fn item_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Reference { .. } => None,
            Self::Item(item) => Some(item),
        }
    }
}

impl patch::Operation for Operation {
    type Parameter = ReferenceOr<Parameter>;
    type Response = ReferenceOr<Response>;
    type Components = Components;

    fn parameters(&mut self) -> &mut Vec<Self::Parameter> {
        &mut self.parameters
    }

    fn header_name(parameter: &Parameter) -> Option<&str> {
        match parameter {
            Parameter::Header { parameter_data, .. } => Some(&parameter_data.name),
            _ => None,
        }
    }

    fn responses(&mut self) -> impl Iterator<Item = &mut Self::Response> {
        self.responses.iter_mut().flat_map(|all| all.responses.values_mut().chain(all.default.as_mut()))
    }

    fn response(&mut self, status: u16) -> &mut Self::Response {
        let responses = &mut self.responses.get_or_insert_default().responses;
        responses.entry(StatusCode::Code(status)).or_insert_with(|| ReferenceOr::Item(Response::default()))
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
            self.headers.insert(name.to_owned(), ReferenceOr::Item(header));
        }
    }

    fn add_schema(&mut self, media_type: &str, schema: Value) {
        let content = self.content.entry(media_type.to_owned()).or_default();
        let schema = match content.schema.take() {
            None => schema,
            Some(theirs) => json!({ "anyOf": [theirs, schema] }),
        };
        content.schema = serde_json::from_value::<SchemaObject>(schema).ok();
    }
}
