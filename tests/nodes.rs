//! Two processes with external effects on one database: killed, stopped for longer and shorter than a lease, and with
//! clocks that are ten minutes apart. They share nothing in memory.

use std::{path::PathBuf, time::Duration};

use idem_tests::{
    databases::{Postgres, Sqlite, postgres, sqlite},
    http::{self, RawResponse},
    process::Process,
    soon,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};
use tokio::{process::Command, task::JoinHandle};

mod nodes {
    mod clocks;
}

const MINUTE: u64 = 60_000;

/// One database, seen from outside by a process whose clock is right.
enum Store {
    Postgres(Box<Postgres>),
    Sqlite(Sqlite),
}

impl Store {
    fn url(&self) -> String {
        match self {
            Self::Postgres(database) => database.url(),
            Self::Sqlite(database) => database.url(),
        }
    }

    async fn execute(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Postgres(database) => drop(sqlx::raw_sql(sql).execute(&mut database.connect().await).await.unwrap()),
            Self::Sqlite(database) => {
                let mut connection = SqliteConnection::connect_with(&database.options()).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    /// Before a process opens it, a SQLite file is in WAL mode: SQLite refuses the change at once while another connection
    /// writes, so the first question of a test could meet a lock.
    async fn open(&self) {
        if let Self::Sqlite(_) = self {
            self.number("SELECT 1").await;
        }
    }

    async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Postgres(database) => {
                let mut connection: PgConnection = database.connect().await;
                sqlx::query(sql).fetch_one(&mut connection).await.unwrap().get(0)
            }
            Self::Sqlite(database) => {
                let mut connection = SqliteConnection::connect_with(&database.options()).await.unwrap();
                let number = sqlx::query(sql).fetch_one(&mut connection).await.unwrap().get(0);
                connection.close().await.unwrap();
                number
            }
        }
    }

    /// Waits until as many calls have reached the network.
    async fn called(&self, calls: i64) {
        let called = async {
            while self.number("SELECT CAST(coalesce(sum(calls), 0) AS BIGINT) FROM ledger").await < calls {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("the network to be called", called).await;
    }

    async fn let_through(&self, mark: &str) {
        self.execute(&format!("INSERT INTO let_through VALUES ('{mark}')")).await;
    }

    /// Charges, calls of the network, rows, records, records in progress.
    async fn counts(&self) -> [i64; 5] {
        [
            self.number("SELECT count(*) FROM ledger").await,
            self.number("SELECT CAST(coalesce(sum(calls), 0) AS BIGINT) FROM ledger").await,
            self.number("SELECT count(*) FROM effects").await,
            self.number("SELECT count(*) FROM idem_records").await,
            self.number("SELECT count(*) FROM idem_records WHERE attempt IS NOT NULL").await,
        ]
    }

    /// Milliseconds by which the one record's lease has been moved on since its attempt began.
    async fn moved(&self) -> i64 {
        let moved = match self {
            Self::Postgres(_) => {
                "SELECT (extract(epoch FROM lease_until - created_at) * 1000)::bigint FROM idem_records"
            }
            Self::Sqlite(_) => "SELECT lease_until - created_at FROM idem_records",
        };
        self.number(moved).await
    }

    /// Milliseconds until the lease of the one attempt ends.
    async fn left(&self) -> i64 {
        let left = match self {
            Self::Postgres(_) => "(extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint",
            Self::Sqlite(_) => "lease_until - CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
        };
        self.number(&format!("SELECT {left} FROM idem_records WHERE attempt IS NOT NULL")).await
    }
}

async fn both() -> [Store; 2] {
    [Store::Postgres(Box::new(postgres().await)), Store::Sqlite(sqlite())]
}

fn command(store: &Store, lease: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_idem-node"));
    command.env("LISTEN", "127.0.0.1:0").env("DATABASE_URL", store.url()).env("LEASE", lease.to_string());
    command
}

async fn node(store: &Store, lease: u64) -> Process {
    store.open().await;
    Process::start(command(store, lease)).await
}

/// A process that takes the time of day to be another one. Its monotonic clock, by which it waits, is the machine's.
async fn node_at(store: &Store, lease: u64, time: &str) -> Process {
    store.open().await;
    let mut command = command(store, lease);
    command.env("LD_PRELOAD", faketime()).env("FAKETIME", time).env("TZ", "UTC");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    Process::start(command).await
}

fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("/usr/lib").flatten().map(|folder| folder.path());
    let mut files = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    files.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!("this test needs libfaketime: run tests/run as root, or install it (Debian: faketime)")
    })
}

fn begin(process: &Process, key: &'static str) -> JoinHandle<RawResponse> {
    let address = process.address();
    tokio::spawn(async move {
        let headers = [("x-account", "ada"), ("idempotency-key", key), ("content-type", "text/plain")];
        http::post(address, "/charge", &headers, key).await
    })
}

async fn charge(process: &Process, key: &'static str) -> RawResponse {
    begin(process, key).await.expect("no panic")
}

