//! The words that options take, and how each option is written, for whoever wrote it otherwise.
//! Alternatives are sorted here, once, as they are shown.

/// The options whose value is one word.
pub(crate) const WORDS: &[Words] = &[
    Words::new("effects", "Effects", &[("database", "Database"), ("external", "External")]),
    Words::new("key", "KeyPresence", &[("optional", "Optional"), ("required", "Required")]),
    Words::new("key_format", "KeyFormat", &[("any", "Any"), ("quoted", "Quoted"), ("ulid", "Ulid"), ("uuid", "Uuid")]),
    Words::new("mismatch", "Mismatch", &[("400", "BadRequest"), ("422", "Unprocessable")]),
    Words::new(
        "on_server_error",
        "OnServerError",
        &[("reconcile", "Reconcile"), ("release", "Release"), ("store", "Store")],
    ),
    Words::new("replay", "Replay", &[("status", "Status"), ("whole", "Whole")]),
    Words::new("set_cookie", "SetCookie", &[("drop", "Drop"), ("replay", "Replay")]),
];

/// What a word of an option stands for in the runtime: a variant of a type.
pub(crate) type Variants = &'static [(&'static str, &'static str)];

/// An option whose value is one word.
pub(crate) struct Words {
    pub(crate) option: &'static str,
    pub(crate) sets: &'static str,
    pub(crate) variants: Variants,
}

impl Words {
    const fn new(option: &'static str, sets: &'static str, variants: Variants) -> Self {
        Self { option, sets, variants }
    }

    pub(crate) fn of(option: &str) -> Option<&'static Self> {
        WORDS.iter().find(|words| words.option == option)
    }
}

/// The isolation levels.
pub(crate) const LEVELS: Variants =
    &[("read committed", "ReadCommitted"), ("repeatable read", "RepeatableRead"), ("serializable", "Serializable")];

/// How an option is written, for a reader who wrote it otherwise.
pub(crate) fn form(name: &str) -> String {
    let written = match name {
        "allow" => "write `allow(pool)`, `allow(short_retention)` or both, with a comma between",
        "crate" => "write a path from the root, such as `crate = ::my_idem` or `crate = crate::idem`",
        "fingerprint" => "write `fingerprint = bytes`, `fingerprint = json` or the path of a function",
        "in_progress" => "write `in_progress = reject` or `in_progress = wait(\"5s\")`",
        "isolation" => {
            "write `isolation = \"read committed\"`, `isolation = \"repeatable read\"` or \
             `isolation = \"serializable\"`"
        }
        "key" => {
            "write `key = optional` or `key = required`, or what identifies a message or an event, such as \
             `key = message.id`"
        }
        "lease" => "write a length of time in quotes, such as `lease = \"60s\"`",
        "max_response" => "write a number of bytes, or a string such as `max_response = \"64KiB\"`",
        "methods" => "write `methods = [PATCH]`, `methods = [POST]` or `methods = [PATCH, POST]`",
        "operation" => "write a name in quotes, such as `operation = \"payment\"`",
        "payload" => "write what a parameter has, such as `payload = message.body`",
        "retention" => "write a length of time in quotes, such as `retention = \"24h\"`",
        "scope" => "write a parameter's name: `scope = account` or `scope = (account, endpoint)`",
        "store_request" => "write it bare, as in `effects = external, store_request`",
        "webhook" => "write it bare, as in `webhook, scope = provider, key = event.id`",
        _ => {
            let variants = Words::of(name).map_or(&[][..], |words| words.variants);
            let forms: Vec<_> = variants.iter().map(|(word, _)| format!("`{name} = {word}`")).collect();
            return format!("write {}", alternatives(&forms));
        }
    };
    written.to_owned()
}

/// "a, b or c".
fn alternatives(forms: &[String]) -> String {
    match forms {
        [earlier @ .., last] if !earlier.is_empty() => format!("{} or {last}", earlier.join(", ")),
        _ => forms.concat(),
    }
}
