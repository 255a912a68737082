//! One row for each option, in alphabetical order. A new option begins here.
//! `crate`'s documentation has the same rows; a test below compares them.

use super::{
    row::{Row, Word},
    values,
};

/// Every option.
static TABLE: &[Row] = &[
    Row::list("allow", values::allow, "`allow(pool)`, `allow(short_retention)` or `allow(pool, short_retention)`"),
    Row::value("crate", values::crate_path, "a path from the root, such as `::my_idem` or `crate::idem`"),
    Row::value("effects", values::effects, "")
        .or_words("Effects", &[word("database", "Database"), word("external", "External")])
        .not_on_consumers(NO_EXTERNAL_EFFECTS),
    Row::value("fingerprint", values::fingerprint, "`bytes`, `form`, `json` or the path of a function")
        .or_words("FingerprintRule", &[word("bytes", "Bytes"), word("form", "Form"), word("json", "Json")])
        .set()
        .not_on_consumers("compare messages by `payload`, such as `payload = message.body`"),
    Row::value("in_progress", values::in_progress, "`reject` or `wait(\"5s\")`")
        .or_words("InProgress", &[word("reject", "Reject")])
        .set()
        .not_on_consumers("remove it (the queue delivers the message again)"),
    Row::words(
        "isolation",
        "Isolation",
        &[
            word("\"read committed\"", "ReadCommitted"),
            word("\"repeatable read\"", "RepeatableRead"),
            word("\"serializable\"", "Serializable"),
        ],
    )
    .set(),
    Row::value("key", values::key, "`optional`, `required` or the id in a message or an event, such as `message.id`")
        .or_words("KeyPresence", &[word("optional", "Optional"), word("required", "Required")])
        .set(),
    Row::words(
        "key_format",
        "KeyFormat",
        &[word("any", "Any"), word("quoted", "Quoted"), word("ulid", "Ulid"), word("uuid", "Uuid")],
    )
    .set()
    .not_on_webhooks("remove it (the key is in the event, not in a header)")
    .not_on_consumers(NO_REQUEST),
    Row::value("lease", values::lease, "a duration in quotes, such as `\"60s\"`")
        .set_by("lease_milliseconds")
        .not_on_consumers(NO_EXTERNAL_EFFECTS)
        .not_on_database_effects("remove it, or add `effects = external`"),
    Row::value("max_response", values::max_response, "a number of bytes, or a size in quotes such as `\"64KiB\"`")
        .set()
        .not_on_consumers(NO_REQUEST),
    Row::value("methods", values::methods, "a list of `DELETE`, `PATCH`, `POST` and `PUT`, such as `[POST, PATCH]`")
        .set()
        .not_on_webhooks("remove it (every method delivers events)")
        .not_on_consumers(NO_REQUEST),
    Row::words("mismatch", "Mismatch", &[word("400", "BadRequest"), word("422", "Unprocessable")])
        .set()
        .not_on_consumers(NO_REQUEST),
    Row::words("on_client_error", "OnClientError", &[word("release", "Release"), word("store", "Store")])
        .set()
        .not_on_consumers("remove it (an `Err` is rolled back, and the message runs again)"),
    Row::words(
        "on_server_error",
        "OnServerError",
        &[word("reconcile", "Reconcile"), word("release", "Release"), word("store", "Store")],
    )
    .set()
    .not_on_consumers("remove it (an `Err` is rolled back, and the message runs again)"),
    Row::value("operation", values::operation, "a name in quotes, such as `\"payment\"`"),
    Row::value("payload", values::payload, "a parameter or its fields and methods, such as `message.body`")
        .not_on_requests("compare requests by `fingerprint`")
        .not_on_webhooks("compare events by `fingerprint`"),
    Row::words("replay", "Replay", &[word("status", "Status"), word("full", "Full")])
        .set()
        .not_on_requests("remove it (a retry gets the whole stored response), or add `webhook`")
        .not_on_consumers(NO_REQUEST),
    Row::value("retention", values::retention, "a duration in quotes, such as `\"24h\"`").set_by("retention_seconds"),
    Row::value("scope", values::scope, "a parameter, as in `scope = account` or `scope = (account, endpoint)`"),
    Row::words("set_cookie", "SetCookie", &[word("drop", "Drop"), word("replay", "Replay")])
        .set()
        .not_on_consumers(NO_REQUEST),
    Row::flag("store_request")
        .set()
        .not_on_consumers(NO_EXTERNAL_EFFECTS)
        .not_on_database_effects("remove it, or add `effects = external`"),
    Row::flag("webhook"),
];

const NO_EXTERNAL_EFFECTS: &str = "remove it, and call other systems from a handler with `effects = external`";
const NO_REQUEST: &str = "remove it, or add `webhook` to make this a webhook handler";

const fn word(written: &'static str, variant: &'static str) -> Word {
    Word { written, variant }
}

/// The option called `name`.
pub(super) fn row(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// The names of all options.
pub(super) fn names() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.name).collect()
}
