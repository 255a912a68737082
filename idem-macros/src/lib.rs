//! The attribute `#[idempotent]`, which `idem-runtime` re-exports: depend on that crate, not on this one.
//! The entry point and the documentation of every option; the modules do the work.

mod errors;
mod expand;
mod item;
mod options;
mod plan;

use proc_macro2::TokenStream;
use quote::quote;

use crate::{
    errors::Errors,
    item::{Item, Variant},
    options::Args,
};

/// Makes an axum handler run once for each `Idempotency-Key`: its writes and the record of its response commit in one
/// transaction, and a retry gets the stored response. Handlers that call other systems are covered
/// [too](#effects-in-other-systems).
///
/// ```text
/// #[idempotent(scope = account)]
/// async fn pay(tx: &mut PgConnection, account: Account, Json(order): Json<Order>) -> Result<Json<Payment>, AppError> {
///     let payment = insert_payment(tx, account.id, &order).await?;
///     Ok(Json(payment))
/// }
/// ```
///
/// The module `options` of `idem-runtime` has an example of each option and each kind of function, which its tests
/// compile.
///
/// # The handler
///
/// A free `async fn` that is not generic, with
///
/// - **one `&mut` parameter**, at any position: the open transaction, as sqlx's `&mut PgConnection`,
///   `&mut SqliteConnection` or `&mut Transaction<'_, Db>`. The handler cannot commit it: idem does, with the record,
///   after the handler has returned. Pass it to helpers like any connection; reborrow it with `&mut *tx` to use it
///   again. A helper that is generic over `Acquire` must declare `-> impl Future<…> + Send`, because rustc cannot prove
///   that for an `async fn` over `Acquire`, here or in any other spawned future. A handler with external effects takes
///   [its attempt](#effects-in-other-systems) instead;
/// - at most 16 extractors in the order that axum allows, in any pattern. The one that reads the body comes last;
/// - any return type that implements `IntoResponse`, including `impl IntoResponse` and `Result<_, E>`. If the database
///   asks to run the whole transaction again (serialization failure, deadlock), idem does so if `E` is a
///   `std::error::Error` whose `source` reaches the `sqlx::Error`. With other errors, respond with `Settle::RunAgain`.
///   A handler with external effects never runs again.
///
/// The function is not in an `impl` or a `trait`: there, rustc reports that a module is not supported. Move it out.
///
/// For axum the handler has one parameter, the request. So `typed_post` of axum-extra, and attributes of other crates that
/// make a route from a handler's parameters, cannot use it. A `TypedPath` is an extractor like any other: mount the
/// handler with `.route(OrderPath::PATH, post(pay))`.
///
/// The router's state contains an `Idempotency<Db>`, through axum's `FromRef`. Its documentation shows what to do if the
/// state is in an `Arc`, or not yours. The handler runs in its own task: a
/// client that disconnects does not stop it, and what it holds across an `await` must be `Send`.
///
/// # Options
///
/// An option overrides the application's default, which the builder of `Idempotency` sets. `scope`, `operation`,
/// `effects`, `store_request`, `webhook`, `replay`, `payload`, `allow` and `crate` have no application default.
///
/// | option | values | default |
/// |---|---|---|
/// | `scope` | `account`, the parameter (also inside a pattern) whose type is a `Scope`; `(account, endpoint)` | required |
/// | `key` | `required`, `optional`; or where it is in [a message or an event](#messages-and-events): `message.id` | `required` |
/// | `key_format` | `any`, `quoted`, `uuid`, `ulid` | `any` |
/// | `mismatch` | `422`, `400` | `422` |
/// | `retention` | `"24h"`, `"30d"`, `"1d12h"`; units `s`, `m`, `h`, `d`; at most `"36500d"` | `"24h"` |
/// | `fingerprint` | `bytes`, `json`, `form` (feature `form` of idem-runtime), the path of a `fn(&Parts, &Bytes) -> Vec<u8>` | `bytes` |
/// | `operation` | `"payment"`: 1 to 128 visible ASCII characters | the function's name |
/// | `in_progress` | `reject`, `wait("5s")`; units `ms`, `s`, `m`, `h`; at most `"1h"` | `reject` |
/// | `on_client_error` | `store`, `release` (database effects) | `store` |
/// | `on_server_error` | `store`, `release` (database effects), `reconcile` (external effects) | `store`; `release` for webhooks |
/// | `isolation` | `"read committed"`, `"repeatable read"`, `"serializable"` | the database's own |
/// | `max_response` | `65536`, `"64KiB"`; units `B`, `KB`, `KiB`, `MB`, `MiB` | `"1MiB"` |
/// | `methods` | a list of `POST`, `PATCH`, `PUT`, `DELETE` | `[POST, PATCH]` |
/// | `set_cookie` | `replay`, `drop` | `replay` |
/// | `effects` | `database`, `external` | `database` |
/// | `lease` (external effects) | `"5m"`; units `ms`, `s`, `m`, `h`; more than zero, at most `"24h"` | `"60s"` |
/// | `store_request` (external effects) | flag, no value | the request is not stored |
/// | `webhook` | flag, no value | not a webhook handler |
/// | `replay` (webhooks) | `status`, `full` | `status` |
/// | `payload` (messages) | `message.body`: distinguishes two messages with the same id | equal ids mean equal messages |
/// | `allow` | `(pool)`, `(short_retention)`, `(pool, short_retention)` | neither |
/// | `crate` | the path of `idem_runtime` from the root: `::company_idem`, `crate::prelude::idem` | `::idem_runtime` |
///
/// - **`scope`** names the owner of the keys: a caller can neither collide with nor probe the keys of another. With
///   `(account, endpoint)` the same key at another endpoint (method and route) is another key; with
///   `account` alone, it is a mismatch.
/// - **`key`**: a request without a key gets a 400, or with `optional` runs in a transaction, unprotected. With
///   external effects, unprotected means: no record, no lease and no recovery, step keys that no retry shares, and a
///   transaction only if the body opens it. A malformed key is a 400 in both cases.
/// - **`key_format`**: `any` accepts quoted and bare keys and treats both forms as one key.
/// - **`mismatch`**: the status for a key that is used again with another request.
/// - **`retention`**: how long a record is replayed. A later retry runs again, so less than 24 hours needs
///   `allow(short_retention)`.
/// - **`fingerprint`**: what makes two requests the same. `json` ignores white space and member order, `form` the boundary of a
///   multipart form. A function returns the bytes to compare besides method and path.
/// - **`operation`**: the stored name of the effect, shown in events and metrics. Set it before you rename a handler,
///   so that the stored name stays. With external effects, step keys are derived from it, and reconcilers are found by
///   it.
/// - **`in_progress`**: the response to an in-flight duplicate. `reject` responds with 409 at once; `wait` waits for
///   the record, without a connection, and replays it.
/// - **`on_client_error`**: `store` replays a 4xx unchanged; `release` rolls everything back and frees the key, so that a
///   retry runs. It suits webhooks, whose senders deliver again until they get a 2xx. With external effects a 4xx may
///   come after the effect, so `release` is refused.
/// - **`on_server_error`**: `store` replays a 5xx unchanged; `release` frees the key, so that a retry runs. With
///   external effects a 5xx may come after the effect, so `release` is refused: choose `store` if the handler knows
///   what happened when it returns a 5xx, `reconcile` if it does not. With `reconcile` the 5xx is sent but not stored,
///   and recovery asks the other system. If the application's default is `release`, these handlers use `store`.
/// - **`isolation`**: the transaction's isolation level. After a serialization failure the whole transaction runs
///   again, for as long as `Builder::database_timeout`. With external effects it is the level of the completing transaction; if it fails,
///   nothing runs again, and recovery decides.
/// - **`max_response`**: a larger response is not stored; everything is rolled back and the response is a 500. With
///   external effects that 500 is stored, or with `reconcile` recovery decides.
/// - **`methods`**: the methods whose requests are protected. RFC 9110 calls PUT and DELETE idempotent: add them if yours
///   are not. A key sent with any other method is ignored; the first such request of an operation is logged as a warning.
/// - **`set_cookie`**: whether `Set-Cookie` headers are stored and replayed.
/// - **`effects`**: `database` if the handler only changes rows of this database; `external` if some of its effects are
///   in another system, where no rollback reaches them. See [below](#effects-in-other-systems).
/// - **`lease`** (external effects): how long an attempt may go without renewing its lease before it counts as stalled
///   and is reconciled. A running attempt renews it automatically. With a shorter lease a crash is noticed sooner; with
///   a longer one an attempt survives longer pauses of its process or database.
/// - **`store_request`** (external effects): stores the request with the key, for a reconciler that needs it. Choose it
///   if a step key is not enough to ask the other system. The request is then in your database until the record is
///   decided.
/// - **`allow(pool)`**: a pool as a parameter is a compile error, because writes through it are outside the transaction
///   and a retry repeats them. Allow it if the pool only reads.
/// - **`crate`**: if `idem_runtime` is renamed in `Cargo.toml`, or re-exported by your own crate or module (which
///   must re-export its `__private` too).
///
/// # Effects in other systems
///
/// A handler that calls another system declares `effects = external`. Its `&mut` parameter is then not the transaction
/// but its attempt, `&mut Attempt<Db>` of `idem_runtime`:
///
/// ```text
/// #[idempotent(scope = account, effects = external, lease = "60s", on_server_error = reconcile)]
/// async fn pay(
///     account: Account,
///     attempt: &mut Attempt<Postgres>,
///     State(network): State<CardNetwork>,
///     Json(order): Json<Order>,
/// ) -> Result<Json<Payment>, AppError> {
///     // The same key whenever this step is tried again.
///     let charge = network.charge(attempt.key("charge"), &order).await?;
///     // Opened now, and committed with the record.
///     let payment = insert_payment(attempt.transaction().await?, account.id, &charge).await?;
///     Ok(Json(payment))
/// }
/// ```
///
/// The key is committed as in progress before the body runs, so no transaction is open during the call.
/// `attempt.key(step)` is derived from scope, client key, operation and step. `attempt.transaction()` is the
/// transaction that also writes the record. If the process dies, a retry does not run the handler again: recovery asks
/// the other system. The module `choosing_effects` of `idem-runtime` explains when to choose which effects, and where
/// the guarantee ends.
///
/// # Messages and events
///
/// Queues and senders of webhooks deliver at least once, and identify duplicates by an id. If `key` is an expression,
/// the id is the key. The expression starts with a parameter, also one inside a pattern, followed by fields, methods
/// and indices, as in `message.id`, `job.id()` or `ids[0]`. It is read by reference, before the body gets the
/// parameter. Its type is a `MessageId`: a string, a byte slice, an integer, or an `Option` of one. `None` and an empty
/// string are a missing id, which is an error.
///
/// **A consumer** is a plain `async fn` that your own code calls for each message:
///
/// ```text
/// #[idempotent(scope = source, key = message.id, payload = message.body)]
/// async fn send_receipt(tx: &mut PgConnection, source: &str, message: &Message) -> Result<Receipt, AppError> {
///     insert_receipt(tx, message).await
/// }
///
/// match send_receipt(&idempotency, "orders", &message).await {
///     Ok(Once::Ran(_) | Once::AlreadyDone(_)) => queue.acknowledge(&message).await,
///     Err(ConsumeError::InProgress) => {} // another process has it: the queue delivers it again
///     Err(error) => queue.reject(&message, error).await,
/// }
/// ```
///
/// The generated function takes `&Idempotency<Db>` first, then the parameters without the transaction, and returns
/// `Result<Once<T>, ConsumeError<E>>`. Parameters are by value or by shared reference.
///
/// - The function returns `Result<T, E>`. `T` is stored as JSON by serde, and a duplicate delivery gets it back. An
///   `Err` or a panic rolls everything back, and a redelivery runs.
/// - `Once` means that effect and id are committed: acknowledge the message then, not earlier. Dropping the future
///   rolls back.
/// - `scope` names the source of the ids: a `&str`, or your own type that implements `Scope`. The operation is part of the
///   key, so each consumer processes every message once.
/// - With `payload`, a different message that reuses an id is reported as an error and runs nothing.
/// - The options `operation`, `retention`, `isolation`, `allow` and `crate` apply. Choose a `retention` longer than the
///   queue may redeliver a message.
///
/// `Idempotency::once` does the same for a closure, without the attribute.
///
/// **A webhook handler** is an axum handler as above, marked `webhook`. Without that word the function is a consumer,
/// and no route accepts it.
///
/// ```text
/// #[idempotent(webhook, scope = provider, key = event.id, retention = "7d")]
/// async fn paid(Signed { provider, event }: Signed, tx: &mut PgConnection) -> Result<StatusCode, AppError> {
///     credit(tx, &event).await?;
///     Ok(StatusCode::NO_CONTENT)
/// }
/// ```
///
/// Verify the signature in the extractor that returns the event. Extractors run before the id is used, so an unsigned
/// event is rejected without consuming an id or revealing whether it exists. Then:
///
/// - an event that was handled before gets the first status, without body and headers; `replay = full` sends them
///   again;
/// - a 5xx or a panic rolls everything back and frees the id, so that the sender's next delivery runs;
///   `on_server_error = store` makes it final. With external effects it is stored, unless
///   `on_server_error = reconcile`;
/// - a 4xx is final, unless `on_client_error = release`: then the next delivery runs;
/// - a delivery while another one runs gets a 409, and a 503 while the store is down: senders try again;
/// - id, `scope` and operation make the key, whatever the method. What surrounds the id may differ between deliveries,
///   unless `fingerprint` defines what counts;
/// - an event without an id gets a 400, code `event-id-missing`.
///
/// `key_format` and `methods` do not apply: the `Idempotency-Key` header is ignored. All other options do.
///
/// # Other attributes
///
/// Above or below: `tracing::instrument` (below, it sees the parameters; above, the call), `utoipa::path` (the
/// transaction is not a parameter of the document), `cfg`, `cfg_attr`, lint levels, documentation. `cfg` on parameters
/// works too.
///
/// axum's `debug_handler` goes **below**: it then checks the extractors, and that the state contains an `Idempotency`.
/// Above, it runs first and requires the transaction to be an extractor. As without this attribute, it takes the
/// state's type from the one `State<…>` parameter; if that is a part of the state, write
/// `#[debug_handler(state = App)]`.
#[proc_macro_attribute]
pub fn idempotent(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expanded(args.into(), item.into()).into()
}

fn expanded(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = options::parse(args, &mut errors);
    plan::check_options(&args, &mut errors);
    let items: TokenStream = match item::parse(item, &mut errors) {
        Item::Other(item) => item,
        Item::Named { vis, name } => expand::named(args.crate_path(), &vis, &name),
        Item::Function(function) => {
            plan::check_signature(&args, &function, &mut errors);
            let variants = item::variants(&function, &mut errors);
            let is_sound = errors.is_empty();
            variants.iter().map(|variant| of_variant(&args, variant, is_sound)).collect()
        }
    };
    let errors = errors.read();
    quote!(#(#errors)* #items)
}

fn of_variant(args: &Args, variant: &Variant, is_sound: bool) -> TokenStream {
    let (when, function) = (&variant.when, &variant.function);
    let mut errors = Errors::new();
    let plan = plan::plan(args, function, &mut errors);
    let errors = errors.read();
    match plan {
        Some(plan) if is_sound && errors.is_empty() => expand::expand(when, &plan),
        _ => {
            let stub = expand::stub(when, args, function);
            quote!(#(#when #errors)* #stub)
        }
    }
}
