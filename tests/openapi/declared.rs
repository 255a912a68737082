//! A document as its clients read it: which operations there are, and whether a response is declared.
//! Checked first against the OpenAPI Initiative's own schema of documents (`schema-3.1.json`, Apache-2.0, unchanged from
//! <https://spec.openapis.org/oas/3.1/schema/2022-10-07>), its parts then against JSON Schema 2020-12.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

/// A whole document.
pub struct Declared(pub Value);

/// One operation of it.
pub struct Operation<'d> {
    pub method: String,
    pub path: &'d str,
    pub value: &'d Value,
}

impl Declared {
    /// # Panics
    /// If it is no valid document of OpenAPI 3.1.
    pub fn of(document: &impl serde::Serialize) -> Self {
        let document = serde_json::to_value(document).expect("JSON");
        assert_valid(&document);
        Self(document)
    }

    pub fn operations(&self) -> Vec<Operation<'_>> {
        let paths = self.0["paths"].as_object().expect("paths");
        let methods = ["get", "put", "post", "delete", "patch"];
        let each = paths.iter().flat_map(|(path, item)| {
            let of =
                move |method: &&str| Some(Operation { method: method.to_uppercase(), path, value: item.get(*method)? });
            methods.iter().filter_map(of).collect::<Vec<_>>()
        });
        each.collect()
    }

    pub fn operation(&self, method: &str, path: &str) -> Operation<'_> {
        let all = self.operations();
        all.into_iter().find(|one| one.method == method && one.path == path).expect("such an operation")
    }
}

impl Operation<'_> {
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The parameter object of the header, if it is declared.
    pub fn key(&self) -> Option<&Value> {
        let all = self.value.get("parameters")?.as_array()?;
        all.iter().find(|one| one["in"] == "header" && one["name"] == "Idempotency-Key")
    }

    pub fn statuses(&self) -> BTreeSet<&str> {
        self.value["responses"].as_object().expect("responses").keys().map(String::as_str).collect()
    }

    pub fn response(&self, status: &str) -> &Value {
        &self.value["responses"][status]
    }

    /// The codes that a status can have.
    pub fn codes(&self, status: &str) -> Vec<&str> {
        let schema = &self.response(status)["content"]["application/problem+json"]["schema"];
        let codes = schema["properties"]["code"]["enum"].as_array().expect("codes");
        codes.iter().map(|code| code.as_str().expect("a code")).collect()
    }

    /// Checks that the document declares this response: its status, its headers, its content.
    ///
    /// # Panics
    /// If it is not.
    pub fn assert_declares(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) {
        let name = format!("{} answers {status}", self.name());
        let response = self.response(status.as_str());
        assert!(response.is_object(), "{name}, which is not declared");

        let none = Map::new();
        let declared = response.get("headers").and_then(Value::as_object).unwrap_or(&none);
        for header in ["retry-after", "idempotent-replayed"] {
            let schema =
                declared.iter().find(|(name, _)| name.eq_ignore_ascii_case(header)).map(|(_, one)| &one["schema"]);
            match (headers.get(header), schema) {
                (Some(value), Some(schema)) => {
                    let text = value.to_str().expect("a visible header");
                    let value = if schema["type"] == "integer" {
                        text.parse::<u64>().expect("a number").into()
                    } else {
                        text.into()
                    };
                    assert_fits(schema, &value, &format!("{name}, {header}"));
                }
                (Some(_), None) => panic!("{name} with {header}, which is not declared"),
                (None, Some(_)) => assert_eq!(header, "idempotent-replayed", "{name} without the declared {header}"),
                (None, None) => {}
            }
        }
        // A status without content says nothing of what is in it: axum's 413, whose text is the extractor's.
        if let Some(content) = response.get("content") {
            let kind = headers["content-type"].to_str().expect("a content type");
            let media = content.get(kind).unwrap_or_else(|| panic!("{name} as {kind}, which is not declared"));
            let body = serde_json::from_slice(body).expect("JSON");
            if media["schema"].get("$ref").is_none() {
                assert_fits(&media["schema"], &body, &name);
            }
        }
    }
}

fn assert_fits(schema: &Value, value: &Value, what: &str) {
    let schema = jsonschema::draft202012::new(schema).expect("a schema");
    let errors: Vec<_> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{what}: {errors:?}");
}

/// Whether a key is one that the parameter's schema lets pass.
pub fn fits(parameter: &Value, key: &str) -> bool {
    jsonschema::draft202012::new(&parameter["schema"]).expect("a schema").is_valid(&key.into())
}

/// # Panics
/// If it is no valid document of OpenAPI 3.1, or a schema in it no valid schema.
pub fn assert_valid(document: &Value) {
    let schema: Value = serde_json::from_str(include_str!("schema-3.1.json")).expect("the schema");
    let schema = jsonschema::draft202012::new(&schema).expect("the schema of OpenAPI");
    let errors: Vec<_> =
        schema.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    // That schema says of schemas only that they are objects.
    each_schema(document, &|schema| {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "no JSON schema: {schema}");
    });
}

fn each_schema(value: &Value, check: &dyn Fn(&Value)) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if name == "schema" {
                    check(member);
                }
                each_schema(member, check);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_schema(item, check)),
        _ => {}
    }
}
