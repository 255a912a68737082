//! Panics outside the body: in the scope, in what `key`, `payload` and `fingerprint` name, in an extractor of a second attempt.
//! Each is a 500 with the code of a panic, nothing ran, and the key is free. Panics of the body are in `outcomes`.

use axum::{
    Router,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{
    Idempotency, Scope, ScopeId, Settle, idempotent,
    messages::{ConsumeError, Once},
};

use super::{Connection, Db, app::*};

/// An account whose identity cannot be computed for mallory.
struct Fragile(Account);

impl<S: Send + Sync> FromRequestParts<S> for Fragile {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Account::from_request_parts(parts, state).await.map(Self)
    }
}

impl Scope for Fragile {
    fn scope_id(&self) -> ScopeId {
        assert_ne!(self.0.0, "mallory");
        self.0.scope_id()
    }
}

async fn run(tx: &mut Connection, app: &App, account: &Account) -> StatusCode {
    app.runs.begin();
    write(tx, account).await;
    StatusCode::CREATED
}

#[idempotent(scope = account)]
async fn scoped(tx: &mut Connection, State(app): State<App>, account: Fragile) -> StatusCode {
    run(tx, &app, &account.0).await
}

/// The ids of an event: the body's lines.
struct Ids(Vec<String>);

impl<S: Send + Sync> FromRequest<S> for Ids {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let body = String::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        Ok(Self(body.lines().map(str::to_owned).collect()))
    }
}

#[idempotent(webhook, scope = account, key = ids.0[0])]
async fn received(tx: &mut Connection, State(app): State<App>, account: Fragile, ids: Ids) -> StatusCode {
    assert!(!ids.0.is_empty(), "the first was the key");
    run(tx, &app, &account.0).await
}

fn first_byte(_: &Parts, body: &Bytes) -> Vec<u8> {
    vec![body[0]]
}

#[idempotent(scope = account, fingerprint = first_byte)]
async fn printed(tx: &mut Connection, State(app): State<App>, account: Fragile) -> StatusCode {
    run(tx, &app, &account.0).await
}

fn routes() -> Router<App> {
    Router::new().route("/scoped", post(scoped)).route("/received", post(received)).route("/printed", post(printed))
}

/// On a pool of one, so that a connection which is not given back shows.
async fn service(router: Router<App>) -> Service {
    Service::of(router, 1, plain, || StatusCode::OK.into_response()).await
}

#[tokio::test]
async fn what_names_the_key_may_panic_and_the_client_gets_a_response() {
    let service = service(routes()).await;
    let mallory = ("authorization", "Bearer mallory");
    for (path, account, body) in [
        ("/scoped", mallory, "1"),
        ("/received", mallory, "1"),
        ("/received", ALICE, ""),
        ("/printed", mallory, "1"),
        ("/printed", ALICE, ""),
    ] {
        for _ in 0..2 {
            let response = service.send("POST", path, &[account, (KEY, "k")], body).await;
            assert_problem(&response, 500, "idempotency-handler-panicked");
        }
        assert_eq!(service.counts().await, (0, 0, 0), "{path}");
    }
    assert_eq!(service.post("/scoped", "k", "1").await.status, 201, "the key is free");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_fingerprint_that_panics_when_it_is_compared_is_a_response() {
    let service = service(routes()).await;
    assert_eq!(service.post("/printed", "k", "1").await.status, 201);
    assert_problem(&service.post("/printed", "k", "").await, 500, "idempotency-handler-panicked");
    assert_eq!(service.post("/printed", "k", "1").await.header("idempotent-replayed"), Some("true"));
    assert_eq!(service.counts().await, (1, 1, 1));
}

/// Panics once a body has run.
struct OnceOnly;

impl FromRequestParts<App> for OnceOnly {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, StatusCode> {
        assert_eq!(app.runs.count(), 0, "extracted again");
        Ok(Self)
    }
}

#[idempotent(scope = account)]
async fn again(tx: &mut Connection, State(app): State<App>, account: Account, _: OnceOnly) -> (Settle, StatusCode) {
    (Settle::RunAgain, run(tx, &app, &account).await)
}

#[tokio::test]
async fn an_extractor_may_panic_in_a_second_attempt_and_the_client_gets_a_response() {
    let service = service(Router::new().route("/", post(again)).route("/scoped", post(scoped))).await;
    assert_problem(&service.post("/", "k", "1").await, 500, "idempotency-handler-panicked");
    assert_eq!(service.counts().await, (1, 0, 0));
    assert_eq!(service.post("/scoped", "k", "1").await.status, 201, "the key is free");
}

/// A message with its ids and its bodies.
struct Message(Vec<&'static str>, Vec<&'static str>);

struct Source(bool);

impl Scope for Source {
    fn scope_id(&self) -> ScopeId {
        assert!(self.0, "no source");
        ScopeId::new("source")
    }
}

type Told = Result<Once<()>, ConsumeError<sqlx::Error>>;

#[idempotent(scope = source, key = message.0[0], payload = message.1[0])]
async fn consume(source: Source, message: Message, tx: &mut Connection, app: &App) -> Result<(), sqlx::Error> {
    assert!(source.0 && !message.1.is_empty(), "the expressions were read before");
    run(tx, app, &Account("a message".to_owned())).await;
    Ok(())
}

async fn once(idempotency: &Idempotency<Db>, source: Source) -> Told {
    idempotency.once(source, "m", |_| Box::pin(async { Ok(()) })).await
}

#[tokio::test]
async fn a_message_whose_source_id_or_payload_panics_is_rolled_back_as_if_its_effect_did() {
    let service = service(routes()).await;
    let idempotency = &service.app.idempotency;
    for (source, ids, bodies) in [(false, vec!["m"], vec![""]), (true, vec![], vec![""]), (true, vec!["m"], vec![])] {
        let told: Told = consume(idempotency, Source(source), Message(ids, bodies), &service.app).await;
        assert!(matches!(told, Err(ConsumeError::Panicked)), "{told:?}");
    }
    let told = once(idempotency, Source(false)).await;
    assert!(matches!(told, Err(ConsumeError::Panicked)), "{told:?}");
    assert_eq!(service.counts().await, (0, 0, 0));
    let told: Told = consume(idempotency, Source(true), Message(vec!["m"], vec![""]), &service.app).await;
    assert!(matches!(told, Ok(Once::Ran(()))), "{told:?}");
    assert_eq!(service.counts().await, (1, 1, 1));
}
