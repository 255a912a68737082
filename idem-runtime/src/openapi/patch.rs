//! Writes into an operation what its clients must know, for both libraries. Each library shows the few parts that change.
//! The operation itself is never turned into JSON and back: neither library reads all that it writes.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::text::Text;
use crate::model::idempotency_key;

/// A part of a document, or a reference to one that the document shares.
pub(super) trait Part: Clone + DeserializeOwned {
    type Item;

    /// Where the part is, if this is a reference.
    fn reference(&self) -> Option<&str>;
    fn item(&self) -> Option<&Self::Item>;
    fn item_mut(&mut self) -> Option<&mut Self::Item>;
}

/// An operation of a library.
pub(super) trait Operation {
    type Parameter: Part;
    type Response: Part<Item: Response>;
    /// What the document shares.
    type Components;

    fn parameters(&mut self) -> &mut Vec<Self::Parameter>;
    /// The name of a parameter that is a header.
    fn header_name(parameter: &<Self::Parameter as Part>::Item) -> Option<&str>;
    /// All responses, and the one for other statuses.
    fn responses(&mut self) -> impl Iterator<Item = &mut Self::Response>;
    /// The response with this status. Adds an empty one if it is missing.
    fn response(&mut self, status: u16) -> &mut Self::Response;
    fn shared_parameter<'c>(components: &'c Self::Components, name: &str) -> Option<&'c Self::Parameter>;
    fn shared_response<'c>(components: &'c Self::Components, name: &str) -> Option<&'c Self::Response>;
}

/// A response of a library.
pub(super) trait Response {
    fn description(&mut self) -> &mut String;
    /// Sets a header. It replaces one with the same name, upper or lower case.
    fn set_header(&mut self, name: &str, header: Value);
    /// Adds a schema to those that a body of this type may have.
    fn add_schema(&mut self, media_type: &str, schema: Value);
}

/// Writes `text` into `operation`.
pub(super) fn patch<O: Operation>(operation: &mut O, text: Text, components: Option<&O::Components>) {
    if let Some(Ok(key)) = text.parameter.map(serde_json::from_value::<O::Parameter>) {
        let parameters = operation.parameters();
        parameters.retain(|other| !is_key::<O>(other, components));
        parameters.push(key);
    }
    for response in operation.responses() {
        if let Some(response) = inlined::<O>(response, components) {
            response.set_header("Idempotent-Replayed", text.replayed.clone());
        }
    }
    for described in text.responses {
        let response = operation.response(described.status);
        let Some(response) = inlined::<O>(response, components) else { continue };
        let description = response.description();
        if !description.is_empty() {
            description.push_str("\n\n");
        }
        description.push_str(&described.description);
        if let Some(header) = described.retry_after {
            response.set_header("Retry-After", header);
        }
        if let Some(schema) = described.problem {
            response.add_schema("application/problem+json", schema);
        }
    }
}

/// Whether a parameter is the header of the key, in the operation or shared.
fn is_key<O: Operation>(parameter: &O::Parameter, components: Option<&O::Components>) -> bool {
    let shared = |location: &str| O::shared_parameter(components?, location.strip_prefix("#/components/parameters/")?);
    let parameter = resolved(parameter, shared).and_then(O::Parameter::item);
    let name = parameter.and_then(O::header_name);
    name.is_some_and(|name| name.eq_ignore_ascii_case(idempotency_key::HEADER.as_str()))
}

/// The response, after a shared one has been copied into the operation: what is added to it is not for all who share it.
fn inlined<'r, O: Operation>(
    response: &'r mut O::Response,
    components: Option<&O::Components>,
) -> Option<&'r mut <O::Response as Part>::Item> {
    let shared = |location: &str| O::shared_response(components?, location.strip_prefix("#/components/responses/")?);
    if response.reference().is_some() {
        *response = resolved(response, shared)?.clone();
    }
    response.item_mut()
}

/// The part, or the one to which its reference leads. `None`: the reference leads nowhere.
fn resolved<'p, P: Part>(mut part: &'p P, shared: impl Fn(&str) -> Option<&'p P>) -> Option<&'p P> {
    // References that lead in a circle are no valid document.
    const MAX_REFERENCES: usize = 8;
    for _ in 0..=MAX_REFERENCES {
        let Some(location) = part.reference() else { return Some(part) };
        part = shared(location)?;
    }
    None
}

/// The operations of a path in either library, whose types have the same fields.
macro_rules! operations {
    ($item:expr) => {
        [
            (Method::GET, &mut $item.get),
            (Method::PUT, &mut $item.put),
            (Method::POST, &mut $item.post),
            (Method::DELETE, &mut $item.delete),
            (Method::OPTIONS, &mut $item.options),
            (Method::HEAD, &mut $item.head),
            (Method::PATCH, &mut $item.patch),
            (Method::TRACE, &mut $item.trace),
        ]
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
    };
}
pub(super) use operations;
