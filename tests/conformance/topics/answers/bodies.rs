//! Request bodies that are read elsewhere meanwhile, or break off.
//! Each is sent piece by piece, over a raw connection.

use super::*;

/// A body that a task of its own reads while the request goes on.
struct Spooled(JoinHandle<Bytes>);

impl<S: Sync> FromRequest<S> for Spooled {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let whole = axum::body::to_bytes(request.into_body(), usize::MAX);
        Ok(Self(tokio::spawn(async { whole.await.expect("a whole body") })))
    }
}

#[idempotent(scope = account)]
async fn spool(tx: &mut Connection, State(app): State<App>, account: Account, body: Spooled) -> Bytes {
    app.runs.begin();
    write(tx, &account).await;
    body.0.await.expect("a body")
}

#[tokio::test]
async fn a_body_that_is_read_elsewhere_meanwhile_is_whole_there_and_here() {
    let service = Service::start(Router::new().route("/", post(spool))).await;
    let mut connection = http::Connection::open(service.address()).await;
    connection.send(chunked("/").as_bytes()).await;
    for chunk in ["3\r\none\r\n", "3\r\ntwo\r\n", "0\r\n\r\n"] {
        // Both readers wait for it by then, or one does not and the test proves less.
        tokio::time::sleep(Duration::from_millis(20)).await;
        connection.send(chunk.as_bytes()).await;
    }
    let first = soon("the request's end", connection.response()).await;
    assert_eq!((first.status, first.text()), (200, "onetwo"));
    assert_replay(&first, &service.post("/", "k", "onetwo").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

/// `Bytes` before the key: a body that breaks off is the client's error, and nothing runs.
#[idempotent(scope = account)]
async fn echo(tx: &mut Connection, State(app): State<App>, account: Account, body: Bytes) -> Bytes {
    app.runs.begin();
    write(tx, &account).await;
    body
}

#[tokio::test]
async fn a_body_that_breaks_off_runs_nothing() {
    let service = Service::start(Router::new().route("/", post(echo))).await;
    let mut connection = http::Connection::open(service.address()).await;
    let head = "POST / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\nidempotency-key: k\r\n";
    connection.send(format!("{head}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n").as_bytes()).await;
    assert_eq!(connection.response().await.status, 400);
    assert_eq!(service.counts().await, (0, 0, 0));
    assert_eq!(service.post("/", "k", "abc").await.text(), "abc");
    assert_eq!(service.counts().await, (1, 1, 1));
}
