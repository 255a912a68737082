//! The texts and schemas that a document gets for a protected operation, the same for both libraries.
//! They say what a client can rely on; `tests/openapi` drives a server by them.

use std::time::Duration;

use serde_json::{Value, json};

use super::routes::Chosen;
use crate::{
    app::problem::{Code, Problem},
    model::{
        handler_options::ScopeRule,
        options::{FingerprintRule, InProgress, KeyFormat, KeyPresence, Mismatch},
        retention::Retention,
    },
};

/// What a document gets for one operation, as JSON of OpenAPI.
pub struct Text {
    /// The parameter object of the key, where it is in a header.
    pub(super) parameter: Option<Value>,
    /// The header object that marks a replay, for the handler's own responses.
    pub(super) replayed: Value,
    /// Idem's own responses.
    pub(super) responses: Vec<Response>,
}

/// One of idem's own responses.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) description: String,
    /// The header object of `Retry-After`.
    pub(super) retry_after: Option<Value>,
    /// The schema of the problem document. `None`: the application has its own format, or axum sends the response.
    pub(super) problem: Option<Value>,
}

pub(super) fn text(chosen: &Chosen, problems: bool) -> Text {
    Text {
        parameter: (!chosen.handler.is_of_events()).then(|| parameter(chosen)),
        replayed: json!({
            "description": "Present, and `true`, if this is the stored response to an earlier request with the same key.",
            "schema": { "type": "string", "enum": ["true"] },
        }),
        responses: responses(chosen, problems),
    }
}

fn parameter(chosen: &Chosen) -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": chosen.policy.key == KeyPresence::Required,
        "description": explained(chosen),
        "schema": form(chosen.policy.key_format),
    })
}

/// The form of the header's value. It is a little stricter than the server: a key of this form is always accepted.
fn form(format: KeyFormat) -> Value {
    // Not blank: spaces, one other character, then any.
    const QUOTED: &str = r#""(?: *(?:[!#-\[\]-~]|\\["\\])(?:[ !#-\[\]-~]|\\["\\])*)""#;
    match format {
        KeyFormat::Any => json!({
            "type": "string", "minLength": 1, "maxLength": 255, "pattern": format!(r"^(?:[!#-+\--:<-~]+|{QUOTED})$"),
        }),
        // The quotes are no characters of the key.
        KeyFormat::Quoted => json!({
            "type": "string", "minLength": 3, "maxLength": 257, "pattern": format!("^{QUOTED}$"),
        }),
        KeyFormat::Uuid => json!({
            "type": "string", "format": "uuid", "minLength": 36, "maxLength": 36,
            "pattern": "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$",
        }),
        KeyFormat::Ulid => json!({
            "type": "string", "minLength": 26, "maxLength": 26,
            "pattern": "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$",
        }),
    }
}

fn explained(chosen: &Chosen) -> String {
    let policy = &chosen.policy;
    let form = match policy.key_format {
        KeyFormat::Any => {
            "1 to 255 printable ASCII characters, in double quotes if one is a space, comma, semicolon or quote"
        }
        KeyFormat::Quoted => "1 to 255 ASCII characters in double quotes, as RFC 9651 writes strings",
        KeyFormat::Uuid => "a hyphenated UUID, bare or in double quotes",
        KeyFormat::Ulid => "a ULID, bare or in double quotes",
    };
    let without = match policy.key {
        KeyPresence::Required => "",
        KeyPresence::Optional => " Without a key, each request executes the operation.",
    };
    let place = if chosen.handler.scope == ScopeRule::AccountAndEndpoint { " at this endpoint" } else { "" };
    let running = match policy.in_progress {
        InProgress::Reject => "gets 409".to_owned(),
        InProgress::Wait(longest) => format!("waits up to {} for its response, then gets 409", duration(longest)),
    };
    format!(
        "Makes this request safe to retry: {form}. Use a new key for each operation, and send the same key with every \
         attempt at that operation.{without}\n\nA retry with the same key{place} does not execute the operation again: it \
         gets the response to the first request, for {} after it. After that time the key counts as new. A retry while the \
         first request is in progress {running}. Another request with the same key gets {}. Two requests are the same if \
         they have the same {}.",
        retention(policy.retention),
        Problem::of(Code::KeyReuse, policy.mismatch).status().as_u16(),
        same(policy.fingerprint),
    )
}

