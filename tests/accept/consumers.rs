//! Consumers: plain functions that run once for each message.
//! What they do is tested where the runtime is; here, that they are accepted, and can be spawned.

use std::{cell::Cell, rc::Rc};

use idem_runtime::{
    Idempotency, Scope, ScopeId, idempotent,
    messages::{ConsumeError, Once},
};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, Transaction};

use super::common::assert_send;

#[derive(Clone)]
struct Message {
    id: String,
    meta: Meta,
    body: Vec<u8>,
}

#[derive(Clone)]
struct Meta {
    partition: u32,
    number: Option<u64>,
    queue: Queue,
}

impl Message {
    fn id(&self) -> String {
        format!("{}/{:?}", self.meta.partition, self.meta.number)
    }
}

#[derive(Clone)]
struct Queue(&'static str);

impl Scope for Queue {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self.0)
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: i64,
}

#[derive(Debug, thiserror::Error)]
enum HandleError {
    #[error("the message is no order")]
    NoOrder,
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

type Outcome<T> = Result<T, HandleError>;

#[idempotent(scope = source, key = message.id)]
async fn smallest(tx: &mut PgConnection, source: &str, message: &Message) -> Result<i64, sqlx::Error> {
    let length = i64::try_from(message.body.len()).unwrap_or_default();
    sqlx::query_scalar("SELECT $1::bigint + length($2)").bind(length).bind(source).fetch_one(tx).await
}

#[idempotent(scope = queue, key = message.meta.number, payload = message.body)]
async fn by_value(queue: Queue, tx: &mut SqliteConnection, message: Message) -> Outcome<Receipt> {
    let Message { id, meta: Meta { partition, number, queue: other }, body } = message;
    if body.is_empty() || other.0 != queue.0 {
        return Err(HandleError::NoOrder);
    }
    sqlx::query("SELECT $1").bind(id).execute(tx).await?;
    Ok(Receipt { number: i64::from(partition) + i64::from(number.is_some()) })
}

#[idempotent(scope = queue, key = id, payload = body)]
async fn destructured(
    Message { ref id, meta: Meta { mut queue, number: None | Some(_), .. }, mut body }: Message,
    tx: &mut Transaction<'_, Postgres>,
) -> Outcome<()> {
    body.push(0);
    if body.len() > id.len() {
        queue = Queue("");
    }
    sqlx::query("SELECT $1").bind(queue.0).execute(&mut **tx).await?;
    Ok(())
}

#[idempotent(scope = source, key = (message).id().trim())]
async fn by_method((source, message): (&str, &Message), _tx: &mut PgConnection) -> Result<(), ()> {
    if source == message.id { Ok(()) } else { Err(()) }
}

#[idempotent(scope = source, key = ids[0])]
async fn by_index(_tx: &mut PgConnection, _source: u8, source: &Queue, ids: &[u64]) -> Result<usize, String> {
    ids.get(1).and_then(|id| usize::try_from(*id).ok()).ok_or_else(|| source.0.to_owned())
}

#[idempotent(scope = source, key = id)]
async fn used_by_the_attribute_alone(_tx: &mut PgConnection, source: &str, id: u64) -> Result<(), ()> {
    Ok(())
}

#[idempotent(scope = message, key = message.id)]
async fn itself(_tx: &mut PgConnection, message: Whole) -> Result<(), ()> {
    drop(message);
    Ok(())
}

struct Whole {
    id: String,
    /// Not `Sync`: the future can be sent all the same.
    seen: Cell<u8>,
}

impl Scope for Whole {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new([self.seen.get()]).and(&self.id)
    }
}

#[idempotent(scope = r#type, key = r#in.r#move)]
async fn r#match(r#fn: &mut PgConnection, r#type: Queue, r#in: Raw) -> Result<String, ()> {
    let _ = r#fn;
    Ok(format!("{}{}", r#in.r#move, r#type.0))
}

struct Raw {
    r#move: u64,
}

/// Written with the names of the expansion, and its own name is a parameter's.
#[idempotent(scope = source, key = id, payload = payload)]
#[allow(clippy::too_many_arguments)]
async fn internals(
    claimed: &mut PgConnection,
    source: &str,
    id: &str,
    payload: &str,
    idempotency: u8,
    result: &u8,
    unclaimed: u8,
    argument_0: u8,
    whose: u8,
    internals: u8,
) -> Result<String, ()> {
    let _ = claimed;
    Ok(format!("{source}{id}{payload}{idempotency}{result}{unclaimed}{argument_0}{whose}{internals}"))
}

#[idempotent(
    scope = source,
    key = id,
    payload = id,
    retention = "14d",
    isolation = "serializable",
    operation = "all",
    allow(pool, short_retention),
    crate = crate::accept::renamed::prelude::idem
)]
async fn all_options(_tx: &mut PgConnection, source: &str, id: &str, pool: &PgPool) -> Result<String, ()> {
    Ok(format!("{source}{id}{}", pool.size()))
}

