//! A card network and apps on one database, and the questions that every test asks them.
//! Waits are for an event at the other side (a hold, a response), never for a time.

use std::{net::SocketAddr, time::Duration};

use idem_tests::{
    databases::{Postgres, Sqlite},
    http::{self, Connection, RawResponse},
    process::{Process, charges_command},
    proxy::Proxy,
    soon,
};
use serde_json::{Value, json};
use sqlx::ConnectOptions;
use tempfile::TempDir;
use tokio::process::Command;

/// Longer than any test runs: an app with this interval does not recover.
const NEVER: &str = "3600000";

/// A card network with its own ledger.
pub struct Network {
    pub process: Process,
    _folder: TempDir,
}

impl Network {
    /// One that honours keys.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// One that does not.
    pub async fn without_keys() -> Self {
        Self::with(&["--ignore-keys"]).await
    }

    async fn with(arguments: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("idem-ledger-").tempdir().expect("a temporary folder");
        let process = Process::start(network_command(&folder, "127.0.0.1:0", arguments)).await;
        Self { process, _folder: folder }
    }

    /// Killed and started again, with the same ledger at the same address, after whatever `meanwhile` does.
    pub async fn away(self, meanwhile: impl Future<Output = ()>) -> Self {
        let Self { process, _folder: folder } = self;
        let address = process.address().to_string();
        kill(process).await;
        meanwhile.await;
        Self { process: Process::start(network_command(&folder, &address, &[])).await, _folder: folder }
    }

    pub fn address(&self) -> SocketAddr {
        self.process.address()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Says what to do with the next charge, such as `hold-answer`.
    pub async fn next(&self, conduct: &str) {
        self.control(json!({ "next": conduct })).await;
    }

    /// The same for so many charges; 0 is all.
    pub async fn next_times(&self, conduct: &str, times: u32) {
        self.control(json!({ "next": conduct, "times": times })).await;
    }

    async fn control(&self, order: Value) {
        assert_eq!(http::post(self.address(), "/control", &[], order.to_string()).await.status, 204);
    }

    /// Lets go of what is held.
    pub async fn release(&self) {
        assert_eq!(http::post(self.address(), "/release", &[], "").await.status, 204);
    }

    /// Waits until so many charges are held.
    pub async fn holding(&self, count: u64) {
        self.until("the network to hold a charge", async || self.state("holding").await == count).await;
    }

    /// Waits until so many look-ups were answered.
    pub async fn looked_up(&self, count: u64) {
        self.until("a look-up", async || self.state("lookups").await == count).await;
    }

    /// How many charges were asked for.
    pub async fn requests(&self) -> u64 {
        self.state("requests").await
    }

    async fn state(&self, name: &str) -> u64 {
        http::get(self.address(), "/control", &[]).await.json()[name].as_u64().expect("a number")
    }

    /// Waits until the first charge was asked for so often.
    pub async fn heard(&self, times: u64) {
        self.until("a charge to be asked for again", async || self.ledger().await[0]["requests"] == times).await;
    }

    /// Waits until there are so many charges in the ledger.
    pub async fn charged(&self, count: usize) {
        self.until("a charge in the ledger", async || self.ledger().await.len() == count).await;
    }

    async fn until(&self, what: &str, happened: impl AsyncFn() -> bool) {
        let wait = async {
            while !happened().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon(what, wait).await;
    }

    /// All charges, in order; declined ones too.
    pub async fn ledger(&self) -> Vec<Value> {
        listed(&http::get(self.address(), "/ledger", &[]).await.json())
    }
}

fn network_command(folder: &TempDir, listen: &str, arguments: &[&str]) -> Command {
    let mut command = charges_command("card-network");
    let ledger = format!("sqlite://{}", folder.path().join("ledger.db").display());
    command.args(arguments).env("LISTEN", listen).env("LEDGER", ledger);
    command
}

/// An app as one runs it.
pub async fn app(database_url: &str, network_url: &str) -> Process {
    Process::start(app_command(database_url, network_url)).await
}

/// An app that leaves stalled attempts to others, so that its database gets only the statements of requests.
pub async fn app_without_recovery(database_url: &str, network_url: &str) -> Process {
    let mut command = app_command(database_url, network_url);
    command.env("RECOVER_EVERY", NEVER);
    Process::start(command).await
}

/// The same behind a proxy, after its pruner, which looks once at the start, has been and gone. Then every BEGIN and COMMIT
/// that the proxy sees is a request's.
pub async fn quiet_app(proxy: &Proxy, database: &Postgres, network_url: &str) -> Process {
    let prunes = proxy.hold("DELETE FROM idem_records");
    let app = app_without_recovery(&through(proxy, database), network_url).await;
    prunes.sprung().await;
    let commits = proxy.hold("COMMIT");
    prunes.release();
    commits.sprung().await;
    commits.release();
    app
}

/// The URL of a database behind a proxy.
pub fn through(proxy: &Proxy, database: &Postgres) -> String {
    proxy.options(database).to_url_lossy().into()
}

/// An app's command, for other variables.
pub fn app_command(database_url: &str, network_url: &str) -> Command {
    let mut command = charges_command("example-charges");
    command.env("LISTEN", "127.0.0.1:0").env("DATABASE_URL", database_url).env("NETWORK", network_url);
    // The network's holds are released by tests; on a busy machine none of them may take too long for the app.
    command.env("NETWORK_TIMEOUT", "30000");
    command
}

pub async fn kill(mut process: Process) {
    process.signal("KILL").await;
    process.wait().await;
}

/// A request of Ada's.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub path: &'a str,
    pub key: &'a str,
    pub amount: u64,
    pub source: &'a str,
}

/// What most tests ask for.
pub const CHARGE: Ask = Ask { path: "/charges", key: "order-1", amount: 1999, source: "tok_visa" };

/// The same at the route for networks that honour no keys.
pub const LEGACY: Ask = Ask { path: "/legacy-charges", ..CHARGE };

impl Ask<'_> {
    /// Sends the request and leaves the connection open.
    pub async fn begin(self, app: &Process) -> Connection {
        let body = json!({ "amount": self.amount, "currency": "USD", "source": self.source }).to_string();
        let headers = [("authorization", "Bearer ada"), ("idempotency-key", self.key)];
        let mut connection = Connection::open(app.address()).await;
        connection.send(&http::request("POST", self.path, &headers, body)).await;
        connection
    }