fn same(fingerprint: FingerprintRule) -> &'static str {
    match fingerprint {
        FingerprintRule::Bytes => "method, path, query and body, byte for byte",
        FingerprintRule::Json => {
            "method, path, query and body; in a JSON body, white space and the order of members do not count"
        }
        #[cfg(feature = "form")]
        FingerprintRule::Form => {
            "method, path, query and body; in a `multipart/form-data` body, the boundary does not count"
        }
        FingerprintRule::Custom(_) => "method and path, and the same in what this operation compares",
    }
}

fn responses(chosen: &Chosen, problems: bool) -> Vec<Response> {
    let policy = &chosen.policy;
    let mut bad = if chosen.handler.is_of_events() {
        vec![Code::EventIdMissing]
    } else {
        match policy.key {
            KeyPresence::Required => vec![Code::KeyMissing, Code::KeyMalformed],
            KeyPresence::Optional => vec![Code::KeyMalformed],
        }
    };
    let reuse = [Code::KeyReuse];
    // All deliveries of one event count as the same, unless the handler says what to compare.
    let reusable = !chosen.handler.is_of_events() || chosen.handler.names_fingerprint();
    let mut responses = Vec::new();
    let mut unprocessable = None;
    if reusable {
        match policy.mismatch {
            Mismatch::BadRequest => bad.extend(reuse),
            Mismatch::Unprocessable => unprocessable = Some(response(422, &reuse, problems)),
        }
    }
    responses.push(response(400, &bad, problems));
    responses.push(response(409, &[Code::InProgress], problems));
    responses.push(Response {
        status: 413,
        description: "The request body is larger than this operation takes. The key stays free.".to_owned(),
        retry_after: None,
        problem: None,
    });
    responses.extend(unprocessable);
    responses.push(response(503, &[Code::StoreUnavailable, Code::OutcomeUnknown, Code::Contention], problems));
    responses
}

fn response(status: u16, codes: &[Code], problems: bool) -> Response {
    let titles: Vec<_> = codes.iter().map(|code| format!("`{}`: {}.", code.as_str(), code.title())).collect();
    let again = codes.iter().any(|code| Problem::new(*code).retry_after().is_some());
    Response {
        status,
        description: titles.join(" "),
        retry_after: again.then(|| {
            json!({
                "description": "Seconds after which a retry with the same key makes sense.",
                "schema": { "type": "integer", "minimum": 0 },
            })
        }),
        problem: problems.then(|| problem(status, codes)),
    }
}

/// The schema of a problem document (RFC 9457) that has one of these codes.
fn problem(status: u16, codes: &[Code]) -> Value {
    let types: Vec<_> = codes.iter().map(|code| Problem::new(*code).type_uri()).collect();
    let differs = codes.contains(&Code::KeyReuse).then(|| json!({ "type": "array", "items": { "type": "string" } }));
    let codes: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let mut schema = json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": { "type": "string", "enum": types },
            "title": { "type": "string" },
            "status": { "type": "integer", "enum": [status] },
            "detail": { "type": "string" },
            "code": { "type": "string", "enum": codes },
        },
    });
    if let Some(differs) = differs {
        schema["properties"]["differs"] = differs;
    }
    schema
}

fn retention(retention: Retention) -> String {
    // Below two days, people count in hours.
    let seconds = u64::from(retention.as_secs());
    let parts = if seconds < 2 * 86_400 { [(3_600, "hour"), (60, "minute"), (1, "second")].as_slice() } else { UNITS };
    written(seconds, parts)
}

const UNITS: &[(u64, &str)] = &[(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];

fn duration(length: Duration) -> String {
    match u64::from(length.subsec_millis()) {
        0 => written(length.as_secs(), UNITS),
        _ => format!("{} milliseconds", length.as_millis()),
    }
}

fn written(mut seconds: u64, units: &[(u64, &str)]) -> String {
    let mut parts = Vec::new();
    for (length, name) in units {
        let count = seconds / length;
        seconds %= length;
        match count {
            0 => {}
            1 => parts.push(format!("1 {name}")),
            _ => parts.push(format!("{count} {name}s")),
        }
    }
    if parts.is_empty() { "0 seconds".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_people_write_them() {
        let of = |seconds| retention(Retention { seconds });
        assert_eq!(of(86_400), "24 hours");
        assert_eq!(of(129_600), "36 hours");
        assert_eq!(of(30 * 86_400), "30 days");
        assert_eq!(of(2 * 86_400 + 3_600), "2 days 1 hour");
        assert_eq!(of(3_660), "1 hour 1 minute");
        assert_eq!(of(1), "1 second");
        assert_eq!(duration(Duration::from_millis(1_500)), "1500 milliseconds");
        assert_eq!(duration(Duration::from_secs(5)), "5 seconds");
        assert_eq!(duration(Duration::ZERO), "0 seconds");
    }
}
