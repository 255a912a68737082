//! SIGKILL at each step of an attempt, on SQLite. There is no connection to put a proxy in, so a step is held by the file's
//! write lock, or by a trigger that takes for ever.
//!
//! Not reached, because nothing outside the process can stop it there: the moment between the claim's commit and the body
//! (`before_the_call_arrives` leaves the same record), and a COMMIT of which the process has not heard, which is a
//! function call here (`the_record_written` is the statement before, `committed_and_answered` the moment after).

use idem_tests::{
    databases::{Sqlite, sqlite},
    process::Process,
    soon,
};
use sqlx::{AssertSqlSafe, Connection, Executor, Row, SqliteConnection};

use super::{
    harness::{CHARGE, Decided, Network, app, app_without_recovery, kill, one_charge, runs},
    relay::Closed,
};

/// Counts to a number that no machine reaches.
const FOR_EVER: &str = "\
    SELECT count(*) FROM (WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT n FROM numbers)";

struct World {
    network: Network,
    database: Sqlite,
    app: Process,
    /// A connection of the test's own.
    beside: SqliteConnection,
}

impl World {
    async fn new() -> Self {
        let (network, database) = (Network::start().await, sqlite());
        let app = app_without_recovery(&database.url(), &network.url()).await;
        let beside = SqliteConnection::connect_with(&database.options()).await.expect("a connection");
        Self { network, database, app, beside }
    }

    /// How many keys are claimed, and how many rows there are.
    async fn seen(&mut self) -> (i64, i64) {
        let counts = "SELECT (SELECT count(*) FROM idem_records), (SELECT count(*) FROM charges)";
        let counts = self.beside.fetch_one(counts).await.expect("counts");
        (counts.get(0), counts.get(1))
    }

    /// Takes the file's one write lock, so that the app waits for it.
    async fn lock(&mut self) {
        self.beside.execute("BEGIN IMMEDIATE").await.expect("the write lock");
    }

    /// Runs the attempt until the network has charged and holds the response.
    async fn charged(&self) {
        self.network.next("hold-answer").await;
        let _client = CHARGE.begin(&self.app).await;
        self.network.holding(1).await;
    }

    /// Makes the next write of a kind last for ever, lets the attempt run into it, and waits until it is inside.
    async fn stuck_in(&mut self, write: &str) {
        self.charged().await;
        let trigger = format!("CREATE TRIGGER stuck AFTER {write} BEGIN {FOR_EVER}; END");
        self.beside.execute(AssertSqlSafe(trigger)).await.expect("a trigger");
        self.beside.execute("PRAGMA busy_timeout = 0").await.expect("a pragma");
        self.network.release().await;
        let inside = async {
            // Whoever cannot have the write lock knows that another has it.
            while self.beside.execute("BEGIN IMMEDIATE; ROLLBACK").await.is_ok() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        soon("the app to be inside its write", inside).await;
    }

    async fn killed(mut self) -> (Network, Sqlite) {
        kill(self.app).await;
        // The dead process' lock is gone with it.
        let _ended = self.beside.execute("ROLLBACK").await;
        self.beside.execute("DROP TRIGGER IF EXISTS stuck").await.expect("no trigger");
        self.beside.close().await.expect("a clean end");
        (self.network, self.database)
    }
}

/// A new app on what the killed one left, and what must hold then.
async fn recovers(network: &Network, database: &Sqlite, decided: Decided) {
    let app = app(&database.url(), &network.url()).await;
    one_charge(network, &app, CHARGE, decided).await;
    kill(app).await;
}

#[tokio::test]
async fn before_the_claim() {
    let mut world = World::new().await;
    world.lock().await;
    let _client = CHARGE.begin(&world.app).await;
    assert_eq!((runs(&world.app).await, world.seen().await), (0, (0, 0)));
    let (network, database) = world.killed().await;
    assert_eq!(network.requests().await, 0);
    recovers(&network, &database, Decided::Run).await;
}

#[tokio::test]
async fn before_the_call_arrives() {
    let (network, database, closed) = (Network::start().await, sqlite(), Closed::start().await);
    let app = app_without_recovery(&database.url(), &closed.url()).await;
    let _client = CHARGE.begin(&app).await;
    closed.arrived().await;
    assert_eq!(runs(&app).await, 1);
    kill(app).await;
    assert_eq!(network.requests().await, 0);
    recovers(&network, &database, Decided::Run).await;
}

#[tokio::test]
async fn called_and_still_under_way() {
    let world = World::new().await;
    world.network.next("hold-request").await;
    let _client = CHARGE.begin(&world.app).await;
    world.network.holding(1).await;
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Run).await;
    network.release().await;
    network.heard(2).await;
    assert_eq!(network.ledger().await.len(), 1);
}

#[tokio::test]
async fn called_and_unanswered() {
    let mut world = World::new().await;
    world.charged().await;
    assert_eq!(world.seen().await, (1, 0));
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Replay).await;
}

/// The network has responded, but the transaction that would store the response cannot be opened.
#[tokio::test]
async fn answered() {
    let mut world = World::new().await;
    world.charged().await;
    world.lock().await;
    world.network.release().await;
    world.network.holding(0).await;
    assert_eq!(world.seen().await, (1, 0));
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Replay).await;
}

#[tokio::test]
async fn the_completing_transaction_open() {
    let mut world = World::new().await;
    world.stuck_in("INSERT ON charges").await;
    assert_eq!(world.seen().await, (1, 0));
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Replay).await;
}

/// The statement that completes the record, the last before COMMIT.
#[tokio::test]
async fn the_record_written() {
    let mut world = World::new().await;
    world.stuck_in("UPDATE OF status ON idem_records").await;
    assert_eq!(world.seen().await, (1, 0));
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Replay).await;
}

#[tokio::test]
async fn committed_and_answered() {
    let mut world = World::new().await;
    let answer = CHARGE.answer(&world.app).await;
    assert_eq!(world.seen().await, (1, 1));
    let (network, database) = world.killed().await;
    let app = app_without_recovery(&database.url(), &network.url()).await;
    assert_eq!(CHARGE.answer(&app).await.body, answer.body);
    one_charge(&network, &app, CHARGE, Decided::Replay).await;
}