    pub async fn answer(self, app: &Process) -> RawResponse {
        self.begin(app).await.response().await
    }

    /// Asks again until the record is decided.
    pub async fn decided(self, app: &Process) -> RawResponse {
        let asked = async {
            loop {
                let answer = self.answer(app).await;
                if answer.status != 409 {
                    return answer;
                }
                assert_eq!(answer.json()["code"], "in-progress");
                let after: u64 = answer.header("retry-after").expect("a Retry-After").parse().expect("seconds");
                assert!(after <= 3, "the lease is 3 s, not {after}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        soon("a decision", asked).await
    }
}

/// The rows of Ada's charges.
pub async fn rows(app: &Process) -> Vec<Value> {
    listed(&http::get(app.address(), "/charges", &[("authorization", "Bearer ada")]).await.json())
}

/// How many handlers have begun in this process.
pub async fn runs(app: &Process) -> u64 {
    http::get(app.address(), "/runs", &[]).await.json()["runs"].as_u64().expect("a number")
}

pub fn replayed(response: &RawResponse) -> bool {
    response.header("idempotent-replayed") == Some("true")
}

fn listed(answer: &Value) -> Vec<Value> {
    let data = answer["data"].as_array().expect("a list").clone();
    assert_eq!(answer["count"], data.len());
    data
}

/// Waits until the lease of the one attempt in progress has run out.
pub async fn postgres_lease_over(database: &Postgres) {
    let over = "SELECT count(*) FROM idem_records WHERE attempt IS NOT NULL AND lease_until <= clock_timestamp()";
    let mut connection = database.connect().await;
    one("the lease to run out", async || sqlx::query_scalar(over).fetch_one(&mut connection).await.expect("a count"))
        .await;
}

/// The same on SQLite, where times are milliseconds.
pub async fn sqlite_lease_over(database: &Sqlite) {
    let over = "SELECT count(*) FROM idem_records \
                 WHERE attempt IS NOT NULL AND lease_until <= (julianday('now') - 2440587.5) * 86400000";
    let pool = database.pool(1).await;
    one("the lease to run out", async || sqlx::query_scalar(over).fetch_one(&pool).await.expect("a count")).await;
}

async fn one(what: &str, mut count: impl AsyncFnMut() -> i64) {
    let wait = async {
        while count().await != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(what, wait).await;
}

/// What decided the response after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The stalled attempt itself, or recovery: the retry replays.
    Replay,
    /// Recovery found that nothing had happened: the retry runs.
    Run,
}

/// What must hold after every crash: one charge, one row, one response, for every client that asks.
pub async fn one_charge(network: &Network, app: &Process, ask: Ask<'_>, decided: Decided) {
    let answer = ask.decided(app).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(replayed(&answer), decided == Decided::Replay, "{}", app.output());
    assert_eq!(runs(app).await, u64::from(decided == Decided::Run));

    let ledger = network.ledger().await;
    let [charge] = &ledger[..] else { panic!("not one charge: {ledger:?}") };
    assert_eq!((&charge["id"], &charge["status"]), (&answer.json()["id"], &json!("succeeded")));
    assert_eq!(rows(app).await, [answer.json()]);

    let again = ask.answer(app).await;
    assert_eq!((again.status, replayed(&again), &again.body), (201, true, &answer.body));
    assert_eq!(network.ledger().await, ledger);
    assert_eq!(rows(app).await.len(), 1);
}
