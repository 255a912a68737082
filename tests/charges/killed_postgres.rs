//! SIGKILL at each step of an attempt, on PostgreSQL. The proxy holds a statement or its response, the network holds a
//! charge, so the app is killed in exactly the step that the test names.

use idem_tests::{
    databases::{Postgres, postgres},
    process::Process,
    proxy::{Proxy, Trap},
};
use sqlx::Row;

use super::{
    harness::{CHARGE, Decided, Network, app, app_without_recovery, kill, one_charge, quiet_app, runs, through},
    relay::Closed,
};

/// What idem says to the database; `tests/cost.rs` shows the whole of it.
const CLAIM: &str = "INSERT INTO idem_records";
const BEGIN: &str = "BEGIN";
const WRITE: &str = "INSERT INTO charges";
const COMMIT: &str = "COMMIT";

/// One database, and an app that reaches it through a proxy.
struct World {
    network: Network,
    database: Postgres,
    proxy: Proxy,
    app: Process,
}

impl World {
    async fn new() -> Self {
        let (network, database) = (Network::start().await, postgres().await);
        let proxy = Proxy::start(&database).await;
        let app = quiet_app(&proxy, &database, &network.url()).await;
        Self { network, database, proxy, app }
    }

    /// Kills the app where it is, and then the connections that the proxy keeps for it.
    async fn killed(self) -> (Network, Postgres) {
        kill(self.app).await;
        drop(self.proxy);
        (self.network, self.database)
    }

    /// Runs the attempt until the network has charged and holds the response. Arms the trap that it meets next.
    async fn charged_and_trapped(&self, arm: impl FnOnce(&Proxy) -> Trap) -> Trap {
        self.network.next("hold-answer").await;
        let _client = CHARGE.begin(&self.app).await;
        self.network.holding(1).await;
        let trap = arm(&self.proxy);
        self.network.release().await;
        trap.sprung().await;
        trap
    }
}

/// A new app on what the killed one left, and what must hold then.
async fn recovers(network: &Network, database: &Postgres, decided: Decided) {
    let app = app(&database.url(), &network.url()).await;
    one_charge(network, &app, CHARGE, decided).await;
    kill(app).await;
}

/// How many keys are claimed, and how many rows there are, as others see it.
async fn seen(database: &Postgres) -> (i64, i64) {
    let counts = "SELECT (SELECT count(*) FROM idem_records), (SELECT count(*) FROM charges)";
    let counts = sqlx::query(counts).fetch_one(&mut database.connect().await).await.expect("counts");
    (counts.get(0), counts.get(1))
}

#[tokio::test]
async fn before_the_claim() {
    let world = World::new().await;
    let trap = world.proxy.hold(CLAIM);
    let _client = CHARGE.begin(&world.app).await;
    trap.sprung().await;
    assert_eq!((runs(&world.app).await, seen(&world.database).await), (0, (0, 0)));
    let (network, database) = world.killed().await;
    assert_eq!(network.requests().await, 0);
    recovers(&network, &database, Decided::Run).await;
}

/// The claim is committed, and the app does not know it yet.
#[tokio::test]
async fn claimed() {
    let world = World::new().await;
    let trap = world.proxy.hold_answer(CLAIM);
    let _client = CHARGE.begin(&world.app).await;
    trap.sprung().await;
    assert_eq!((runs(&world.app).await, seen(&world.database).await), (0, (1, 0)));
    let (network, database) = world.killed().await;
    assert_eq!(network.requests().await, 0);
    recovers(&network, &database, Decided::Run).await;
}

#[tokio::test]
async fn before_the_call_arrives() {
    let (network, database, closed) = (Network::start().await, postgres().await, Closed::start().await);
    let app = app_without_recovery(&database.url(), &closed.url()).await;
    let _client = CHARGE.begin(&app).await;
    closed.arrived().await;
    assert_eq!((runs(&app).await, seen(&database).await), (1, (1, 0)));
    kill(app).await;
    assert_eq!(network.requests().await, 0);
    recovers(&network, &database, Decided::Run).await;
}

/// The network has the request and charges only after recovery has found no charge: one key, one charge.
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
    let world = World::new().await;
    world.network.next("hold-answer").await;
    let _client = CHARGE.begin(&world.app).await;
    world.network.holding(1).await;
    assert_eq!(seen(&world.database).await, (1, 0));
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Replay).await;
}

/// The app has the network's response. It has begun to open the transaction that would store it.
#[tokio::test]
async fn answered() {
    let world = World::new().await;
    let _trap = world.charged_and_trapped(|proxy| proxy.hold(BEGIN)).await;
    assert_eq!(seen(&world.database).await, (1, 0));
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Replay).await;
}

#[tokio::test]
async fn the_completing_transaction_open() {
    let world = World::new().await;
    let _trap = world.charged_and_trapped(|proxy| proxy.hold_answer(WRITE)).await;
    assert_eq!(seen(&world.database).await, (1, 0));
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Replay).await;
}

/// Sent, and never received: the server rolls back.
#[tokio::test]
async fn commit_sent() {
    let world = World::new().await;
    let _trap = world.charged_and_trapped(|proxy| proxy.hold(COMMIT)).await;
    assert_eq!(seen(&world.database).await, (1, 0));
    let (network, database) = world.killed().await;
    recovers(&network, &database, Decided::Replay).await;
}

/// Committed, but the app does not know it: its client gets no response, the retry replays at once.
#[tokio::test]
async fn committed() {
    let world = World::new().await;
    let _trap = world.charged_and_trapped(|proxy| proxy.hold_answer(COMMIT)).await;
    assert_eq!(seen(&world.database).await, (1, 1));
    let (network, database) = world.killed().await;
    let app = app_without_recovery(&database.url(), &network.url()).await;
    assert_eq!(CHARGE.answer(&app).await.status, 201, "there is nothing to recover");
    one_charge(&network, &app, CHARGE, Decided::Replay).await;
}

#[tokio::test]
async fn committed_and_answered() {
    let world = World::new().await;
    let answer = CHARGE.answer(&world.app).await;
    let (network, database) = world.killed().await;
    let app = app_without_recovery(&database.url(), &network.url()).await;
    assert_eq!(CHARGE.answer(&app).await.body, answer.body);
    one_charge(&network, &app, CHARGE, Decided::Replay).await;
}

/// Recovery dies like anything else, here with its verdict written and not committed: the next one decides.
#[tokio::test]
async fn recovery_itself_before_its_commit() {
    let world = World::new().await;
    world.network.next("hold-answer").await;
    let _client = CHARGE.begin(&world.app).await;
    world.network.holding(1).await;
    let (network, database) = world.killed().await;

    let proxy = Proxy::start(&database).await;
    let trap = proxy.hold_answer(WRITE);
    let recovering = app(&through(&proxy, &database), &network.url()).await;
    trap.sprung().await;
    kill(recovering).await;
    drop(proxy);
    recovers(&network, &database, Decided::Replay).await;
}
