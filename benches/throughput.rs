//! Throughput over real sockets of a handler on PostgreSQL: bare transaction, new key, replay, conflict, in one run.
//! `IDEM_TEST_POSTGRES=postgres://… cargo bench -p idem-benches`; the server's own settings are printed with it.

use std::{
    net::SocketAddr,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{FromRef, State},
    http::StatusCode,
    routing::post,
};
use idem_runtime::{Idempotency, Scope, ScopeId, idempotent};
use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Postgres,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

const CONNECTIONS: u32 = 16;
const ROUND: Duration = Duration::from_secs(1);
/// The rounds alternate, so that what else the machine does falls on all of them alike.
const ROUNDS: usize = 5;
const ACCOUNTS: i64 = 10_000;

#[derive(Clone)]
struct App {
    idempotency: Idempotency<Postgres>,
    pool: PgPool,
    /// Holds the one payment open that the conflicts run into.
    held: Arc<Notify>,
}

impl FromRef<App> for Idempotency<Postgres> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

struct Account;

impl<S: Sync> axum::extract::FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Self)
    }
}

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new("acct_1")
    }
}

/// What a payment does at the least: one statement.
async fn pay(connection: &mut PgConnection, body: &str) -> (StatusCode, &'static str) {
    sqlx::query("INSERT INTO payments (amount, note) VALUES (1999, $1) RETURNING id")
        .bind(body)
        .fetch_one(connection)
        .await
        .expect("the payment is written");
    (StatusCode::CREATED, r#"{"id":"pay_1","amount":1999,"currency":"USD","status":"succeeded"}"#)
}

/// What a transfer does: the account is read, the payment written, the balance moved.
async fn transfer(connection: &mut PgConnection, body: &str) -> (StatusCode, &'static str) {
    let account = SERIAL.fetch_add(1, Ordering::Relaxed) % ACCOUNTS;
    let read = sqlx::query("SELECT balance FROM accounts WHERE id = $1").bind(account);
    read.fetch_one(&mut *connection).await.expect("the account is read");
    let answer = pay(&mut *connection, body).await;
    let moved = sqlx::query("UPDATE accounts SET balance = balance - 1999 WHERE id = $1").bind(account);
    moved.execute(connection).await.expect("the balance is moved");
    answer
}

/// The two kinds of handler, each with idem and without.
macro_rules! handlers {
    ($($bare:ident, $keyed:ident: $work:ident;)*) => {$(
        async fn $bare(_: Account, State(app): State<App>, body: String) -> (StatusCode, &'static str) {
            let mut transaction = app.pool.begin().await.expect("a transaction");
            let answer = $work(&mut transaction, &body).await;
            transaction.commit().await.expect("committed");
            answer
        }

        #[idempotent(scope = account)]
        async fn $keyed(account: Account, tx: &mut PgConnection, body: String) -> (StatusCode, &'static str) {
            $work(tx, &body).await
        }
    )*};
}

handlers! {
    bare_payment, keyed_payment: pay;
    bare_transfer, keyed_transfer: transfer;
}

#[idempotent(scope = account)]
async fn slow(account: Account, State(app): State<App>, tx: &mut PgConnection) -> (StatusCode, &'static str) {
    let answer = pay(tx, "held").await;
    app.held.notified().await;
    answer
}

#[derive(Clone, Copy)]
enum Keys {
    None,
    Fresh,
    /// A key that was used before, another one for each worker.
    Used,
    One(&'static str),
}

struct Case {
    name: &'static str,
    path: &'static str,
    keys: Keys,
    status: &'static str,
}

const fn case(name: &'static str, path: &'static str, keys: Keys, status: &'static str) -> Case {
    Case { name, path, keys, status }
}

/// The first of each block is what the others of the block are compared with.
const CASES: [&[Case]; 2] = [
    &[
        case("payment, bare transaction", "/payments/bare", Keys::None, "201"),
        case("payment, new key", "/payments", Keys::Fresh, "201"),
        case("payment, replay", "/payments", Keys::Used, "201"),
        case("payment, conflict", "/slow", Keys::One("held"), "409"),
    ],
    &[
        case("transfer, bare transaction", "/transfers/bare", Keys::None, "201"),
        case("transfer, new key", "/transfers", Keys::Fresh, "201"),
    ],
];

static SERIAL: AtomicI64 = AtomicI64::new(0);

/// Requests answered in one round by as many clients as there are connections.
async fn round(address: SocketAddr, case: &'static Case) -> u64 {
    let end = Instant::now() + ROUND;
    let clients = (0..CONNECTIONS).map(|client| {
        tokio::spawn(async move {
            let mut connection = Client::connect(address).await;
            let mut answered = 0;
            while Instant::now() < end {
                let key = match case.keys {
                    Keys::None => None,
                    Keys::Fresh => {
                        Some(format!("fresh-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed)))
                    }
                    Keys::Used => Some(format!("used-{client}")),
                    Keys::One(key) => Some(key.to_owned()),
                };
                let status = connection.post(case.path, key.as_deref()).await;
                assert_eq!(status, case.status, "{}", case.name);
                answered += 1;
            }
            answered
        })
    });
    let mut total = 0;
    for client in clients.collect::<Vec<_>>() {
        total += client.await.expect("a client");
    }
    total
}

/// A client that keeps its connection, and spends as little of the machine as it can.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, buffer: vec![0; 4096] }
    }

    /// Posts a small payment and returns the status. Here each response arrives in one piece.
    async fn post(&mut self, path: &str, key: Option<&str>) -> String {
        let key = key.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: bench\r\n{key}content-length: 15\r\n\r\n{{\"amount\":1999}}");
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        let mut read = 0;
        loop {
            read += self.stream.read(&mut self.buffer[read..]).await.expect("an answer");
            let answer = String::from_utf8_lossy(&self.buffer[..read]);
            if let Some((head, body)) = answer.split_once("\r\n\r\n") {
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                if body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
                    return head.split(' ').nth(1).unwrap_or_default().to_owned();
                }
            }
        }
    }
}

#[tokio::main]
async fn main() {
    let Ok(url) = std::env::var("IDEM_TEST_POSTGRES") else {
        eprintln!("set IDEM_TEST_POSTGRES to the URL of a PostgreSQL server on which this may create a database");
        std::process::exit(2);
    };
    let server = PgConnectOptions::from_str(&url).expect("a URL");
    let database = format!("idem_bench_{}", std::process::id());
    run_on(&server, &format!("CREATE DATABASE {database}")).await;
    measure(server.clone().database(&database)).await;
    run_on(&server, &format!("DROP DATABASE {database} WITH (FORCE)")).await;
}

async fn run_on(server: &PgConnectOptions, statement: &str) {
    let mut connection = PgConnection::connect_with(server).await.expect("a server");
    connection.execute(AssertSqlSafe(statement)).await.expect("a role that may create databases");
}

async fn measure(database: PgConnectOptions) {
    // One more than there are clients, for the payment that is held open all the while.
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS + 1).connect_with(database).await.expect("a pool");
    let address = serve(&pool).await;

    for client in 0..CONNECTIONS {
        let status = Client::connect(address).await.post("/payments", Some(&format!("used-{client}"))).await;
        assert_eq!(status, "201");
    }
    tokio::spawn(async move { Client::connect(address).await.post("/slow", Some("held")).await });

    for case in CASES.iter().copied().flatten() {
        round(address, case).await;
    }
    let mut totals = [[0; 4]; 2];
    for _ in 0..ROUNDS {
        for (totals, block) in totals.iter_mut().zip(CASES) {
            for (total, case) in totals.iter_mut().zip(block) {
                *total += round(address, case).await;
            }
        }
    }
    print(&pool, &totals).await;
}

async fn serve(pool: &PgPool) -> SocketAddr {
    let idempotency = Idempotency::builder(pool.clone()).build();
    idempotency.migrate().await.expect("migrated");
    for statement in [
        "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int, note text)",
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint)",
        "INSERT INTO accounts SELECT id, 0 FROM generate_series(0, 9999) AS id",
    ] {
        sqlx::query(statement).execute(pool).await.expect("set up");
    }
    let app = App { idempotency, pool: pool.clone(), held: Arc::new(Notify::new()) };
    let router = Router::new()
        .route("/payments/bare", post(bare_payment))
        .route("/payments", post(keyed_payment))
        .route("/transfers/bare", post(bare_transfer))
        .route("/transfers", post(keyed_transfer))
        .route("/slow", post(slow))
        .with_state(app);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn print(pool: &PgPool, totals: &[[u64; 4]; 2]) {
    let settings = "SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync') \
                    || ', synchronous_commit ' || current_setting('synchronous_commit')";
    let settings: String = sqlx::query_scalar(settings).fetch_one(pool).await.expect("settings");
    println!("{settings}; {CONNECTIONS} connections, {ROUNDS} alternating rounds of {ROUND:?} each");
    for (totals, block) in totals.iter().zip(CASES) {
        println!("\n{:<28} {:>10} {:>8}", "", "requests/s", "ratio");
        for (total, case) in totals.iter().zip(block) {
            let seconds = ROUNDS as f64 * ROUND.as_secs_f64();
            println!("{:<28} {:>10.0} {:>8.2}", case.name, *total as f64 / seconds, *total as f64 / totals[0] as f64);
        }
    }
}
