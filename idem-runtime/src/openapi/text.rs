//! The words, and the schemas, that a document has of a protected operation, for both libraries alike.
//! They say what a client can rely on; `tests/openapi` drives a server by them.

use std::time::Duration;

use serde_json::{Value, json};

use super::choices::Choices;
use crate::{
    app::problem::{Code, Problem},
    model::{
        options::{FingerprintRule, InProgress, KeyFormat, KeyPresence, Mismatch},
        retention::Retention,
    },
};

/// What is said of one operation, as the JSON of OpenAPI.
pub struct Text {
    /// The parameter object of the key, where it is in a header.
    pub(super) parameter: Option<Value>,
    /// The header object that marks a replay, for the handler's own answers.
    pub(super) replayed: Value,
    /// Idem's own answers.
    pub(super) answers: Vec<Answer>,
}

/// One of idem's own answers.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) description: String,
    /// The header object of `Retry-After`.
    pub(super) retry_after: Option<Value>,
    /// The schema of the problem document; none where the application has its own format, or axum answers.
    pub(super) problem: Option<Value>,
}

pub(super) fn text(choices: &Choices, problems: bool) -> Text {
    Text {
        parameter: (!choices.of_events).then(|| parameter(choices)),
        replayed: json!({
            "description": "Present, and `true`, if this is the stored answer of an earlier request with the same key.",
            "schema": { "type": "string", "enum": ["true"] },
        }),
        answers: answers(choices, problems),
    }
}

fn parameter(choices: &Choices) -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": choices.policy.key == KeyPresence::Required,
        "description": explained(choices),
        "schema": form(choices.policy.key_format),
    })
}

/// The form of the header's value. A little stricter than what is taken: whoever keeps to it is understood.
fn form(format: KeyFormat) -> Value {
    // Not blank: spaces, one character that is none, and more.
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

fn explained(choices: &Choices) -> String {
    let policy = &choices.policy;
    let form = match policy.key_format {
        KeyFormat::Any => "1 to 255 visible ASCII characters, bare or in double quotes, which are no part of the key",
        KeyFormat::Quoted => "1 to 255 ASCII characters in double quotes, as RFC 9651 writes strings",
        KeyFormat::Uuid => "a hyphenated UUID, bare or in double quotes",
        KeyFormat::Ulid => "a ULID, bare or in double quotes",
    };
    let without = match policy.key {
        KeyPresence::Required => "",
        KeyPresence::Optional => " Without a key the request is executed whenever it is sent.",
    };
    let place = if choices.by_endpoint { " at this endpoint" } else { "" };
    let running = match policy.in_progress {
        InProgress::Reject => "is answered 409".to_owned(),
        InProgress::Wait(longest) => {
            format!("waits up to {} for its answer, then gets 409", duration(longest))
        }
    };
    format!(
        "Makes this request safe to retry: {form}. Choose a new key for each operation, and send it with every attempt at \
         that operation.{without}\n\nA retry with the same key{place} does not execute the operation again: it is answered \
         as the first request was, for {} after it. Later the key counts as new. A retry while the first request is running \
         {running}. The key with another request is answered {}: what makes a request the same is {}.",
        retention(policy.retention),
        Problem::of(Code::KeyReuse, policy.mismatch).status().as_u16(),
        same(policy.fingerprint),
    )
}

fn same(fingerprint: FingerprintRule) -> &'static str {
    match fingerprint {
        FingerprintRule::Bytes => "its method, path, query and body, byte for byte",
        FingerprintRule::Json => {
            "its method, path, query and body, where white space and the order of members of a JSON body do not count"
        }
        FingerprintRule::Custom(_) => "its method, path, and what of its content this operation goes by",
    }
}

fn answers(choices: &Choices, problems: bool) -> Vec<Answer> {
    let policy = &choices.policy;
    let mut bad = if choices.of_events {
        vec![Code::EventIdMissing]
    } else {
        match policy.key {
            KeyPresence::Required => vec![Code::KeyMissing, Code::KeyMalformed],
            KeyPresence::Optional => vec![Code::KeyMalformed],
        }
    };
    let reuse = [Code::KeyReuse];
    // All deliveries of one event are the same to idem, unless the handler says what to compare.
    let reusable = !choices.of_events || matches!(policy.fingerprint, FingerprintRule::Bytes | FingerprintRule::Json);
    let mut answers = Vec::new();
    let mut unprocessable = None;
    if reusable {
        match policy.mismatch {
            Mismatch::BadRequest => bad.extend(reuse),
            Mismatch::Unprocessable => unprocessable = Some(answer(422, &reuse, problems)),
        }
    }
    answers.push(answer(400, &bad, problems));
    answers.push(answer(409, &[Code::InProgress], problems));
    answers.push(Answer {
        status: 413,
        description: "The request body is larger than this operation takes. The key stays free.".to_owned(),
        retry_after: None,
        problem: None,
    });
    answers.extend(unprocessable);
    answers.push(answer(503, &[Code::StoreUnavailable, Code::OutcomeUnknown, Code::Contention], problems));
    answers
}

fn answer(status: u16, codes: &[Code], problems: bool) -> Answer {
    let titles: Vec<_> = codes.iter().map(|code| format!("`{}`: {}.", code.as_str(), code.title())).collect();
    let again = codes.iter().any(|code| Problem::new(*code).retry_after().is_some());
    Answer {
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
    let codes: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": { "type": "string", "enum": types },
            "title": { "type": "string" },
            "status": { "type": "integer", "enum": [status] },
            "detail": { "type": "string" },
            "code": { "type": "string", "enum": codes },
        },
    })
}

fn retention(retention: Retention) -> String {
    // A promise of whole days is known by its hours up to two of them.
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