/// One sweep: completed, freed, failed.
async fn sweep(process: &Process) -> [u64; 3] {
    let swept = http::post(process.address(), "/sweep", &[], "").await.json();
    ["completed", "freed", "failed"].map(|count| swept[count].as_u64().expect("a count"))
}

/// Sweeps until there is something.
async fn sweep_until_found(process: &Process) -> [u64; 3] {
    let found = async {
        loop {
            let swept = sweep(process).await;
            if swept != [0; 3] {
                return swept;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("a dead attempt", found).await
}

#[track_caller]
fn assert_turned_away(answer: &RawResponse, status: u16, code: &str) {
    assert_eq!((answer.status, answer.json()["code"].as_str()), (status, Some(code)));
}

#[track_caller]
fn assert_replay_of(answer: &RawResponse, text: &str) {
    assert_eq!((answer.status, answer.text(), answer.header("idempotent-replayed")), (201, text, Some("true")));
}

#[tokio::test]
async fn b60_a_process_killed_in_the_body_is_recovered_by_another() {
    for store in both().await {
        let (mut one, other) = (node(&store, 1500).await, node(&store, 1500).await);
        let first = begin(&one, "k");
        store.called(1).await;
        // The client leaves first, and that ends no attempt.
        first.abort();
        one.signal("KILL").await;
        one.wait().await;
        // Dead, but nobody can know it yet; and then it is not for a retry to run it again.
        let twin = charge(&other, "k").await;
        assert_turned_away(&twin, 409, "in-progress");
        assert!(twin.header("retry-after").unwrap().parse::<u32>().unwrap() <= 1);
        assert_eq!(sweep_until_found(&other).await, [1, 0, 0]);
        assert!(store.number("SELECT count(*) FROM idem_records WHERE lease_until IS NOT NULL").await == 0);
        assert_replay_of(&charge(&other, "k").await, "by the recovery");
        assert_replay_of(&charge(&node(&store, 1500).await, "k").await, "by the recovery");
        assert_eq!(store.counts().await, [1, 1, 1, 1, 0]);
    }
}

#[tokio::test]
async fn b60_a_process_killed_before_its_call_frees_the_key() {
    for store in both().await {
        let (mut one, other) = (node(&store, 1500).await, node(&store, 1500).await);
        // The network does not respond: the body is stuck before its first effect.
        let lock = match &store {
            Store::Postgres(database) => {
                let mut lock = database.connect().await;
                sqlx::raw_sql("BEGIN; LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE").execute(&mut lock).await.unwrap();
                lock
            }
            // A lock there would keep the claim from being written, too.
            Store::Sqlite(_) => continue,
        };
        let first = begin(&one, "k");
        let claimed = async {
            while store.number("SELECT count(*) FROM idem_records").await == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("the claim", claimed).await;
        // The client leaves first, and that ends no attempt.
        first.abort();
        one.signal("KILL").await;
        one.wait().await;
        // The session of the killed process must not charge after all, once the lock is gone.
        let Store::Postgres(database) = &store else { continue };
        database.end_connections("wait_event_type = 'Lock'").await;
        lock.close().await.unwrap();
        assert_eq!(sweep_until_found(&other).await, [0, 1, 0]);
        store.let_through("k").await;
        let retried = charge(&other, "k").await;
        assert_eq!((retried.status, retried.text()), (201, "by the attempt"));
        assert_eq!(store.counts().await, [1, 1, 1, 1, 0]);
    }
}

#[tokio::test]
async fn b62_a_process_stopped_beyond_its_lease_cannot_change_what_was_decided() {
    for store in both().await {
        let (one, other) = (node(&store, 1500).await, node(&store, 1500).await);
        let first = begin(&one, "k");
        store.called(1).await;
        one.signal("STOP").await;
        assert_eq!(sweep_until_found(&other).await, [1, 0, 0]);
        assert_replay_of(&charge(&other, "k").await, "by the recovery");
        store.let_through("k").await;
        one.signal("CONT").await;
        let answer = soon("the answer of the stopped", first).await.unwrap();
        assert_turned_away(&answer, 503, "idempotency-outcome-unknown");
        for process in [&one, &other] {
            assert_replay_of(&charge(process, "k").await, "by the recovery");
        }
        assert_eq!((store.counts().await, sweep(&other).await), ([1, 1, 1, 1, 0], [0; 3]));
    }
}

#[tokio::test]
async fn b62_a_process_stopped_within_its_lease_ends_what_it_began() {
    for store in both().await {
        let (one, other) = (node(&store, MINUTE).await, node(&store, MINUTE).await);
        let first = begin(&one, "k");
        store.called(1).await;
        one.signal("STOP").await;
        assert_turned_away(&charge(&other, "k").await, 409, "in-progress");
        assert_eq!(sweep(&other).await, [0; 3]);
        store.let_through("k").await;
        one.signal("CONT").await;
        let answer = soon("the answer of the stopped", first).await.unwrap();
        assert_eq!((answer.status, answer.text()), (201, "by the attempt"));
        assert_replay_of(&charge(&other, "k").await, "by the attempt");
        assert_eq!((store.counts().await, sweep(&other).await), ([1, 1, 1, 1, 0], [0; 3]));
    }
}
