//! Every option of the attribute, its default for the application, and that the attribute wins.
//! What an option does in full is tested where its subject is; here, who decides.

use std::time::Duration;

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, post},
};
use idem_runtime::{
    Builder, Code, Retention, RetentionError, idempotent,
    options::{
        FingerprintRule, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnClientError,
        OnServerError, SetCookie,
    },
};
use idem_tests::soon;
use sqlx::Row;

use super::{Connection, Db, ISOLATION, RETENTION, app::*};

mod methods;
mod responses;

/// Takes every option from the application.
#[idempotent(scope = account)]
async fn app_says(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> Response {
    app.runs.begin();
    write(tx, &account).await;
    (app.answer)()
}

/// One handler an option, which says the default again.
macro_rules! saying {
    ($($name:ident($($option:tt)*),)*) => {$(
        #[idempotent(scope = account, $($option)*)]
        async fn $name(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> Response {
            app.runs.begin();
            write(tx, &account).await;
            (app.answer)()
        }
    )*};
}

saying! {
    required(key = required),
    any_key(key_format = any),
    ulid(key_format = ulid),
    mismatch_422(mismatch = 422),
    a_week(retention = "7d"),
    an_hour(retention = "1h", allow(short_retention)),
    bytes(fingerprint = bytes),
    store(on_server_error = store),
    store_rejections(on_client_error = store),
    large(max_response = "1KiB"),
    both_methods(methods = [POST, PATCH]),
    patch_alone(methods = [PATCH]),
    put_and_delete(methods = [PUT, DELETE]),
    repeated_cookies(set_cookie = replay),
    dropped_cookies(set_cookie = drop),
    named(operation = "payment"),
}

fn routes() -> Router<App> {
    Router::new()
        .route("/app", any(app_says))
        .route("/required", post(required))
        .route("/any_key", post(any_key))
        .route("/ulid", post(ulid))
        .route("/mismatch_422", post(mismatch_422))
        .route("/a_week", post(a_week))
        .route("/an_hour", post(an_hour))
        .route("/bytes", post(bytes))
        .route("/store_rejections", post(store_rejections))
        .route("/store", post(store))
        .route("/large", post(large))
        .route("/both_methods", any(both_methods))
        .route("/put_and_delete", any(put_and_delete))
        .route("/patch_alone", any(patch_alone))
        .route("/orders/{order}", any(patch_alone))
        .route("/repeated_cookies", post(repeated_cookies))
        .route("/dropped_cookies", post(dropped_cookies))
        .route("/named", post(named))
}

async fn service(defaults: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Service {
    Service::of(routes(), 5, defaults, || "done".into_response()).await
}

#[tokio::test]
async fn key() {
    let service = service(|builder| builder.key(KeyPresence::Optional)).await;
    assert_eq!(service.send("POST", "/app", &[ALICE], "").await.status, 200);
    assert_eq!(service.counts().await, (1, 1, 0));
    assert_problem(&service.send("POST", "/app", &[ALICE, (KEY, "")], "").await, 400, "idempotency-key-malformed");
    assert_problem(&service.send("POST", "/required", &[ALICE], "").await, 400, "idempotency-key-missing");
    assert_eq!(service.counts().await, (1, 1, 0));
}

#[tokio::test]
async fn key_format() {
    let (uuid, ulid) = ("f47ac10b-58cc-4372-a567-0e02b2c3d479", "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    let service = service(|builder| builder.key_format(KeyFormat::Uuid)).await;
    for (path, key, status) in [
        ("/app", uuid, 200),
        ("/app", "\"f47ac10b-58cc-4372-a567-0e02b2c3d479\"", 200),
        ("/app", ulid, 400),
        ("/app", "abc", 400),
        ("/any_key", "abc", 200),
        ("/ulid", ulid, 200),
        ("/ulid", "0-ulid", 400),
    ] {
        assert_eq!(service.post(path, key, "").await.status, status, "{path} {key}");
    }
    assert_problem(&service.post("/app", ulid, "").await, 400, "idempotency-key-malformed");
    assert_eq!(service.counts().await, (3, 3, 3));
}

#[tokio::test]
async fn mismatch() {
    let service = service(|builder| builder.mismatch(Mismatch::BadRequest)).await;
    for (path, status) in [("/app", 400), ("/mismatch_422", 422)] {
        service.post(path, path, "1").await;
        assert_problem(&service.post(path, path, "2").await, status, "idempotency-key-reuse");
    }
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn retention() {
    let (day, hour) = (24 * 60 * 60, 60 * 60);
    assert_eq!(Retention::new(Duration::from_secs(hour)), Err(RetentionError::Short));
    let two_hours = Retention::short(Duration::from_secs(2 * hour)).unwrap();
    let of_app = service(|builder| builder.retention(two_hours)).await;
    for (service, path, seconds) in [
        (&service(plain).await, "/app", day),
        (&service(plain).await, "/a_week", 7 * day),
        (&of_app, "/app", 2 * hour),
        (&of_app, "/a_week", 7 * day),
        (&of_app, "/an_hour", hour),
    ] {
        service.execute("DELETE FROM idem_records").await;
        service.post(path, "k", "").await;
        let stored: i64 = sqlx::query_scalar(RETENTION).fetch_one(&service.pool).await.unwrap();
        assert_eq!(stored, i64::try_from(seconds).unwrap(), "{path}");
    }
}

#[tokio::test]
async fn fingerprint() {
    let service = service(|builder| builder.fingerprint(FingerprintRule::Json)).await;
    let first = service.post("/app", "k", r#"{"a":1,"b":2}"#).await;
    assert_replay(&first, &service.post("/app", "k", r#"{"b":2, "a":1}"#).await);
    service.post("/bytes", "b", r#"{"a":1,"b":2}"#).await;
    assert_problem(&service.post("/bytes", "b", r#"{"b":2, "a":1}"#).await, 422, "idempotency-key-reuse");
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[idempotent(scope = account, in_progress = reject)]
async fn reject(tx: &mut Connection, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    app.gate.pass().await;
    StatusCode::CREATED
}

#[tokio::test]
async fn in_progress() {
    let router = Router::new().route("/app", post(hold)).route("/reject", post(reject));
    let wait = InProgress::Wait(Duration::from_secs(60));
    let service = Service::with(router, |builder| builder.in_progress(wait)).await;
    let first = service.posting("/reject", "r", "");
    service.app.gate.entered().await;
    assert_problem(&service.post("/reject", "r", "").await, 409, "in-progress");
    service.app.gate.let_one_through();
    assert_eq!(soon("the first", first).await.unwrap().status, 201);

    let first = service.posting("/app", "k", "");
    service.app.gate.entered().await;
    let twin = service.posting("/app", "k", "");
    assert_problem(&service.post("/app", "k", "other").await, 422, "idempotency-key-reuse");
    service.app.gate.open();
    let first = soon("the first", first).await.unwrap();
    assert_replay(&first, &soon("the twin", twin).await.unwrap());
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn on_client_error() {
    let release = |builder: Builder<Db>| builder.on_client_error(OnClientError::Release);
    let rejecting = || StatusCode::NOT_FOUND.into_response();
    let service = Service::of(routes(), 5, release, rejecting).await;
    for _ in 0..2 {
        let answer = service.post("/app", "k", "").await;
        assert_eq!((answer.status, answer.header("idempotent-replayed")), (404, None));
    }
    assert_eq!(service.counts().await, (2, 0, 0));
    let first = service.post("/store_rejections", "k", "").await;
    assert_replay(&first, &service.post("/store_rejections", "k", "").await);
    assert_eq!(service.counts().await, (3, 0, 1));
}

#[tokio::test]
async fn on_server_error() {
    let release = |builder: Builder<Db>| builder.on_server_error(OnServerError::Release);
    let failing = || StatusCode::BAD_GATEWAY.into_response();
    let service = Service::of(routes(), 5, release, failing).await;
    for _ in 0..2 {
        assert_eq!(service.post("/app", "k", "").await.header("idempotent-replayed"), None);
    }
    assert_eq!(service.counts().await, (2, 0, 0));
    let first = service.post("/store", "k", "").await;
    assert_replay(&first, &service.post("/store", "k", "").await);
    assert_eq!(service.counts().await, (3, 0, 1));
}

/// Says which level it runs at.
#[idempotent(scope = account)]
async fn level(tx: &mut Connection, State(app): State<App>, account: Account) -> String {
    app.runs.begin();
    write(tx, &account).await;
    sqlx::query(ISOLATION).fetch_one(tx).await.unwrap().get(0)
}

#[idempotent(scope = account, isolation = "read committed")]
async fn read_committed(tx: &mut Connection, State(app): State<App>, account: Account) -> String {
    app.runs.begin();
    write(tx, &account).await;
    sqlx::query(ISOLATION).fetch_one(tx).await.unwrap().get(0)
}

#[tokio::test]
async fn isolation() {
    let levels = [
        (None, "read committed"),
        (Some(Isolation::RepeatableRead), "repeatable read"),
        (Some(Isolation::Serializable), "serializable"),
    ];
    for (chosen, name) in levels {
        let router = Router::new().route("/app", any(level)).route("/own", any(read_committed));
        let service = Service::with(router, |builder| match chosen {
            Some(chosen) => builder.isolation(chosen),
            None => builder,
        })
        .await;
        for method in ["POST", "GET"] {
            for (path, expected) in [("/app", name), ("/own", "read committed")] {
                let answer = service.send(method, path, &[ALICE, (KEY, path)], "").await;
                // SQLite has one level, and takes each of these for it.
                let serializable = answer.text() == "sqlite";
                assert!(serializable || answer.text() == expected, "{path} {name}: {}", answer.text());
            }
        }
        assert_eq!(service.counts().await, (4, 4, 2));
    }
}

#[tokio::test]
async fn operation() {
    let service = service(plain).await;
    for (path, name) in [("/named", "payment"), ("/app", "app_says")] {
        service.execute("DELETE FROM idem_records").await;
        service.post(path, "k", "").await;
        let stored: String =
            sqlx::query_scalar("SELECT operation FROM idem_records").fetch_one(&service.pool).await.unwrap();
        assert_eq!(stored, name);
    }
}
