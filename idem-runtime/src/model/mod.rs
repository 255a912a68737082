//! Plain values and the encodings that are stored: no axum, no sqlx, no I/O. Stored data outlives releases. Never
//! change what a row of this table means; add a rule or a format with a new number.
//!
//! | stored | rule or format | made by | pinned by |
//! |---|---|---|---|
//! | `idem_records.id` | `key` | [`RecordId::of_key`] | `record_id`, golden rows in `tests/conformance/schema.rs` |
//! | | `key at route` | [`RecordId::of_key_at`], over `endpoint` | the same |
//! | | `key at path` | [`RecordId::of_key_at`] | `record_id` |
//! | | `key at endpoint`: retired, never used by a release; do not use the name again | – | – |
//! | | `event` | [`RecordId::of_event`] | `record_id` |
//! | | `message` | [`RecordId::of_message`] | `record_id` |
//! | | `no key` (never a row; step keys derive from it) | [`RecordId::of_attempt_without_key`] | `record_id` |
//! | part of every identifier | `scope`, `scope and` | `ScopeId` | `record_id` |
//! | | `namespace`, in place of the scope if the application sets one | `Namespace` | `namespace` |
//! | `idem_records.fingerprint` | 1 bytes, 2 JSON, 3 function: compared, no longer made | `fingerprint::Rule` | `subject`, golden rows |
//! | | 4 message | the same | `subject` |
//! | | 5 bytes: with short digests of the parts, as all that follow | the same | `subject`, golden rows |
//! | | 6 JSON | the same, over `canonical_json` | the same |
//! | | 7 function | the same | `subject` |
//! | | 8 form | the same, over `form` | `subject` |
//! | `idem_records.format` | 1 response: `headers`, `status`, `body`; read, no longer written | `stored_headers` | `record`, golden rows |
//! | | 2 value: JSON in `body`; read, no longer written | serde | `record` |
//! | | 3 response: as 1, behind a checksum (`record`) in `headers` | `Record::new` | `record`, golden rows |
//! | | 4 value: as 2, with a checksum (`record`) in `headers` | `Record::of_value` | `record` |
//! | `idem_records.request` | 1 | `StoredRequest::encode` | `stored_request` |
//! | step keys in other systems | `step`, `step at` | `StepKey` | `step_key` |
//! | advisory locks of running claims | `request` | `backend::postgres::locks::Locks` | `locks` |
//!
//! The client's stored calls (`Call::encode`) are pinned in the crate `idem-client`.

pub(crate) mod canonical_json;
pub(crate) mod codec;
pub(crate) mod digest;
pub(crate) mod endpoint;
pub(crate) mod fingerprint;
#[cfg(feature = "form")]
pub(crate) mod form;
pub(crate) mod handler_options;
pub(crate) mod idempotency_key;
pub(crate) mod lease_duration;
pub(crate) mod limits;
pub(crate) mod message_id;
pub(crate) mod namespace;
pub(crate) mod operation;
pub(crate) mod options;
pub(crate) mod record;
pub(crate) mod record_id;
pub(crate) mod retention;
pub(crate) mod scope;
pub(crate) mod step_key;
pub(crate) mod stored_headers;
pub(crate) mod stored_request;
pub(crate) mod subject;
