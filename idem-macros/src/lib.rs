//! The attribute `#[idempotent]`, which `idem-runtime` re-exports: depend on that crate, not on this one.
//! The entry and the documentation of every option; the work is in the modules.

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

/// Makes an axum handler run once for each `Idempotency-Key`: its writes and the record of its answer commit in one
/// transaction, and a retry is answered from the record. Handlers that call other systems are covered
/// [too](#effects-elsewhere).
///
/// ```text
/// #[idempotent(scope = account)]
/// async fn pay(tx: &mut PgConnection, account: Account, Json(order): Json<Order>) -> Result<Json<Payment>, AppError> {
///     let payment = insert_payment(tx, account.id, &order).await?;
///     Ok(Json(payment))
/// }
/// ```
///
/// # The handler
///
/// A free `async fn` that is not generic, with
///
/// - **one `&mut` parameter**, anywhere in the list: the open transaction, as `&mut PgConnection`,
///   `&mut SqliteConnection` or `&mut Transaction<'_, Db>` of sqlx. It cannot be committed by the handler: that happens
///   with the record, after the handler has returned. Helpers take it as they take any connection (`&mut *tx` where it
///   is used again); a helper over `Acquire` must itself promise `-> impl Future<…> + Send`, as rustc cannot find that
///   out of an `async fn` over `Acquire`, here or in any other spawned future. A handler with external effects takes
///   [its attempt](#effects-elsewhere) in its place;
/// - up to 16 extractors in the order that axum allows, in any pattern. The one that reads the body comes last;
/// - any return type that is `IntoResponse`, `impl IntoResponse` and `Result<_, E>` among them. Where the database asks for
///   the whole transaction to be run again (serialization failure, deadlock), that is done if `E` is a
///   `std::error::Error` that leads to the `sqlx::Error` by `source`; with other errors answer `Settle::RunAgain`.
///   A handler with external effects is never run again.
///
/// The state of the router holds an `Idempotency<Db>`, by axum's `FromRef`. The handler runs in a task of its own: a
/// client that disconnects does not stop it, and what it holds across an `await` must be `Send`.
///
/// # Options
///
/// They override the application's own defaults, set on the builder of `Idempotency`; only `scope`, `operation`, `effects`,
/// `store_request`, `allow` and `crate` are each handler's own. The module `options` of `idem-runtime` has an example of
/// each.
///
/// | option | values | without it |
/// |---|---|---|
/// | `scope` | `account`, the parameter (also inside a pattern) whose type is a `Scope`; `(account, endpoint)` | required |
/// | `key` | `required`, `optional`; or where it is in [a message or an event](#messages-and-events): `message.id` | `required` |
/// | `key_format` | `any`, `quoted`, `uuid`, `ulid` | `any` |
/// | `mismatch` | `422`, `400` | `422` |
/// | `retention` | `"24h"`, `"30d"`, `"1d12h"`; units `s`, `m`, `h`, `d`; at most `"36500d"` | `"24h"` |
/// | `fingerprint` | `bytes`, `json`, the path of a `fn(&Parts, &Bytes) -> Vec<u8>` | `bytes` |
/// | `operation` | `"payment"`: 1 to 128 visible ASCII characters | the function's name |
/// | `in_progress` | `reject`, `wait("5s")`; units `ms`, `s`, `m`, `h`; at most `"1h"` | `reject` |
/// | `on_server_error` | `store`, `release` (database effects), `reconcile` (external effects) | `store` |
/// | `isolation` | `"read committed"`, `"repeatable read"`, `"serializable"` | the database's own |
/// | `max_response` | `65536`, `"64KiB"`; units `B`, `KB`, `KiB`, `MB`, `MiB` | `"1MiB"` |
/// | `methods` | a list of `POST`, `PATCH`, `PUT`, `DELETE` | `[POST, PATCH]` |
/// | `set_cookie` | `replay`, `drop` | `replay` |
/// | `effects` | `database`, `external` | `database` |
/// | `lease` (external effects) | `"5m"`; units `ms`, `s`, `m`, `h`; more than zero, at most `"24h"` | `"60s"` |
/// | `store_request` (external effects) | none: the word alone | the request is not stored |
/// | `webhook` | none: the word alone | no handler of events |
/// | `replay` (events) | `status`, `full` | `status` |
/// | `payload` (messages) | `message.body`: what tells two messages under one id apart | equal ids are equal messages |
/// | `allow` | `(pool)`, `(short_retention)`, `(pool, short_retention)` | neither |
/// | `crate` | the path of `idem_runtime` from the root: `::company_idem`, `crate::prelude::idem` | `::idem_runtime` |
///
/// - **`scope`** says whose keys these are: no caller can collide with, or probe, the keys of another. With
///   `(account, endpoint)` the same key at another endpoint (method and route) is another key; without, it is a mismatch.
/// - **`key`**: a request without a key is answered 400, or with `optional` runs in a transaction, unprotected. With
///   external effects that means no record, no lease and no recovery, step keys that no retry shares, and a transaction
///   only if it is asked for. A malformed key is 400 in either case.
/// - **`key_format`**: `any` takes quoted and bare keys and treats both spellings as one key.
/// - **`mismatch`**: the status for a key that comes again with another request.
/// - **`retention`**: how long a record answers. A retry that comes later runs again, so less than 24 hours needs
///   `allow(short_retention)`.
/// - **`fingerprint`**: what makes two requests the same. `json` does not count white space and the order of members;
///   a function returns what is to be compared beside method and path.
/// - **`operation`**: the stored name of the effect, shown in events and metrics. Write it out before you rename a handler.
///   With external effects step keys are derived from it, and reconcilers are found by it.
/// - **`in_progress`**: what a request meets whose twin is still running. `reject` answers 409 at once; `wait` waits
///   for the record, without a connection, and replays it.
/// - **`on_server_error`**: `store` replays a 5xx as it was; `release` frees the key, so that a retry runs. With external
///   effects a 5xx may come after the effect, so that `release` is refused: choose `store` where the handler knows what
///   happened when it answers one, `reconcile` where it does not. Then the 5xx is sent and not stored, and recovery
///   asks the other system. A `release` of the application's is `store` for them.
/// - **`isolation`**: the level of the transaction. Serialization failures are retried whole, within a bound. With external
///   effects it is the level of the completing transaction; one that fails is not retried, and recovery decides.
/// - **`max_response`**: a longer response is not stored; all is rolled back and the answer is a 500. With external effects
///   that 500 is stored, or with `reconcile` left to recovery.
/// - **`methods`**: the methods whose keys count. The others are idempotent by definition (RFC 9110).
/// - **`set_cookie`**: whether `Set-Cookie` lines are stored and replayed.
/// - **`effects`**: `database` where all that the handler does is rows of the one database; `external` where some of it
///   happens in another system, by a call that no rollback takes back. See [below](#effects-elsewhere).
/// - **`lease`** (external effects): how long an attempt may go without renewing its lease before it counts as dead and is
///   reconciled. A running attempt renews it by itself. Shorter, a crash is noticed sooner; longer, an attempt survives a
///   longer stall of its process or database.
/// - **`store_request`** (external effects): the request is kept with the key, for a reconciler that must know what was
///   asked. Choose it where the key of a step is not enough to ask the other system; what is in the request then lies in
///   the database.
/// - **`allow(pool)`**: a handler that also takes a pool is refused, as what it writes through the pool is outside the
///   transaction and would be written again by a retry. Allow it where the pool only reads.
/// - **`crate`**: where `idem_runtime` is renamed in `Cargo.toml`, or re-exported by a crate or module of yours (which
///   then re-exports its `__private` too).
///
/// # Effects elsewhere
///
/// A handler that calls another system says `effects = external`. Its one `&mut` parameter is then not the transaction but
/// its attempt, `&mut Attempt<Db>` of `idem_runtime`:
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
/// The key is committed as in progress before the body runs, so no transaction is open while the other system is called.
/// `attempt.key(step)` is made of scope, client key, operation and step; `attempt.transaction()` is the transaction that
/// also writes the record. If the process dies, a retry does not run the handler again: recovery asks the other system.
/// The module `choosing_effects` of `idem-runtime` tells when to choose which effects, and where the guarantee ends.
///
/// # Messages and events
///
/// Queues and senders of webhooks deliver at least once, and say with an id what is the same. With `key` as an expression the
/// id is the key: it begins with a parameter, also one inside a pattern, and goes on with its fields and methods, as
/// `message.id`, `job.id()` or `ids[0]`. It is read by reference, before the body has the parameter, and its type is a
/// `MessageId`: a text, bytes, a whole number, or an `Option` of one. `None` and an empty text are a missing id, which is an
/// error of its own.
///
/// **A consumer** is a plain `async fn`, called by your own code for each message:
///
/// ```text
/// #[idempotent(scope = source, key = message.id, payload = message.body)]
/// async fn send_receipt(tx: &mut PgConnection, source: &str, message: &Message) -> Result<Receipt, AppError> {
///     insert_receipt(tx, message).await
/// }
///
/// match send_receipt(&idempotency, "orders", &message).await {
///     Ok(Once::Ran(_) | Once::AlreadyDone(_)) => queue.acknowledge(&message).await,
///     Err(ConsumeError::InProgress) => {} // elsewhere: it is delivered again
///     Err(error) => queue.reject(&message, error).await,
/// }
/// ```
///
/// The function that stands in its place takes `&Idempotency<Db>` first, then the parameters without the transaction, and
/// returns `Result<Once<T>, ConsumeError<E>>`. Beside the transaction it takes any parameters, by value or by shared reference. It
/// returns `Result<T, E>`: `T` is stored, as JSON by serde, so that a duplicate is told what the first delivery came to; an
/// `Err` rolls everything back, as a panic does, and a redelivery runs. When `Once` is there, effect and id are committed:
/// acknowledge the message then and not before. `scope` names whose ids these are: a `&str`, or a type of yours that is a
/// `Scope`. The operation is part of the key, so that two consumers have each message once each; another payload under one
/// id is reported and runs nothing. Dropping the future rolls back. Of the options, `operation`, `retention`, `isolation`,
/// `allow` and `crate` apply. Choose a `retention` longer than the queue may deliver a message again. The same as a call is
/// `Idempotency::once`.
///
/// **A handler of events** is an axum handler as above that says `webhook`. This word tells it from a consumer, which its
/// parameters cannot: without it the function is a consumer, and no route takes it.
///
/// ```text
/// #[idempotent(webhook, scope = provider, key = event.id, retention = "7d")]
/// async fn paid(Signed { provider, event }: Signed, tx: &mut PgConnection) -> Result<StatusCode, AppError> {
///     credit(tx, &event).await?;
///     Ok(StatusCode::NO_CONTENT)
/// }
/// ```
///
/// Verify the signature in the extractor that gives the event. Extractors run before anything looks at the id, so that an
/// event which is not signed is rejected, and can neither burn an id nor learn of one. Then:
///
/// - an event that was handled is answered with the status of the first time, without body and headers; `replay = full` sends
///   them again;
/// - a 5xx or a panic rolls everything back and frees the id, so that the sender's next delivery runs; `on_server_error = store`
///   makes it final. With external effects it is stored, unless `on_server_error = reconcile`. Answers below 500 are final;
/// - a delivery while another one runs is a 409, and a store that is down a 503: senders try again;
/// - id, `scope` and operation make the key, whatever the method. What is around the id may differ from delivery to delivery,
///   unless `fingerprint` says what counts;
/// - an event without an id is answered 400, code `event-id-missing`.
///
/// `key_format` and `methods` are of the header, which is not looked at. All other options apply.
///
/// # Beside other attributes
///
/// Above or below: `tracing::instrument` (below, it sees the parameters; above, the call), `utoipa::path` (the
/// transaction is no parameter of the document), `cfg`, `cfg_attr`, lint levels, documentation. `cfg` on parameters works
/// too.
///
/// axum's `debug_handler` goes **below**: it then checks the extractors, and that the state holds an `Idempotency`.
/// Above, it runs first and demands that the transaction be an extractor. As without this attribute it takes the state
/// from the one `State<…>` parameter; where that is a part of the state, write `#[debug_handler(state = App)]`.
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
