//! Documents of `aide`: an annotated handler goes into `api_route` as any other, if its extractors and what it returns are
//! ones that aide can describe. What aide reads of its argument, `Call`, is what it would read of the handler as written.

use aide::{
    OperationInput, OperationOutput,
    generate::GenContext,
    openapi::{
        Components, Header, OpenApi, Operation, Parameter, PathItem, ReferenceOr, Response, SchemaObject, StatusCode,
    },
};
use http::Method;
use serde_json::{Value, json};

use super::{
    declared::{Declared, Unnamed},
    routes::{Document, MARK, Say, sealed::Sealed},
    text::{Answer, Text},
};
use crate::http::{call::Call, effects::Effects};

impl<E, T, R, const CHOICES: u128> OperationInput for Call<E, T, Declared<R, CHOICES>>
where
    E: Effects,
    T: OperationInput,
    R: OperationOutput,
{
    fn operation_input(ctx: &mut GenContext, operation: &mut Operation) {
        T::operation_input(ctx, operation);
        operation.extensions.insert(MARK.to_owned(), Value::String(CHOICES.to_string()));
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
    fn each(&mut self, say: &mut Say<'_>) {
        let components = self.components.as_ref();
        for (path, item) in self.paths.iter_mut().flat_map(|paths| &mut paths.paths) {
            let ReferenceOr::Item(item) = item else { continue };
            for (method, operation) in operations(item) {
                let mark = operation.extensions.shift_remove(MARK);
                let mark = mark.and_then(|mark| mark.as_str()?.parse().ok());
                if let Some(text) = say(&method, path, mark) {
                    write(operation, text, components);
                }
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::OPTIONS, &mut item.options),
        (Method::HEAD, &mut item.head),
        (Method::PATCH, &mut item.patch),
        (Method::TRACE, &mut item.trace),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn write(operation: &mut Operation, text: Text, components: Option<&Components>) {
    if let Some(Ok(parameter)) = text.parameter.map(serde_json::from_value::<Parameter>) {
        operation.parameters.retain(|other| !is_same(other, &parameter));
        operation.parameters.push(ReferenceOr::Item(parameter));
    }
    let responses = operation.responses.get_or_insert_default();
    if let Ok(replayed) = serde_json::from_value::<Header>(text.replayed) {
        for response in responses.responses.values_mut().chain(responses.default.as_mut()) {
            if let Some(response) = inlined(response, components) {
                response.headers.insert("Idempotent-Replayed".to_owned(), ReferenceOr::Item(replayed.clone()));
            }
        }
    }
    for answer in text.answers {
        let response = responses.responses.entry(StatusCode::Code(answer.status));
        let response = response.or_insert_with(|| ReferenceOr::Item(Response::default()));
        if let Some(response) = inlined(response, components) {
            add(response, answer);
        }
    }
}

fn is_same(one: &ReferenceOr<Parameter>, other: &Parameter) -> bool {
    match (one, other) {
        (
            ReferenceOr::Item(Parameter::Header { parameter_data: one, .. }),
            Parameter::Header { parameter_data: other, .. },
        ) => one.name.eq_ignore_ascii_case(&other.name),
        _ => false,
    }
}

/// The response itself: one that is shared by reference is copied before anything is added.
fn inlined<'r>(response: &'r mut ReferenceOr<Response>, components: Option<&Components>) -> Option<&'r mut Response> {
    if let ReferenceOr::Reference { reference, .. } = &*response {
        let name = reference.strip_prefix("#/components/responses/")?;
        let ReferenceOr::Item(shared) = components?.responses.get(name)? else { return None };
        *response = ReferenceOr::Item(shared.clone());
    }
    match response {
        ReferenceOr::Item(response) => Some(response),
        ReferenceOr::Reference { .. } => None,
    }
}

fn add(response: &mut Response, answer: Answer) {
    if !response.description.is_empty() {
        response.description.push_str("\n\n");
    }
    response.description.push_str(&answer.description);
    if let Some(Ok(header)) = answer.retry_after.map(serde_json::from_value::<Header>) {
        response.headers.insert("Retry-After".to_owned(), ReferenceOr::Item(header));
    }
    let Some(problem) = answer.problem else { return };
    let content = response.content.entry("application/problem+json".to_owned()).or_default();
    let schema = match content.schema.take() {
        None => problem,
        Some(theirs) => json!({ "anyOf": [theirs.json_schema, problem] }),
    };
    content.schema = serde_json::from_value::<SchemaObject>(schema).ok();
}