#[idempotent(scope = source, key = id)]
#[tracing::instrument(skip_all, fields(id = id))]
async fn instrumented(tx: &mut PgConnection, source: &str, id: u64) -> Result<u64, sqlx::Error> {
    sqlx::query("SELECT $1").bind(source).execute(tx).await.map(|done| done.rows_affected())
}

/// What cannot be sent is a future on one thread.
#[idempotent(scope = source, key = id)]
async fn on_one_thread(_tx: &mut PgConnection, source: &str, id: Rc<str>) -> Result<String, ()> {
    Ok(format!("{source}{id}"))
}

#[idempotent(scope = source, key = id)]
async fn with_cfg(
    #[cfg(not(test))] _tx: &mut PgConnection,
    #[cfg(test)] _tx: &mut SqliteConnection,
    source: &str,
    id: u64,
    #[cfg(test)] more: &str,
    #[cfg(not(test))] _nothing: Nothing,
) -> Result<String, ()> {
    Ok(format!("{source}{id}{more}"))
}

/// What a company's own macro writes.
macro_rules! consumer {
    ($name:ident, $message:ident: $Type:ty, $key:expr) => {
        #[idempotent(scope = source, key = $key)]
        async fn $name(_tx: &mut PgConnection, source: &str, $message: $Type) -> Result<String, ()> {
            Ok(format!("{source}{}", $message.id))
        }
    };
}

consumer!(by_macro, message: &Message, message.id);

mod inside {
    use super::{PgConnection, idempotent};

    #[idempotent(scope = source, key = id)]
    pub(super) async fn visible(_tx: &mut PgConnection, source: &str, id: u64) -> Result<(), ()> {
        Ok(())
    }
}

async fn postgres(idempotency: Idempotency<Postgres>, message: Message) -> Outcome<()> {
    let told: Result<Once<i64>, ConsumeError<sqlx::Error>> = smallest(&idempotency, "orders", &message).await;
    match told {
        Ok(Once::Ran(_) | Once::AlreadyDone(_)) => {}
        Err(ConsumeError::Failed(error)) => return Err(error.into()),
        Err(_) => return Err(HandleError::NoOrder),
    }
    let told: Result<Once<()>, ConsumeError<HandleError>> = destructured(&idempotency, message.clone()).await;
    assert!(told.is_ok());
    assert!(by_method(&idempotency, ("orders", &message)).await.is_ok());
    assert!(by_index(&idempotency, 0, &Queue("orders"), &[1, 2]).await.is_ok());
    assert!(used_by_the_attribute_alone(&idempotency, "orders", 1).await.is_ok());
    assert!(itself(&idempotency, Whole { id: message.id.clone(), seen: Cell::new(1) }).await.is_ok());
    assert!(r#match(&idempotency, Queue("orders"), Raw { r#move: 1 }).await.is_ok());
    assert!(internals(&idempotency, "orders", "1", "body", 1, &2, 3, 4, 5, 6).await.is_ok());
    assert!(instrumented(&idempotency, "orders", 1).await.is_ok());
    assert!(by_macro(&idempotency, "orders", &message).await.is_ok());
    assert!(inside::visible(&idempotency, "orders", 1).await.is_ok());
    Ok(())
}

async fn sqlite(
    idempotency: Idempotency<Sqlite>,
    message: Message,
) -> Result<Once<Receipt>, ConsumeError<HandleError>> {
    assert!(with_cfg(&idempotency, "orders", 1, "more").await.is_ok());
    by_value(&idempotency, Queue("orders"), message).await
}

async fn local(idempotency: &Idempotency<Postgres>, pool: &PgPool) {
    assert!(on_one_thread(idempotency, "orders", Rc::from("1")).await.is_ok());
    assert!(all_options(idempotency, "orders", "1", pool).await.is_ok());
}

#[test]
fn all_can_be_called_and_their_futures_sent() {
    let _spawned = |idempotency, message| assert_send(postgres(idempotency, message));
    let _spawned_too = |idempotency, message| assert_send(sqlite(idempotency, message));
}
